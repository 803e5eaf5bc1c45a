import { JetStreamApiError } from "@nats-io/jetstream";
import { RequestError } from "@nats-io/transport-node";

/** "Subjects overlap with an existing stream". */
const OVERLAP_CODE = 10065;
/** Some 300 ms in all: a stream settles within a few milliseconds. */
const PAUSES_MS: readonly number[] = [2, 5, 10, 20, 40, 80, 160];

/**
 * A stream that another actor's request is just making. nats-server 2.9.10 shows it already, but dies of a read from it
 * (a nil pointer), and a consumer on it gets nothing.
 */
export class HalfMadeStream extends Error {
  override readonly name = "HalfMadeStream";
  constructor(bucket: string) {
    super(`the stream of bucket ${bucket} is just being made`);
  }
}

/**
 * Repeats an operation while its stream settles. Actors that start together make the same stream at once: the server
 * tells some of them that it overlaps with a stream (itself), and one that came a moment later finds a stream without a
 * listener (503) or a store yet. In these cases nothing was done, so repeating is safe.
 *
 * @param wanted - whether the result is still needed
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
  if (error instanceof HalfMadeStream) return true;
  if (error instanceof JetStreamApiError) return error.code === OVERLAP_CODE;
  return error instanceof Error && error.cause instanceof RequestError && error.cause.isNoResponders();
}
