/** One way of serving, measured in a process of its own: reads a MeasuredWork from stdin and prints a Measured. */
import { readFileSync } from "node:fs";
import type { DesiredModel } from "@tutti/client/registries";
import type { Engine, RunOutcome } from "@tutti/ports/engine";
import { randomBatch, startOnnxEngine } from "@tutti/engine-onnx";
import { sha256Of } from "@tutti/onnx-tools";
import type { ModelSpec } from "@tutti/protocol";

export interface MeasuredWork {
  readonly sloMs: number;
  readonly models: readonly { readonly model: DesiredModel; readonly path: string }[];
}

export interface Measured {
  /**
   * Most requests per second of all models together, each asked for equally often. A round of one batch of each model
   * must fit twice into the SLO.
   */
  readonly requestsPerSecond: number;
  /** Size of each batch of the round; 0 where even batches of one take too long together. */
  readonly batchSize: number;
  /** Time of one batch of every model, by the processor time of their quickest runs. */
  readonly cycleMs: number;
  /** Growth of the process, sessions and runs together. */
  readonly memoryMb: number;
}

const RUNS = 12;

if (import.meta.main) {
  const work = JSON.parse(readFileSync(0, "utf8")) as MeasuredWork;
  process.stdout.write(JSON.stringify(await measure(work)));
  process.exit(0);
}

async function measure({ sloMs, models }: MeasuredWork): Promise<Measured> {
  const engine = await startOnnxEngine();
  const before = process.memoryUsage.rss();
  const specs: ModelSpec[] = [];
  for (const { model, path } of models) specs.push(await load(engine, model, path));
  let best: Omit<Measured, "memoryMb"> = { requestsPerSecond: 0, batchSize: 0, cycleMs: 0 };
  const most = Math.min(...specs.map((spec) => spec.batchSizeMax));
  for (let batchSize = 1; batchSize <= most; batchSize *= 2) {
    let cycleMs = 0;
    for (const spec of specs) cycleMs += await quickest(engine, spec, batchSize);
    const requestsPerSecond = (1000 * batchSize * specs.length) / cycleMs;
    // A request waits for one round at most, and runs in the next.
    if (2 * cycleMs <= sloMs && requestsPerSecond > best.requestsPerSecond)
      best = { requestsPerSecond, batchSize, cycleMs };
  }
  globalThis.gc?.();
  return { ...best, memoryMb: (process.memoryUsage.rss() - before) / 1e6 };
}

function load(engine: Engine, model: DesiredModel, path: string): Promise<ModelSpec> {
  const bytes = new Uint8Array(readFileSync(path));
  const file = { object: path, sha256: sha256Of(bytes), bytes: bytes.byteLength };
  const spec: ModelSpec = { ...model, number: 1, version: "1", file };
  return new Promise((resolve, reject) =>
    engine.load({ spec, bytes }, (outcome) =>
      outcome.kind === "loaded" ? resolve(spec) : reject(new Error(outcome.reason)),
    ),
  );
}

async function quickest(engine: Engine, spec: ModelSpec, batchSize: number): Promise<number> {
  let least = Infinity;
  for (let run = 0; run <= RUNS; run++) {
    const batch = randomBatch(spec, { bucket: 0, batchSize, seed: run });
    const before = process.cpuUsage();
    const outcome = await new Promise<RunOutcome>((done) => engine.run(batch, done));
    const { user, system } = process.cpuUsage(before);
    if (outcome.kind === "failed") throw new Error(outcome.reason);
    // A run has one thread: time beyond its processor time was taken by other processes.
    if (run > 0) least = Math.min(least, Math.min(outcome.run, user + system) / 1000); // the first of a shape is longer
  }
  return least;
}
