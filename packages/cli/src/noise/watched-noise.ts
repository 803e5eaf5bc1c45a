/** A machine's noise as watching threads see it, and whose each standstill is. */
import type { ScopedStall } from "@tutti/sim-report/scenarios";
import type { Stall } from "@tutti/simulator";
import { type Micros, micros } from "@tutti/units";

/** The noise that one thread saw. */
export interface WatchedNoise {
  readonly stalls: readonly Stall[];
  /** Slowness of work in each interval of `EVERY`, as a multiple of the median. */
  readonly factors: readonly number[];
}

/** Excess over the median step in µs from which a delay is a standstill; shorter delays count as slow work. */
const STALL_LEAST = 300;
/** Length of a sample of the work's slowness, in µs: about as long as a small model's batch. */
export const EVERY = micros(5_000);

/** @param ends - ends of the steps, in ms like `begin`; the last may lie after the end of the recording */
export function analyse(ends: readonly number[], begin: number, seconds: number): WatchedNoise {
  const took = ends.map((end, i) => 1_000 * (end - (ends[i - 1] ?? begin)));
  const median = took.toSorted((a, b) => a - b)[took.length >> 1]!;
  const length = micros(1e6 * seconds);
  const stalls: Stall[] = [];
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
  return { stalls, factors };
}

/**
 * Time at which both threads stood is the machine's. What one alone saw is that of a process: of the scheduler's in
 * `scheduler`, and of an accelerator's in `accelerator`. Rests that are too short for a standstill are left out.
 */
export function scopedStalls(scheduler: readonly Stall[], accelerator: readonly Stall[]): ScopedStall[] {
  const machine = long(overlaps(scheduler, accelerator));
  const alone = (own: readonly Stall[]): Stall[] => long(own.flatMap((stall) => rests(stall, machine)));
  return [
    ...machine.map((stall) => ({ scope: "machine" as const, ...stall })),
    ...alone(scheduler).map((stall) => ({ scope: "scheduler" as const, ...stall })),
    ...alone(accelerator).map((stall) => ({ scope: "accelerator" as const, ...stall })),
  ].sort((a, b) => a.at - b.at);
}

const endOf = ({ at, length }: Stall): number => at + length;
const between = (at: number, until: number): Stall => ({ at: micros(at), length: micros(until - at) });
const long = (stalls: readonly Stall[]): Stall[] => stalls.filter(({ length }) => length >= STALL_LEAST);

/** Both lists are in order, and theirs don't overlap. */
function overlaps(some: readonly Stall[], others: readonly Stall[]): Stall[] {
  const found: Stall[] = [];
  for (let i = 0, k = 0; i < some.length && k < others.length;) {
    const [one, other] = [some[i]!, others[k]!];
    const [at, until] = [Math.max(one.at, other.at), Math.min(endOf(one), endOf(other))];
    if (at < until) found.push(between(at, until));
    if (endOf(one) < endOf(other)) i++;
    else k++;
  }
  return found;
}

/** Parts of a standstill outside of all of `without`, which is in order. */
function rests(stall: Stall, without: readonly Stall[]): Stall[] {
  const left: Stall[] = [];
  let at: Micros = stall.at;
  for (const other of without) {
    if (endOf(other) <= at || other.at >= endOf(stall)) continue;
    if (other.at > at) left.push(between(at, other.at));
    at = endOf(other) as Micros;
  }
  if (at < endOf(stall)) left.push(between(at, endOf(stall)));
  return left;
}
