/** Jobs of one model that all runners together have at the ingresses, however many accelerators there are. */
export const JOBS_IN_FLIGHT_MAX = 4_096;
/**
 * Jobs of one model that are in flight or wait for another try. Many more than are in flight: jobs that find no time
 * for hours must not keep the server from giving out those behind them.
 */
export const JOBS_PENDING_MAX = 65_536;
/** Batches for each accelerator: the one that runs, and the one after it. */
const BATCHES_AHEAD = 2;
/** Jobs in flight of a model that is not loaded: each of them only waits for another try. */
const UNKNOWN_IN_FLIGHT = 8;

/** One runner's part of the jobs that fill the largest batches of all accelerators twice. */
export function jobWindow(batchSizeMax: number | undefined, accelerators: number, runners: number): number {
  if (batchSizeMax === undefined) return UNKNOWN_IN_FLIGHT;
  const all = Math.min(BATCHES_AHEAD * batchSizeMax * Math.max(1, accelerators), JOBS_IN_FLIGHT_MAX);
  return Math.ceil(all / Math.max(1, runners));
}
