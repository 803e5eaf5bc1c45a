/**
 * Batches that ended since the last report, for human readers: the first REPORTED_BATCHES_MAX, and the number of the
 * others.
 */
import {
  type BatchFinished,
  REPORTED_BATCHES_MAX,
  type BatchReport,
  type BatchReports,
  batchRow,
} from "@tutti/protocol";
import type { Request } from "@tutti/scheduling";
import type { Instant } from "@tutti/units";

export class EndedBatches {
  #batches: BatchReport[] = [];
  #left = 0;

  note(finished: BatchFinished, requests: readonly Request[]): void {
    if (this.#batches.length >= REPORTED_BATCHES_MAX) return void this.#left++;
    const { thread, gpu, batchSize: size, failed, grantedAt, startedAt, finishedAt } = finished;
    const firstAt = firstArrival(requests);
    this.#batches.push({ thread, gpu, size, failed, firstAt, grantedAt, startedAt, finishedAt });
  }

  /** Returns the batches noted since the last call. @param at - time of the report */
  told(at: Instant): { readonly batches?: BatchReports } {
    if (this.#batches.length === 0) return {};
    const batches = { left: this.#left, rows: this.#batches.flatMap((batch) => batchRow(batch, at)) };
    this.#batches = [];
    this.#left = 0;
    return { batches };
  }
}

/** First arrival in a batch. The requests are in the order of their deadlines, not of their arrival. */
function firstArrival(requests: readonly Request[]): Instant {
  let first = requests[0]!.arrivedAt;
  for (const { arrivedAt } of requests) if (arrivedAt < first) first = arrivedAt;
  return first;
}
