/**
 * A thread that runs fixed work for a while and notes when it stood still, and how slow it was; or one that naps, and
 * notes when it was woken late. Its times are those of the system's monotonic clock, so that threads can be compared.
 */
import { parentPort, workerData } from "node:worker_threads";
import { type WatchedNoise, analyse } from "./watched-noise.ts";

export interface WatchTask {
  /** On the monotonic clock. */
  readonly beginMs: number;
  readonly seconds: number;
}
export interface WatcherData {
  /** It naps instead of working, and leaves its core to others. */
  readonly isLight: boolean;
}
export type FromWatcher = { readonly kind: "ready" } | { readonly kind: "watched"; readonly noise: WatchedNoise };

/** Duration of a step of fixed work, in µs; standstills are located with this precision. */
const STEP = 50;

/** Length of a nap, in ms: a standstill that ends within it isn't seen. */
const NAP = 0.5;

const sleeper = new Int32Array(new SharedArrayBuffer(4));
const cells = new Float32Array(16_384).fill(1.000_1);
const clockOffset = Number(process.hrtime.bigint()) / 1e6 - performance.now();
const step = (workerData as WatcherData).isLight ? nap : steps();
parentPort?.on("message", ({ beginMs, seconds }: WatchTask) => {
  const noise = watch(beginMs - clockOffset, seconds);
  parentPort?.postMessage({ kind: "watched", noise } satisfies FromWatcher);
});
parentPort?.postMessage({ kind: "ready" } satisfies FromWatcher);

function watch(begin: number, seconds: number): WatchedNoise {
  while (performance.now() < begin) step();
  const end = begin + 1_000 * seconds;
  const ends: number[] = [];
  for (let now = begin; now < end; now = ends.at(-1)!) {
    step();
    ends.push(performance.now());
  }
  return analyse(ends, begin, seconds);
}

function nap(): void {
  Atomics.wait(sleeper, 0, 0, NAP);
}

function steps(): () => void {
  const rounds = calibrate();
  return () => work(rounds);
}

/** The number of rounds of work that take about one step. */
function calibrate(): number {
  let count = 1_000;
  for (let i = 0; i < 200; i++) {
    const begin = performance.now();
    work(count);
    const took = 1_000 * (performance.now() - begin);
    if (took < STEP / 2) count *= 2;
  }
  const times = Array.from({ length: 200 }, () => {
    const begin = performance.now();
    work(count);
    return 1_000 * (performance.now() - begin);
  }).sort((a, b) => a - b);
  return Math.max(1, Math.round((count * STEP) / Math.max(1, times[100]!)));
}

/** The work is arithmetic on memory of a cache's size, like an engine's. Its result keeps it from being removed. */
function work(count: number): void {
  let sum = 0;
  for (let i = 0; i < count; i++) sum += cells[(i * 17) & 16_383]! * 0.5;
  cells[0] = sum > 0 ? 1.000_1 : sum;
}
