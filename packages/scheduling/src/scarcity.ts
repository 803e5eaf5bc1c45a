/**
 * Scarcity of accelerators, as a model sees it by its own batches. It is the share of their slack that passes while
 * they wait for one. Slack is the time between the start that a batch wants and the last that meets its deadline.
 *
 * A batch decides by it whether waiting pays (docs/algorithms.md, A6). With accelerators idle, the time that a larger
 * batch would save is useless. Where batches lose much of their slack, all of that time is needed.
 */
import type { Instant } from "@tutti/units";

/** Number of requests, and time in µs, over which older batches fade. */
const REQUESTS = 1_024;
const MEMORY = 5_000_000;
/**
 * Factor from lost slack to level. Waits vary: where a sixth of the slack is lost on average, some batches have lost
 * all.
 */
const FULL = 6;

export class Scarcity {
  #share = 0;
  #notedAt = -Infinity;

  /** 0: batches find an accelerator when they want it; 1: the time that waiting saves is needed in full. */
  get level(): number {
    const level = FULL * this.#share;
    return level < 1 ? level : 1;
  }

  /**
   * Notes that a batch of so many requests was granted an accelerator.
   *
   * @param wait - from the start that it wanted until the accelerator is free; negative: it was free before
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
 * Time by which a batch starts before the plan that defers it, µs. It waits only for requests that would save a share
 * of its accelerator time which is needed. With b' requests each takes l(b')/b'. Waiting saves the share 1 − (l(b')/b')
 * / (l(b)/b), and pays where that is more than 1 − level. It waits for the largest b' that pays less: from (b' − b)/λ
 * before the deferred start on, so many can't be expected any more.
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
