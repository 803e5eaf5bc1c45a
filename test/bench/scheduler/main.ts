/** `npm run bench:scheduler`: requests per second of CPU through ModelThread and RankThread alone. */
import { type HotFunction, profiled } from "./cpu-profile.ts";
import { type Result, measure, servedLoad } from "./single.ts";
import { type ThreadedResult, measureThreaded } from "./threads.ts";
import { type Shape, boundOf, drawArrivals } from "./workload.ts";
import { readArguments } from "../arguments.ts";

const HELP = `Usage: npm run bench:scheduler -- [options]

ModelThreads, RankThread and emulated executors in virtual time; Poisson arrivals, equal models (ResNet50 of the paper's
table 2, SLO 25 ms), at the highest load in 5 % steps below the staggered bound of which at least 99.2 % is served.

  --json             print JSON instead of a table
  --models 1,10,100  numbers of models
  --gpus 8,64,1000   numbers of accelerators
  --requests 1000000 requests per measurement
  --load 0.9         share of the staggered bound, instead of searching for a served load
  --seed 1           of the arrivals
  --profile          also print the functions that the time goes into
  --threads n        models spread over n threads, one RankThread in the first, compared with one thread
                     (100 models on 1000 accelerators unless given; load 0.9; best of --repeat 3)
  --help             this text
`;

const values = readArguments(HELP, {
  json: { type: "boolean", default: false },
  models: { type: "string" },
  gpus: { type: "string" },
  requests: { type: "string", default: "1000000" },
  load: { type: "string" },
  seed: { type: "string", default: "1" },
  profile: { type: "boolean", default: false },
  threads: { type: "string" },
  repeat: { type: "string", default: "3" },
});

const numbers = (list: string): number[] => list.split(",").map((text) => positive(text));

function positive(text: string): number {
  const number = Number(text);
  if (Number.isFinite(number) && number > 0) return number;
  process.stderr.write(`bench:scheduler: '${text}' is not a positive number\n`);
  process.exit(2);
}

const requests = positive(values.requests);
const seed = positive(values.seed);

function shapes(models: string, gpus: string): Shape[] {
  return numbers(models).flatMap((m) => numbers(gpus).map((g) => ({ models: m, gpus: g })));
}

interface Measured extends Result {
  /** Load as a share of the staggered bound. */
  readonly load: number;
  readonly hot?: readonly HotFunction[];
}

async function single(): Promise<void> {
  const results: Measured[] = [];
  for (const shape of shapes(values.models ?? "1,10,100", values.gpus ?? "8,64,1000")) {
    const bound = boundOf(shape);
    const perMicro = values.load === undefined ? servedLoad(shape, seed) : positive(values.load) * bound;
    const arrivals = drawArrivals(shape, perMicro, requests, seed + 1);
    measure(shape, drawArrivals(shape, perMicro, 50_000, seed)); // warm-up: compiled before it is measured
    const load = perMicro / bound;
    const result: Measured = { ...measure(shape, arrivals), load };
    const hot = values.profile ? (await profiled(() => measure(shape, arrivals), 15)).hot : undefined;
    results.push(hot === undefined ? result : { ...result, hot });
    if (!values.json) printSingle(results.length === 1, results.at(-1)!);
  }
  if (values.json) process.stdout.write(`${JSON.stringify(results)}\n`);
}

const percent = (share: number): string => `${(100 * share).toFixed(1)} %`;
const row = (cells: readonly (string | number)[]): string =>
  `${cells.map((cell) => (typeof cell === "number" ? cell.toLocaleString("en") : cell).padStart(14)).join("")}\n`;

function printSingle(isFirst: boolean, r: Measured): void {
  const heads = ["models", "accelerators", "requests/CPU s", "served", "mean batch", "busy", "offered/s"];
  if (isFirst) process.stdout.write(row(heads));
  const cells = [r.models, r.gpus, r.requestsPerCpuSecond, percent(r.servedShare), r.meanBatch.toFixed(1)];
  process.stdout.write(row([...cells, percent(r.busyShare), r.offeredPerSecond]));
  for (const { name, place, share } of r.hot ?? []) {
    process.stdout.write(`${percent(share).padStart(22)}  ${name} (${place})\n`);
  }
}

interface Compared extends ThreadedResult {
  /** Speedups over one thread: by the wall clock, and by the CPU of the thread that works longest. */
  readonly speedupWall: number;
  readonly speedupCpu: number;
  readonly sameDecisions: boolean;
}

async function threaded(threads: number): Promise<void> {
  const results: Compared[] = [];
  for (const shape of shapes(values.models ?? "100", values.gpus ?? "1000")) {
    const perMicro = positive(values.load ?? "0.9") * boundOf(shape);
    const best = async (n: number): Promise<ThreadedResult> => {
      const runs: ThreadedResult[] = [];
      for (let i = 0; i < positive(values.repeat); i++)
        runs.push(await measureThreaded({ shape, threads: n, perMicro, requests, seed }));
      const longest = Math.min(...runs.map((run) => run.longestThreadCpuSeconds));
      const fastest = runs.toSorted((a, b) => a.wallSeconds - b.wallSeconds)[0]!;
      return { ...fastest, longestThreadCpuSeconds: longest };
    };
    const one = await best(1);
    for (const result of [one, await best(threads)]) {
      const speedupWall = one.wallSeconds / result.wallSeconds;
      const speedupCpu = one.longestThreadCpuSeconds / result.longestThreadCpuSeconds;
      results.push({ ...result, speedupWall, speedupCpu, sameDecisions: result.decisions === one.decisions });
    }
  }
  if (values.json) process.stdout.write(`${JSON.stringify(results)}\n`);
  else printThreaded(results);
  if (results.some((result) => !result.sameDecisions)) process.exitCode = 1;
}

function printThreaded(results: readonly Compared[]): void {
  const heads = ["threads", "models", "accelerators", "requests/s", "speed-up", "by CPU", "served"];
  process.stdout.write(row(heads));
  for (const r of results) {
    const speedups = [r.speedupWall.toFixed(2), r.speedupCpu.toFixed(2)];
    const cells = [r.threads, r.models, r.gpus, r.requestsPerSecond, ...speedups, percent(r.servedShare)];
    process.stdout.write(row(cells).replace("\n", `  decisions ${r.decisions}\n`));
  }
  process.stdout.write(
    "speed-up: by the wall clock, which needs as many idle cores as threads; by CPU: of the thread that works longest.\n",
  );
}

if (values.threads !== undefined) await threaded(positive(values.threads));
else await single();
