/**
 * How far accelerators are lacking, as a model sees it by its own batches: the share of their slack that passes while
 * they wait for one. Slack is what lies between the start that a batch wants and the last that meets its deadline.
 *
 * By that a batch decides whether waiting pays (docs/algorithms.md, A6): with accelerators idle, the time that a larger
 * batch would save is of no use to anybody; where batches lose much of their slack, they need all of it.
 */
import type { Instant } from "@tutti/units";

/** Requests that count at a time, and µs: older ones fade. */
const REQUESTS = 1_024;
const MEMORY = 5_000_000;
/** Waits vary: where a sixth of the slack is lost on average, some batches have lost all of theirs. */
const FULL = 6;

export class Scarcity {
  #share = 0;
  #notedAt = -Infinity;

  /** 0: batches find an accelerator when they want it; 1: what waiting saves is needed in full. */
  get level(): number {
    const level = FULL * this.#share;
    return level < 1 ? level : 1;
  }

  /**
   * A batch of so many requests was granted an accelerator.
   *
   * @param wait - from the start that it wanted until the accelerator is free; negative: it was before
   * @param slack - from that start until the last that meets its deadline
   */
  note(at: Instant, requests: number, wait: number, slack: number): void {
    const share = wait <= 0 ? 0 : wait < slack ? wait / slack : 1;
    const weight = Math.max(requests / REQUESTS, (at - this.#notedAt) / MEMORY);
    this.#notedAt = at;
    this.#share += (weight < 1 ? weight : 1) * (share - this.#share);
  }
}

/**
 * By how many µs a batch starts before the plan that defers it: it waits only for requests that would save a share of
 * its accelerator time which is needed. With b' requests each takes l(b')/b'; waiting saves the share 1 − (l(b')/b') /
 * (l(b)/b), and pays where that is more than 1 − level. What it waits for is the largest b' that pays less: (b' − b)/λ
 * before the deferred start no such number can be expected any more.
 */
export function spareTime(
  { alpha, beta }: { readonly alpha: number; readonly beta: number },
  batchSize: number,
  perMicro: number,
  level: number,
): number {
  const each = level * (alpha + beta / batchSize) - alpha;
  if (each <= 0 || perMicro === 0) return Infinity;
  return Math.max(0, beta / each - batchSize) / perMicro;
}
