/**
 * Capacity of one executor. Batches run one after the other on an engine of our own, with lengths drawn as the load
 * draws them.
 */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { rowBuffer } from "@tutti/executor";
import type { Engine, LoadOutcome, RunOutcome } from "@tutti/ports/engine";
import { startOnnxEngine } from "@tutti/engine-onnx";
import { completeSpec, describeModel, draftModel } from "@tutti/onnx-tools";
import type { ModelSpec } from "@tutti/protocol";
import { Prng } from "@tutti/units";
import { fillRow } from "@tutti/wire";
import { type LiveModel, drawLength } from "./live-models.ts";

const SIZES = [1, 2, 4, 8, 16];
/** Largest share of the SLO that a batch may take: a longer one leaves the next no time to gather. */
const SLO_SHARE = 0.5;

/** Requests per second. */
export interface Capacity {
  /** In batches of one application's requests each, which have similar lengths: the executor's full capacity. */
  readonly alike: number;
  /** In batches of requests as they arrive. */
  readonly mixed: number;
  /** In batches of one. */
  readonly single: number;
}

/**
 * Measures the capacity at the best batch size. Sizes count of which nine batches in ten take at most half the SLO.
 * Each size and application runs for `seconds`.
 */
export async function capacityOf(folder: string, model: LiveModel, seconds: number): Promise<Capacity> {
  const engine: Engine = await startOnnxEngine();
  try {
    const bytes = new Uint8Array(readFileSync(join(folder, model.name, "1", "model.onnx")));
    const spec = completeSpec(draftModel(model.config, describeModel(bytes)), { number: 1, object: model.name });
    const loaded = await new Promise<LoadOutcome>((done) => engine.load({ spec, bytes }, done));
    if (loaded.kind === "failed") throw new Error(loaded.reason);
    const from = { engine, spec, prng: new Prng(11), seconds };
    const mixed = await bestRate({ ...from, model });
    let timeEach = 0;
    for (const app of model.apps)
      timeEach += app.share / (await bestRate({ ...from, model: { ...model, apps: [{ ...app, share: 1 }] } })).best;
    return { alike: 1 / timeEach, mixed: mixed.best, single: mixed.single };
  } finally {
    await new Promise<void>((done) => engine.stop(done));
  }
}

interface Drawn {
  readonly engine: Engine;
  readonly spec: ModelSpec;
  readonly model: LiveModel;
  readonly prng: Prng;
}

async function bestRate({
  seconds,
  ...from
}: Drawn & { readonly seconds: number }): Promise<{ readonly best: number; readonly single: number }> {
  let [best, single] = [0, 0];
  for (const batchSize of SIZES.filter((size) => size <= from.spec.batchSizeMax)) {
    const runs: number[] = [];
    await randomRun({ ...from, batchSize }); // cold run, not counted
    for (let us = 0; us < seconds * 1e6; us += runs.at(-1)!) runs.push(await randomRun({ ...from, batchSize }));
    const rate = (batchSize * runs.length) / (runs.reduce((sum, run) => sum + run, 0) / 1e6);
    const slow = runs.sort((a, b) => a - b)[Math.floor(0.9 * runs.length)]!;
    if (batchSize === 1) single = rate;
    if (batchSize === 1 || slow <= SLO_SHARE * from.model.sloMs * 1_000) best = Math.max(best, rate);
  }
  return { best, single };
}

/** @returns the run time of one batch, µs */
async function randomRun(from: Drawn & { readonly batchSize: number }): Promise<number> {
  const { engine, spec, model, batchSize, prng } = from;
  const buffer = rowBuffer(spec, 0, batchSize);
  for (let i = 0; i < batchSize; i++) {
    const { values, ...tensor } = model.inputOf(drawLength(model, prng).length);
    buffer.add(fillRow(spec, { inputs: [{ ...tensor, data: new Uint8Array(values.buffer) }] }).row);
  }
  let took = 0;
  for (const { rows, inputs } of buffer.parts()) {
    const batch = { model: spec.name, bucket: 0, batchSize: rows.length, inputs };
    const outcome = await new Promise<RunOutcome>((done) => engine.run(batch, done));
    if (outcome.kind === "failed") throw new Error(outcome.reason);
    took += outcome.run;
  }
  return took;
}
