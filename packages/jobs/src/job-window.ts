/** Jobs of one model that all runners together hold at once, however many accelerators there are. */
export const JOBS_IN_FLIGHT_MAX = 4_096;
/** Batches for each accelerator: the one that runs, and the one after it. */
const BATCHES_AHEAD = 2;
/** Jobs in flight of a model that is not loaded: each of them only waits for another try. */
const UNKNOWN_IN_FLIGHT = 8;

/** Enough jobs to fill the largest batches of all accelerators twice. */
export function jobWindow(batchSizeMax: number | undefined, accelerators: number): number {
  if (batchSizeMax === undefined) return UNKNOWN_IN_FLIGHT;
  return Math.min(BATCHES_AHEAD * batchSizeMax * Math.max(1, accelerators), JOBS_IN_FLIGHT_MAX);
}
