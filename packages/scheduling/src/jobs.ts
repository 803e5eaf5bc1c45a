/** Bounds of jobs' batches. docs/algorithms.md, A13. */
import { LatencyTable } from "@tutti/profile";
import { type Micros, micros } from "@tutti/units";

/** Part of the least slack that a batch of jobs may run. */
const RUN_SHARE = 1 / 4;

/**
 * The longest that a batch of jobs may run beside requests, µs: a request that comes when every accelerator has just
 * begun one waits for that long at most. 0: a request leaves no time to wait.
 *
 * @param slacks - by model, the longest that a request can wait: its SLO less all delays and l(1), µs
 */
export function jobRunMax(slacks: readonly number[]): Micros {
  return micros(Math.max(0, Math.floor(RUN_SHARE * Math.min(...slacks))));
}

/** The profile up to the largest batch that takes `runMax`; undefined: even one job takes longer. */
export function profileOfJobs(profile: LatencyTable, runMax: Micros): LatencyTable | undefined {
  let batchSizeMax = profile.batchSizeMax;
  while (batchSizeMax > 0 && profile.latency(batchSizeMax) > runMax) batchSizeMax--;
  return batchSizeMax === 0 ? undefined : LatencyTable.fromPoints(profile.toPoints(), { batchSizeMax });
}
