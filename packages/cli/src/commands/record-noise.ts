import { availableParallelism } from "node:os";
import { Worker } from "node:worker_threads";
import { renderTable } from "@tutti/admin";
import { type NoiseRecording, noiseLines, whole } from "@tutti/sim-report/scenarios";
import { STALL_SCOPES } from "@tutti/simulator";
import { seconds as secondsOf } from "@tutti/units";
import type { FromWatcher, WatchTask, WatcherData } from "../noise/noise-worker.ts";
import { EVERY, type WatchedNoise, scopedStalls } from "../noise/watched-noise.ts";
import { checkOutput, writeOutput } from "../present/output-file.ts";

export interface RecordNoiseOptions {
  readonly seconds: string;
  readonly light?: boolean;
}

/** Time for the threads to hear when they begin, in ms. */
const HEARD_WITHIN = 50;

/**
 * `tutti record-noise <file>`: records how this machine disturbs running work, for `noise: { file }` of a scenario. Two
 * threads watch, one as a scheduler's process and one as an accelerator's, and keep a core busy each, or nap
 * (`--light`).
 */
export async function recordNoise(path: string, options: RecordNoiseOptions): Promise<void> {
  const seconds = whole("--seconds", options.seconds, { min: 1, max: 3_600 });
  const isLight = options.light === true;
  checkOutput(path);
  // On one core two threads would only see each other.
  const [accelerator, scheduler] = await watch(availableParallelism() > 1 ? 2 : 1, { seconds, isLight });
  const recording: NoiseRecording = {
    length: secondsOf(seconds),
    every: EVERY,
    stalls: scopedStalls((scheduler ?? accelerator!).stalls, accelerator!.stalls),
    factors: isLight ? [1] : accelerator!.factors, // naps don't tell
  };
  writeOutput(path, `${noiseLines(recording).join("\n")}\n`);
  process.stdout.write(textOf(recording, isLight));
}

/** @returns what each of the threads saw in the same time */
async function watch(
  threads: number,
  { seconds, isLight }: { readonly seconds: number; readonly isLight: boolean },
): Promise<WatchedNoise[]> {
  const watchers = Array.from({ length: threads }, () => new Watcher({ isLight }));
  try {
    await Promise.all(watchers.map((watcher) => watcher.ready));
    const beginMs = Number(process.hrtime.bigint()) / 1e6 + HEARD_WITHIN;
    return await Promise.all(watchers.map((watcher) => watcher.watch({ beginMs, seconds })));
  } finally {
    for (const watcher of watchers) watcher.stop();
  }
}

class Watcher {
  readonly ready: Promise<void>;
  readonly #worker: Worker;

  constructor(workerData: WatcherData) {
    this.#worker = new Worker(new URL("../noise/noise-worker.ts", import.meta.url), { name: "noise", workerData });
    this.ready = this.#next().then(() => undefined);
  }

  async watch(task: WatchTask): Promise<WatchedNoise> {
    const answer = this.#next();
    this.#worker.postMessage(task);
    const told = await answer;
    if (told.kind !== "watched") throw new Error("a watching thread began anew");
    return told.noise;
  }

  stop(): void {
    void this.#worker.terminate();
  }

  #next(): Promise<FromWatcher> {
    return new Promise((resolve, reject) => {
      this.#worker.once("message", resolve);
      this.#worker.once("error", reject);
    });
  }
}

/** How often and for how long each scope stands still. */
function textOf({ length, stalls, factors }: NoiseRecording, isLight: boolean): string {
  const rows = STALL_SCOPES.map((scope) => {
    const lengths = stalls.filter((stall) => stall.scope === scope).map((stall) => stall.length);
    const ms = (share: number): string =>
      lengths.length === 0 ? "–" : `${(quantile(lengths, share) / 1e3).toFixed(1)} ms`;
    const sum = lengths.reduce((total, one) => total + one, 0);
    return [
      scope,
      ((1e6 * lengths.length) / length).toFixed(2),
      ms(0.5),
      ms(0.99),
      `${((100 * sum) / length).toFixed(2)} %`,
    ];
  });
  const table = renderTable(["stands still", "a second", "median", "p99", "of the time"], rows);
  if (isLight) return `${table}\n`;
  return `${table}\nwork takes up to ${quantile(factors, 0.99).toFixed(2)} times as long (p99)\n`;
}

const quantile = (values: readonly number[], share: number): number =>
  values.toSorted((a, b) => a - b)[Math.floor(share * values.length)]!;
