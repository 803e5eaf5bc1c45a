/**
 * The process of one part while interference is measured. It loads models and runs batches on orders from its parent
 * process; its arguments are `provider threads size`.
 */
import { readFileSync } from "node:fs";
import type { EngineBatch, RunOutcome } from "@tutti/ports/engine";
import { isProvider, randomBatch, startOnnxEngine } from "@tutti/engine-onnx";
import { sha256Of } from "@tutti/onnx-tools";
import type { ModelSpec } from "@tutti/protocol";
import { assert } from "@tutti/units";
import type { PartAnswer, PartOrder } from "./part-messages.ts";

const [provider = "", threads, part] = process.argv.slice(2);
assert(isProvider(provider), `no provider: ${provider}`);
process.on("disconnect", () => process.kill(process.pid, "SIGKILL")); // `exit` would wait for a running batch
const engine = await startOnnxEngine({ provider, threads: Number(threads), part: Number(part) });
const specs = new Map<string, ModelSpec>();

process.on("message", (order: PartOrder) => {
  perform(order).then(answer, (error: Error) => answer({ kind: "failed", reason: error.message }));
});
answer({ kind: "started" });

function answer(told: PartAnswer): void {
  process.send?.(told);
}

async function perform(order: PartOrder): Promise<PartAnswer> {
  switch (order.kind) {
    case "load":
      await load(order);
      return { kind: "loaded" };
    case "run":
      return { kind: "ran", runs: await runFor(order) };
    case "copy":
      return { kind: "copied", bytesPerSecond: copySpeed(order) };
  }
}

function load({ model, path }: Extract<PartOrder, { kind: "load" }>): Promise<void> {
  const bytes = new Uint8Array(readFileSync(path));
  const spec: ModelSpec = {
    ...{ ...model, number: 1, version: "1" },
    file: { object: path, sha256: sha256Of(bytes), bytes: bytes.byteLength },
  };
  specs.set(spec.name, spec);
  return new Promise((resolve, reject) =>
    engine.load({ spec, bytes }, (outcome) =>
      outcome.kind === "loaded" ? resolve() : reject(new Error(outcome.reason)),
    ),
  );
}

/** Runs batches for a time. Two are always submitted, so that the part never waits for this thread. */
function runFor({ model, batchSize, forMs, runsMin }: Extract<PartOrder, { kind: "run" }>): Promise<number[]> {
  const template = randomBatch(specs.get(model)!, { bucket: 0, batchSize, seed: 1 });
  const batch = (): EngineBatch => ({
    ...template,
    inputs: template.inputs.map((input) => ({ ...input, data: Uint8Array.from(input.data) })),
  });
  const until = performance.now() + forMs;
  const runs: number[] = [];
  let under = 0;
  return new Promise((resolve, reject) => {
    const next = (): void => {
      under++;
      engine.run(batch(), (outcome: RunOutcome) => {
        under--;
        if (outcome.kind === "failed") return reject(new Error(outcome.reason));
        runs.push(outcome.run / 1000);
        if (performance.now() < until || runs.length + under < runsMin + 2) next();
        // during the first and the last run the other part may have been idle
        else if (under === 0) resolve(runs.slice(1, -1));
      });
    };
    next();
    next();
  });
}

function copySpeed({ bytes, times }: Extract<PartOrder, { kind: "copy" }>): number {
  const [from, to] = [new Uint8Array(bytes).fill(1), new Uint8Array(bytes)];
  let best = Infinity;
  for (let i = 0; i < times; i++) {
    const start = performance.now();
    to.set(from);
    best = Math.min(best, performance.now() - start);
  }
  return (2 * bytes) / (best / 1000); // read and written
}
