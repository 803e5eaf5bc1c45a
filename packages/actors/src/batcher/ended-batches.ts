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
import type { Instant } from "@tutti/units";

export class EndedBatches {
  #batches: BatchReport[] = [];
  #left = 0;

  /** @param firstAt - when the first of its requests arrived */
  note(finished: BatchFinished, firstAt: Instant): void {
    if (this.#batches.length >= REPORTED_BATCHES_MAX) return void this.#left++;
    const { thread, gpu, batchSize: size, failed, grantedAt, startedAt, finishedAt } = finished;
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
