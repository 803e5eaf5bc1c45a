/** Figures of the measured time from a system's statuses, and the requests of the recording that it has. */
import type { TraceEntry } from "@tutti/simulator";
import type { Delay, Measure, StatusEvent } from "../system/running-system.ts";
import type { Seen } from "./comparison.ts";

/** The requests that count: those after the warm-up, to the end of the recording. */
export interface Window {
  /** Time of the first since the beginning of the recording, and the end, in µs. */
  readonly from: number;
  readonly until: number;
  readonly offered: number;
  readonly statuses: readonly StatusEvent[];
}

/**
 * A status counts the requests that the ingress had received when it reported, so that as many of the recording belong
 * before it.
 *
 * @throws Error if the ingress and the recording have different requests
 */
export function windowOf(statuses: readonly StatusEvent[], trace: readonly TraceEntry[], warmupS: number): Window {
  let before = 0;
  for (const [i, { requests }] of statuses.entries()) {
    before += requests;
    const from = trace[before]?.at;
    if (from === undefined || from < warmupS * 1e6) continue;
    const rest = statuses.slice(i + 1);
    const offered = rest.reduce((sum, status) => sum + status.requests, 0);
    if (before + offered !== trace.length)
      throw new Error(`the ingress had ${before + offered} requests, and the recording has ${trace.length}`);
    return { from, until: trace.at(-1)!.at + 1, offered, statuses: rest };
  }
  throw new Error(`the recording ends within ${warmupS} s of warm-up`);
}

/** Refusals by the scheduler. Requests that the ingress gives up at their deadlines are late ones. */
const REFUSALS = ["DEADLINE_INFEASIBLE", "OVERLOADED"];

export function seenIn({ from, until, offered, statuses }: Window): Omit<Seen, "p99Ms"> {
  const sum = (of: (status: StatusEvent) => number): number => statuses.reduce((total, one) => total + of(one), 0);
  const refused = sum(({ reasons }) => REFUSALS.reduce((total, code) => total + (reasons[code] ?? 0), 0));
  return {
    goodRps: sum(({ inTime }) => inTime) / ((until - from) / 1e6),
    batchMean:
      sum(({ items }) => items) /
      Math.max(
        1,
        sum(({ batches }) => batches),
      ),
    refusedShare: refused / offered,
  };
}

/** Delays in µs, and how often they were longer than planned: means over the measured time. */
export interface Delays {
  /** Set aside by the scheduler. */
  readonly reserved: Readonly<Record<Delay, number>>;
  /** Passed in fact. */
  readonly measured: Readonly<Record<Measure, number>>;
  /** Share of batches that started later than was set aside: about 0.05 while delays are stable. */
  readonly lateStarts: number;
}

/** Each line of a status counts by its items. */
export function delaysIn(statuses: readonly StatusEvent[]): Delays {
  const threads = statuses.flatMap((status) => status.threads);
  const items = threads.reduce((sum, thread) => sum + thread.items, 0);
  const mean = (of: (thread: StatusEvent["threads"][number]) => number): number =>
    Math.round(threads.reduce((sum, thread) => sum + thread.items * of(thread), 0) / Math.max(1, items));
  const total = (of: "batches" | "lateStarts"): number => threads.reduce((sum, thread) => sum + thread[of], 0);
  const reserved = (delay: Delay): number => mean(({ delaysUs }) => delaysUs[delay]);
  const measured = (measure: Measure): number => mean(({ measuredUs }) => measuredUs[measure]);
  return {
    reserved: {
      ...{ ctrl: reserved("ctrl"), perItem: reserved("perItem"), respond: reserved("respond") },
      ...{ guard: reserved("guard"), reserve: reserved("reserve") },
    },
    measured: { arrive: measured("arrive"), grant: measured("grant"), start: measured("start") },
    lateStarts: total("lateStarts") / Math.max(1, total("batches")),
  };
}

export const meanOf = (values: readonly number[]): number =>
  values.reduce((sum, value) => sum + value, 0) / values.length;
