import { type Micros, micros } from "@tutti/units";
import { type NoiseRecording, whole, noiseLines } from "@tutti/sim-report/scenarios";
import { checkOutput, writeOutput } from "../present/output-file.ts";

export interface RecordNoiseOptions {
  readonly seconds: string;
}

/** Duration of a step of fixed work, in µs; standstills are located with this precision. */
const STEP = 50;
/** Excess over the median step in µs from which a delay is a standstill; shorter delays count as slow work. */
const STALL_LEAST = 300;
/** Length of a sample of the work's slowness, in µs: about as long as a small model's batch. */
const EVERY = micros(5_000);

/**
 * `tutti record-noise <file>`: records how this machine disturbs running work, for `noise: { file }` of a scenario. It
 * keeps one core busy meanwhile.
 */
export function recordNoise(path: string, options: RecordNoiseOptions): void {
  const seconds = whole("--seconds", options.seconds, { min: 1, max: 3_600 });
  checkOutput(path);
  const recording = listen(seconds);
  writeOutput(path, `${noiseLines(recording).join("\n")}\n`);
  const { stalls, factors } = recording;
  const stalled = stalls.reduce((sum, { length }) => sum + length, 0);
  const share = ((100 * stalled) / (seconds * 1e6)).toFixed(2);
  const p99 = factors.toSorted((a, b) => a - b)[Math.floor(0.99 * factors.length)]!.toFixed(2);
  process.stdout.write(
    `${stalls.length} standstills in ${seconds} s, ${share} % of the time; work takes up to ${p99} times as long (p99)\n`,
  );
}

function listen(seconds: number): NoiseRecording {
  const rounds = calibrate();
  const begin = performance.now();
  const end = begin + 1_000 * seconds;
  const ends: number[] = [];
  for (let now = begin; now < end; now = ends.at(-1)!) {
    work(rounds);
    ends.push(performance.now());
  }
  return analyse(ends, begin, seconds);
}

/** @param ends - ends of the steps, in ms like `begin`; the last may lie after the end of the recording */
export function analyse(ends: readonly number[], begin: number, seconds: number): NoiseRecording {
  const took = ends.map((end, i) => 1_000 * (end - (ends[i - 1] ?? begin)));
  const median = took.toSorted((a, b) => a - b)[took.length >> 1]!;
  const length = micros(1e6 * seconds);
  const stalls: { at: Micros; length: Micros }[] = [];
  const sums = Array.from({ length: Math.ceil(length / EVERY) }, () => ({ took: 0, steps: 0 }));
  for (const [i, time] of took.entries()) {
    const startedAt = 1_000 * ((ends[i - 1] ?? begin) - begin);
    const until = Math.min(length - 1, Math.round(startedAt + time)); // The last step ends after the recording.
    if (time <= median + STALL_LEAST) {
      const sum = sums[Math.floor(until / EVERY)]!;
      sum.took += time;
      sum.steps++;
      continue;
    }
    const at = Math.round(startedAt + median);
    if (until > at) stalls.push({ at: micros(at), length: micros(until - at) });
  }
  // A sample without any finished step has no information on slowness.
  const factors = sums.map((sum) => (sum.steps === 0 ? 1 : sum.took / (sum.steps * median)));
  return { length, every: EVERY, stalls, factors };
}

/** The number of rounds of work that take about one step. */
function calibrate(): number {
  let rounds = 1_000;
  for (let i = 0; i < 200; i++) {
    const begin = performance.now();
    work(rounds);
    const took = 1_000 * (performance.now() - begin);
    if (took < STEP / 2) rounds *= 2;
  }
  const times = Array.from({ length: 200 }, () => {
    const begin = performance.now();
    work(rounds);
    return 1_000 * (performance.now() - begin);
  }).sort((a, b) => a - b);
  return Math.max(1, Math.round((rounds * STEP) / Math.max(1, times[100]!)));
}

let sink = 0;
/** The work is arithmetic on memory of a cache's size, like an engine's. */
const cells = new Float32Array(16_384).fill(1.000_1);
function work(rounds: number): void {
  let sum = 0;
  for (let i = 0; i < rounds; i++) sum += cells[(i * 17) & 16_383]! * 0.5;
  sink = sum;
}
/** Returns the work's result, so that the compiler doesn't remove the work. */
export const lastResult = (): number => sink;
