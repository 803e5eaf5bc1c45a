import { type Micros, seconds } from "@tutti/units";
import type { LoadedModel } from "./loaded-model.ts";
import { randomBatch } from "./random-batch.ts";

/** Largest run time of a quick model: such a run holds a thread no longer than a garbage collection does. */
export const QUICK_US = 3_000;
/** A row that took longer in the checks of a load isn't tried again: many seconds more would outlast its deadline. */
const TRIED_UP_TO: Micros = seconds(2);
/** Runs per trial: the first run of a shape takes longer. */
const RUNS = 3;

/** Whether the largest batch of a model takes QUICK_US at most, with random inputs; false where they can't be run. */
export async function isQuick(model: LoadedModel): Promise<boolean> {
  const { spec } = model;
  if (model.slowestRow > TRIED_UP_TO) return false;
  // Its time depends on the values of the inputs: a trial says nothing of the longest.
  if (Object.values(spec.axes).some(({ mode }) => mode === "pad")) return false;
  for (const bucket of spec.buckets.keys())
    for (const batchSize of new Set([1, spec.batchSizeMax]))
      if ((await bestOf(model, bucket, batchSize)) > QUICK_US) return false;
  return true;
}

async function bestOf(model: LoadedModel, bucket: number, batchSize: number): Promise<number> {
  let best = Infinity;
  for (let run = 0; run < RUNS; run++) {
    const outcome = await model.run(randomBatch(model.spec, { bucket, batchSize, seed: run + 1 }));
    if (outcome.kind !== "ran" || outcome.failedRows.length > 0) return Infinity;
    best = Math.min(best, outcome.run);
    // Far above the limit: further runs would only take time.
    if (best > 10 * QUICK_US) break;
  }
  return best;
}
