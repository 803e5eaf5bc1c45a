/**
 * Compares one model at a time with all of them at once on one accelerator (Nexus, Figure 13; docs/architecture.md,
 * T4). It measures latency spread and goodput, on onnxruntime.
 *
 *   npm run bench:parallel-runs -- [--json] [--seconds 4] [--loads 0.5,0.7,0.9,1.1] [--sets equal,mixed] [--cores 1]
 *
 * equal: four generated MLPs of 39 MB. mixed: two MLPs and the OCR recogniser at two widths. Load 1 is what one at a
 * time can do in batches of one. The accelerator is `--cores` cores (the last ones), by `taskset`; every run has as
 * many threads. Both ways get the same Poisson arrivals, of each model an equal share of the time, and the same
 * batching: earliest deadline first, as many as still meet the head's deadline.
 */
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { availableParallelism, tmpdir } from "node:os";
import { join } from "node:path";
import type { Engine, RunOutcome } from "@tutti/ports/engine";
import { randomBatch, startOnnxEngine } from "@tutti/engine-onnx";
import { type ModelConfig, demoModel, demoModelPath, describeModel, draftModel, generateMlp } from "@tutti/onnx-tools";
import { LatencyTable } from "@tutti/profile";
import type { ModelSpec } from "@tutti/protocol";
import { Prng, micros } from "@tutti/units";
import { bindThreads, threadIds } from "./cores.ts";
import { type Arrival, type Lane, type Served, type ServedModel, percentile, serve } from "./serving.ts";
import { readArguments } from "../arguments.ts";

const USAGE =
  "npm run bench:parallel-runs -- [--json] [--seconds 4] [--loads 0.5,0.7,0.9,1.1] [--sets equal,mixed] [--cores 1] [--seed 1]\n";
const values = readArguments(USAGE, {
  json: { type: "boolean", default: false },
  seconds: { type: "string", default: "4" },
  loads: { type: "string", default: "0.5,0.7,0.9,1.1" },
  sets: { type: "string", default: "equal,mixed" },
  cores: { type: "string", default: "1" },
  seed: { type: "string", default: "1" },
});
const [seconds, threads, seed] = [Number(values.seconds), Number(values.cores), Number(values.seed)];
const loads = values.loads.split(",").map(Number);
const sets = values.sets.split(",");
if (
  !(seconds > 0) ||
  !(threads >= 1 && threads <= availableParallelism()) ||
  loads.some((load) => !(load > 0)) ||
  sets.some((set) => !isSet(set))
) {
  process.stderr.write(USAGE);
  process.exit(2);
}

interface Figures {
  readonly p50Ms: number;
  readonly p99Ms: number;
  /** p99 over p50. */
  readonly spread: number;
  /** Run time relative to an isolated run, median. */
  readonly runP50: number;
  readonly runP99: number;
  readonly goodShare: number;
  readonly goodPerSecond: number;
  readonly batchMean: number;
}
interface Row {
  readonly set: string;
  readonly load: number;
  readonly offeredPerSecond: number;
  readonly oneAtATime: Figures;
  readonly parallel: Figures;
}

const folder = mkdtempSync(join(tmpdir(), "tutti-parallel-runs-"));
/** The SLO in mean run times: a request may wait for a few batches before its own. */
const SLO_RUNS = 6;
const BATCH_MAX = 8;
/** Isolated runs of each shape, for its median. */
const RUNS = 30;
const HEAD = `load  offered  one at a time: p50     p99  p99/p50  run p99    good  at once: p50     p99  p99/p50  run p99    good`;
const say = (text: string): void => void (values.json || process.stdout.write(text));
/** Cores of the accelerator: the last ones; this thread keeps to the others, where there are any. */
const cores = Array.from({ length: threads }, (_, i) => availableParallelism() - threads + i);
const others = Array.from({ length: availableParallelism() - threads }, (_, i) => i);
if (others.length > 0) bindThreads([String(process.pid)], others);
const rows: Row[] = [];
let isBound = true;
try {
  for (const set of sets) rows.push(...(await measureSet(set)));
} finally {
  rmSync(folder, { recursive: true });
}
if (values.json) process.stdout.write(`${JSON.stringify({ cores: threads, bound: isBound, rows })}\n`);
process.exit(0);

function isSet(name: string): boolean {
  return name === "equal" || name === "mixed";
}

/** Model files, and the rows of each run's input. */
function filesOf(set: string): { readonly name: string; readonly bytes: Uint8Array; readonly config?: ModelConfig }[] {
  const mlp = (place: number) => ({
    name: `mlp-${place}`,
    bytes: generateMlp({ seed: place, widths: [512, 2048, 2048, 2048, 128] }),
  });
  if (set === "equal") return [1, 2, 3, 4].map(mlp);
  const demo = (name: string, width: number) => ({
    name,
    bytes: new Uint8Array(readFileSync(demoModelPath(demoModel(name), { cacheDir: folder }))),
    config: { ...demoModel(name).config, axes: { W: { sizes: [width], mixed: true } } },
  });
  const small = { name: "mlp-small", bytes: generateMlp({ seed: 9, widths: [256, 1024, 1024, 128] }) };
  return [mlp(1), small, demo("ocr-rec", 80), demo("ocr-rec", 160)].map((file, i) => ({
    ...file,
    name: `m${i}-${file.name}`,
  }));
}

async function measureSet(set: string): Promise<Row[]> {
  const files = filesOf(set);
  const shared = await startBound();
  const own = await Promise.all(files.map(() => startBound()));
  const specs = files.map(specOf);
  for (const [i, { bytes }] of files.entries())
    for (const engine of [shared, own[i]!]) await load(engine, { spec: specs[i]!, bytes });
  // Every shape runs once before anything is measured.
  for (const [i, engine] of own.entries()) await latenciesOf(engine, [specs[i]!]);
  const latencies = await latenciesOf(shared, specs);
  const models = specs.map((spec, i): ServedModel => ({ spec, latency: latencies[i]!, sloUs: 0 }));
  const round = models.reduce((sum, { latency }) => sum + latency.latency(1), 0);
  // One SLO for all models, so that deadlines come in the order of arrivals.
  const served = models.map((model) => ({ ...model, sloUs: (SLO_RUNS * round) / models.length }));
  const alone = models.map(({ spec, latency }) => `${spec.name} ${(latency.latency(1) / 1000).toFixed(2)} ms`);
  say(`${set}: ${alone.join(", ")} alone; SLO ${(served[0]!.sloUs / 1000).toFixed(1)} ms; ${coresText()}\n${HEAD}\n`);
  const rows: Row[] = [];
  for (const at of loads) {
    const arrivals = poisson(served, at);
    const one: Lane[] = [{ engine: shared, models: [...served.keys()] }];
    const each = own.map((engine, model): Lane => ({ engine, models: [model] }));
    const rate = arrivals.length / seconds;
    const row = {
      ...{ set, load: at, offeredPerSecond: rate },
      oneAtATime: figuresOf(await run(served, one, arrivals)),
      parallel: figuresOf(await run(served, each, arrivals)),
    };
    rows.push(row);
    say(`${textOf(row)}\n`);
  }
  for (const engine of [shared, ...own]) await new Promise<void>((stopped) => engine.stop(stopped));
  return rows;
}

function coresText(): string {
  return isBound ? `core ${cores.join(", ")}` : "no taskset here: on any core, which is no one accelerator";
}

async function startBound(): Promise<Engine> {
  const before = new Set(threadIds());
  const engine = await startOnnxEngine({ threads });
  isBound =
    bindThreads(
      threadIds().filter((id) => !before.has(id)),
      cores,
    ) && isBound;
  return engine;
}

function specOf({ name, bytes, config }: ReturnType<typeof filesOf>[number]): ModelSpec {
  const {
    sha256,
    bytes: size,
    ...model
  } = draftModel({ ...config, name, slo: "1s", max_batch_size: BATCH_MAX }, describeModel(bytes));
  return { ...model, number: 1, version: "1", file: { object: name, sha256, bytes: size } };
}

function load(engine: Engine, model: { readonly spec: ModelSpec; readonly bytes: Uint8Array }): Promise<void> {
  return new Promise((resolve, reject) =>
    engine.load(model, (outcome) => (outcome.kind === "loaded" ? resolve() : reject(new Error(outcome.reason)))),
  );
}

/** Median latencies of isolated runs, in rounds over all models: a disturbance of the machine meets them all. */
async function latenciesOf(engine: Engine, specs: readonly ModelSpec[]): Promise<LatencyTable[]> {
  const sizes = [1, 2, 4, BATCH_MAX];
  const runs = specs.map(() => sizes.map((): number[] => []));
  for (let round = 0; round < RUNS; round++) {
    for (const [i, spec] of specs.entries()) {
      for (const [k, batchSize] of sizes.entries()) {
        const batch = randomBatch(spec, { bucket: 0, batchSize, seed: round });
        const outcome = await new Promise<RunOutcome>((done) => engine.run(batch, done));
        if (outcome.kind === "failed") throw new Error(outcome.reason);
        runs[i]![k]!.push(outcome.run);
      }
    }
  }
  const median = (of: readonly number[]): number => Math.round(percentile(Float64Array.from(of).sort(), 50));
  return runs.map((bySize) =>
    LatencyTable.fromPoints(sizes.map((batchSize, k) => ({ batchSize, latency: micros(median(bySize[k]!)) }))),
  );
}

function poisson(models: readonly ServedModel[], at: number): Arrival[] {
  const arrivals = models.flatMap(({ latency }, model) => {
    const prng = new Prng(seed * 100 + model);
    const meanUs = (latency.latency(1) * models.length) / at;
    const due: Arrival[] = [];
    for (let atUs = 0; ; due.push({ atUs, model })) {
      atUs -= meanUs * Math.log(1 - prng.nextFloat());
      if (atUs >= seconds * 1e6) return due;
    }
  });
  return arrivals.sort((a, b) => a.atUs - b.atUs);
}

function run(models: readonly ServedModel[], lanes: readonly Lane[], arrivals: readonly Arrival[]): Promise<Served> {
  const now = (): number => performance.now() * 1000;
  return serve({
    models,
    lanes,
    arrivals,
    now,
    wakeAt: (at, wake) => setTimeout(wake, Math.max(0, (at - now()) / 1000)),
  });
}

function figuresOf({ latencies, stretches, offered, good, batchMean }: Served): Figures {
  const [p50Ms, p99Ms] = [percentile(latencies, 50) / 1000, percentile(latencies, 99) / 1000];
  return {
    ...{ p50Ms, p99Ms, spread: p99Ms / p50Ms },
    ...{ runP50: percentile(stretches, 50), runP99: percentile(stretches, 99) },
    ...{ goodShare: good / offered, goodPerSecond: good / seconds, batchMean },
  };
}

function textOf({ load: at, offeredPerSecond, oneAtATime, parallel }: Row): string {
  const one = ({ p50Ms, p99Ms, spread, runP99, goodShare }: Figures): string =>
    `${p50Ms.toFixed(2).padStart(8)}  ${p99Ms.toFixed(2).padStart(6)}  ${spread.toFixed(1).padStart(7)}  ${`${runP99.toFixed(1)} ×`.padStart(7)}  ${`${(100 * goodShare).toFixed(1)} %`.padStart(6)}`;
  return `${at.toFixed(1).padStart(4)}  ${`${offeredPerSecond.toFixed(0)}/s`.padStart(7)}           ${one(oneAtATime)}       ${one(parallel)}`;
}
