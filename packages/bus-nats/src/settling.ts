import { JetStreamApiError } from "@nats-io/jetstream";
import { RequestError } from "@nats-io/transport-node";

/** "Subjects overlap with an existing stream". */
const OVERLAP_CODE = 10065;
/** Some 300 ms in all: a stream settles within a few. */
const PAUSES_MS: readonly number[] = [2, 5, 10, 20, 40, 80, 160];

/**
 * Actors that start together make the same stream at once. The server tells some of them that it overlaps with a stream
 * (itself), and one that came a moment later finds a stream that nobody listens for yet (503). In both cases nothing
 * was done, so asking again is safe.
 *
 * @param wanted whether anybody still waits for the result
 */
export async function onceSettled<T>(operation: () => Promise<T>, wanted: () => boolean): Promise<T> {
  for (const pauseMs of PAUSES_MS) {
    try {
      return await operation();
    } catch (error) {
      if (!isSettling(error) || !wanted()) throw error;
    }
    await new Promise((resolve) => setTimeout(resolve, pauseMs));
  }
  return operation();
}

function isSettling(error: unknown): boolean {
  if (error instanceof JetStreamApiError) return error.code === OVERLAP_CODE;
  return error instanceof Error && error.cause instanceof RequestError && error.cause.isNoResponders();
}
