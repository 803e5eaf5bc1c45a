/**
 * Runs seeds of the simulation. `npm run fuzz -- --seeds n [--from seed]` runs n seeds, on as many threads as there are
 * cores (`--workers w`); `--minutes n` runs until time is up; `--seed s` runs one and prints its story. Exit code 1:
 * seeds failed, and for each the command that replays it is printed. It stops after ten of them (`--failures n`).
 */
import { availableParallelism } from "node:os";
import { parseArgs } from "node:util";
import { Worker } from "node:worker_threads";
import { type FuzzJob, type FuzzReport, type SeedsTaken, failureText } from "./fuzz-seeds.ts";
import { LATER_SEEDS } from "./later-seeds.ts";
import { runTrial } from "./trial.ts";

const USAGE =
  "npm run fuzz -- [--seeds n | --minutes n] [--from seed] [--workers n] [--failures n], or --seed s to replay one";
/** Time between two lines of progress: in a log they add up, and a terminal's is overwritten. */
const PROGRESS_MS = { terminal: 250, log: 30_000 };

interface FuzzOptions {
  readonly seeds: number;
  readonly minutes: number;
  readonly from: number;
  readonly workers: number;
  readonly failures: number;
  readonly seed: number | undefined;
}

async function main(): Promise<number> {
  const options = readOptions();
  if (options === undefined) {
    console.error(`usage: ${USAGE}`);
    return 2;
  }
  return options.seed === undefined ? await fuzz(options) : replay(options.seed);
}

/** The options; undefined where one is unknown. */
function readOptions(): FuzzOptions | undefined {
  const names = ["seeds", "minutes", "from", "workers", "failures", "seed"] as const;
  const options = Object.fromEntries(names.map((name) => [name, { type: "string" as const }]));
  try {
    const { values } = parseArgs({ options });
    const number = (name: (typeof names)[number]): number | undefined => {
      const text = values[name];
      if (text === undefined) return undefined;
      if (text.trim() === "" || !(Number(text) >= 0)) throw new RangeError(`--${name} ${text}`);
      return Number(text);
    };
    return {
      seeds: number("seeds") ?? Infinity,
      minutes: number("minutes") ?? (number("seeds") === undefined ? 1 : Infinity),
      from: number("from") ?? LATER_SEEDS,
      workers: Math.max(1, number("workers") ?? availableParallelism()),
      failures: Math.max(1, number("failures") ?? 10),
      seed: number("seed"),
    };
  } catch {
    return undefined;
  }
}

async function fuzz({ seeds, minutes, from, workers, failures }: FuzzOptions): Promise<number> {
  const taken: SeedsTaken = new Int32Array(new SharedArrayBuffer(4));
  const startedMs = performance.now();
  const [job, total]: [FuzzJob, FuzzReport & { failed: number }] = [
    { taken, from, count: Math.min(seeds, 2 ** 31 - 1 - workers), forMs: minutes * 60_000 },
    { seeds: 0, asked: 0, ok: 0, failure: undefined, failed: 0 },
  ];
  const add = (report: FuzzReport): void => {
    Object.assign(total, {
      seeds: total.seeds + report.seeds,
      asked: total.asked + report.asked,
      ok: total.ok + report.ok,
    });
    if (report.failure === undefined) return;
    total.failed++;
    console.log(report.failure);
    if (total.failed >= failures) Atomics.store(taken, 0, job.count);
  };
  const progress = setInterval(() => showProgress(total, job), PROGRESS_MS[process.stderr.isTTY ? "terminal" : "log"]);
  try {
    await Promise.all(Array.from({ length: workers }, () => runWorker(job, add)));
  } finally {
    clearInterval(progress);
    if (process.stderr.isTTY) process.stderr.write("\r\u001b[K");
  }
  const elapsed = (performance.now() - startedMs) / 1_000;
  const share = Math.round((100 * total.ok) / Math.max(1, total.asked));
  const found = total.failed === 0 ? "without a violation" : `of which ${total.failed} FAILED`;
  console.log(
    `${total.seeds} seeds from ${from} and ${total.asked} requests (${share} % answered) ${found}, in ${elapsed.toFixed(0)} s ` +
      `on ${workers} threads, ${Math.round((1_000 * elapsed * workers) / Math.max(1, total.seeds))} ms a seed`,
  );
  return total.failed === 0 ? 0 : 1;
}

function runWorker(job: FuzzJob, add: (report: FuzzReport) => void): Promise<void> {
  return new Promise((resolve, reject) => {
    const worker = new Worker(new URL("./fuzz-worker.ts", import.meta.url), { workerData: job });
    worker.on("message", add);
    worker.on("error", reject);
    worker.on("exit", () => resolve());
  });
}

function showProgress({ seeds, asked, failed }: FuzzReport & { failed: number }, { count }: FuzzJob): void {
  const text = `${seeds}${count < 2 ** 30 ? ` of ${count}` : ""} seeds, ${asked} requests, ${failed} failed`;
  process.stderr.write(process.stderr.isTTY ? `\r\u001b[K${text}` : `${text}\n`);
}

function replay(seed: number): number {
  const result = runTrial(seed, "told");
  if (result.violation !== undefined) console.log(failureText(result));
  else
    console.log(
      `seed ${seed} is well: ${result.ok} of ${result.asked} requests ok, ${result.events} messages, served again ` +
        `${result.recovery / 1_000} ms after the faults, digest ${result.digest}`,
    );
  return result.violation === undefined ? 0 : 1;
}

if (import.meta.main) process.exitCode = await main();
