import { type StatsReported, threadName } from "@tutti/protocol";
import { currentTarget, inFlight, queueLength, scarcityOf } from "@tutti/scheduling";
import type { Instant, Micros } from "@tutti/units";
import type { ThreadTable } from "./thread-table.ts";

/** Figures of a batcher: totals since its start, and the delays that it plans with now. */
export function batcherFigures(
  threads: ThreadTable,
  at: Instant,
  guardUs: Micros,
  stalls: { readonly renewals: number; readonly has: (modelNumber: number) => boolean },
): Omit<StatsReported, "key" | "role" | "at"> {
  let arrivals = 0;
  let batches = 0;
  let items = 0;
  let outstanding = 0;
  const jobs = { jobArrivals: 0, jobBatches: 0, jobItems: 0 };
  const perThread: NonNullable<StatsReported["perThread"]>[number][] = [];
  const perJobThread: typeof perThread = [];
  for (const entry of threads.values()) {
    if (entry.isForJobs) {
      jobs.jobArrivals += entry.arrivals;
      jobs.jobBatches += entry.batches;
      jobs.jobItems += entry.items;
    } else {
      arrivals += entry.arrivals;
      batches += entry.batches;
      items += entry.items;
      outstanding += inFlight(entry.core);
    }
    const figures = {
      arrivals: entry.arrivals,
      arrivalLagUs: entry.arrivalLagUs,
      finished: entry.finished,
      startDelayUs: entry.startDelayUs,
      lateStarts: entry.lateStarts,
      grants: entry.grants,
      grantLagUs: entry.grantLagUs,
      batches: entry.batches,
      items: entry.items,
      infeasible: entry.infeasible,
      overloaded: entry.overloaded,
      queued: queueLength(entry.core),
      inFlight: inFlight(entry.core),
      target: currentTarget(entry.core),
      // Delays that plans use. The measured control delay may exceed the share of an SLO that may be reserved for it.
      ctrlUs: entry.core.ctrl,
      perItemUs: entry.core.perItem,
      respondUs: entry.core.respond,
      guardUs: entry.core.guard,
      // Time that batches keep in hand, the share of requests that end later than that, and the number of late answers
      // to timely grants. `marginUs` is the former name, for a release before this one.
      reserveUs: entry.core.reserve.us,
      beyondPerMillion: Math.round(1e6 * entry.core.reserve.beyond),
      marginUs: entry.core.reserve.us,
      lateAnswers: entry.core.reserve.late,
      // Scarcity of accelerators: 0, dispatch is eager; 1,000, batches wait in full.
      scarcityPerMille: Math.round(1_000 * scarcityOf(entry.core)),
      ctrlMeasuredUs: entry.pullCost.ctrl(at),
      delayCapped: entry.pullCost.capped(at) ? 1 : 0,
      // 1: the model could be served but answered nothing, so its threads were restarted.
      stalled: stalls.has(entry.spec.number) ? 1 : 0,
    };
    const row = { thread: entry.id, name: threadName(entry.spec, entry.bucket), figures };
    (entry.isForJobs ? perJobThread : perThread).push(row);
  }
  return {
    figures: {
      threads: threads.size,
      arrivals,
      batches,
      items,
      outstanding,
      guardUs,
      renewals: stalls.renewals,
      ...jobs,
    },
    perThread,
    ...(perJobThread.length > 0 && { perJobThread }),
  };
}
