/** Batches that ended, as batchers report them, until the page's next tick. */
import type { FeedBatches } from "../index.ts";
import { type StatsReported, readBatches } from "@tutti/protocol";
import { type Instant, between, modelNumberOf } from "@tutti/units";

/** Batches per tick; further ones are only counted. */
export const FEED_BATCHES_MAX = 2_048;

export class EndedBatches {
  readonly #rows: (readonly [model: number, gpu: number, size: number, failed: number, ...times: Instant[]])[] = [];
  #left = 0;

  /** @returns false when the report's batches are malformed (T8) */
  hear({ batches: value, at }: Pick<StatsReported, "batches" | "at">): boolean {
    if (value === undefined) return true;
    const told = readBatches(value, at);
    if (told === undefined) return false;
    this.#left += told.left;
    for (const { thread, gpu, size, failed, firstAt, grantedAt, startedAt, finishedAt } of told.batches) {
      if (this.#rows.length >= FEED_BATCHES_MAX) this.#left++;
      else this.#rows.push([modelNumberOf(thread), gpu, size, failed, firstAt, grantedAt, startedAt, finishedAt]);
    }
    return true;
  }

  /** Takes the batches since the last call. */
  take(now: Instant): FeedBatches | undefined {
    if (this.#rows.length === 0) return undefined;
    const rows = this.#rows.flatMap(([model, gpu, size, failed, ...times]) => [
      ...[model, gpu, size, failed],
      ...times.map((time) => between(time, now)),
    ]);
    const told = { at: now / 1_000, left: this.#left, rows };
    this.clear();
    return told;
  }

  clear(): void {
    this.#rows.length = 0;
    this.#left = 0;
  }
}
