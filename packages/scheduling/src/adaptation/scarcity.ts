/**
 * Scarcity of accelerators, as a model sees it by its own batches. It is the share of their slack that passes while
 * they wait for one. Slack is the time between the start that a batch wants and the last that meets its deadline. A
 * model also sees it by the requests that it loses: a long run of another model takes all of a short slack at once, and
 * none of the slack of most batches.
 *
 * Models with long SLOs lose nothing themselves where others do. So each reports its scarcity with its answers to
 * grants, and learns the highest of all with its grants (HighestScarcity).
 *
 * A batch decides by it whether waiting pays (docs/algorithms.md, A6). With accelerators idle, the time that a larger
 * batch would save is useless. Where batches lose much of their slack, all of that time is needed.
 */
import type { Instant } from "@tutti/units";
import type { Preference } from "../policy.ts";

/** Number of requests, and time in µs, over which older batches fade. */
const REQUESTS = 1_024;
const MEMORY = 5_000_000;
/**
 * Factor from lost slack to level. Waits vary: where a sixth of the slack is lost on average, some batches have lost
 * all.
 */
const FULL = 6;
/** Share of lost requests at which accelerators are fully scarce: half of what a workload at its goodput loses. */
const LOST_FULL = 0.005;
/** Share of requests that find an accelerator free from which on waits for others' runs count in full. */
const IDLE_FULL = 0.1;
/** Scarcity in messages: 0 … 255. */
export const SCARCITY_STEPS = 255;

/** Scarcity by losses alone: 0 … 1. @param lostShare - of the latest requests */
export const lossLevel = (lostShare: number): number => (lostShare < LOST_FULL ? lostShare / LOST_FULL : 1);

export class Scarcity {
  #share = 0;
  #waiting = 1; // until something is known, as if accelerators were busy
  /** Wait for other models' runs, µs: the mean over all batches. */
  #blocked = 0;
  /** Share of requests whose batches found one: 1 − waiting, but all at first, so that who begins may start early. */
  #found = 1;
  #notedAt = -Infinity;

  /** Share of requests whose batches found no accelerator free at the start that they wanted: 0 … 1. */
  get waiting(): number {
    return this.#waiting;
  }

  /**
   * Wait for other models' runs, µs: the mean over the batches that found no accelerator free. It counts in part where
   * less than a tenth of the requests find one: it then tells of a lack of accelerator time, which an earlier start
   * doesn't mend.
   */
  get blocked(): number {
    if (this.#blocked <= 0) return 0;
    return (this.#blocked / this.#waiting) * Math.min(1, this.#found / IDLE_FULL);
  }

  /**
   * 0: batches find an accelerator when they want it; 1: the time that waiting saves is needed in full.
   *
   * @param lostShare - share of the latest requests that were lost
   */
  level(lostShare: number): number {
    const byWaits = FULL * this.#share;
    const byLosses = lossLevel(lostShare);
    return byWaits < byLosses ? byLosses : byWaits < 1 ? byWaits : 1;
  }

  /**
   * Notes that a batch of so many requests was granted an accelerator.
   *
   * @param wait - from the start that it wanted until the accelerator is free; negative: it was free before
   * @param slack - from that start until the last that meets its deadline
   * @param isOwnRun - whether it waits for a run of its own model
   */
  note(at: Instant, requests: number, wait: number, slack: number, isOwnRun = false): void {
    const share = wait <= 0 ? 0 : wait < slack ? wait / slack : 1;
    const weight = Math.max(requests / REQUESTS, (at - this.#notedAt) / MEMORY);
    this.#notedAt = at;
    const part = weight < 1 ? weight : 1;
    this.#share += part * (share - this.#share);
    this.#blocked += part * ((wait > 0 && !isOwnRun ? wait : 0) - this.#blocked);
    this.#waiting += part * ((wait > 0 ? 1 : 0) - this.#waiting);
    if (part < 1) this.#found += part * ((wait > 0 ? 0 : 1) - this.#found); // one batch alone doesn't tell
  }
}

/** The scarcity that one model sees and hears of; a ModelThread is one. */
interface Seen {
  readonly prefer: Preference;
  readonly scarcity: Scarcity;
  readonly shares: { readonly lostShare: number };
  readonly scarcityOfOthers: number;
}

/** Scarcity of accelerators, the highest that this model or another sees: 0 … 1. */
export function scarcityOf({ scarcity, shares, scarcityOfOthers }: Seen): number {
  const own = scarcity.level(shares.lostShare);
  const others = scarcityOfOthers / SCARCITY_STEPS;
  return own > others ? own : others;
}

/** Scarcity as a model reports it: 0 … SCARCITY_STEPS. A model that always waits in full asks nothing of others. */
export const reportedScarcity = ({ prefer, scarcity, shares }: Seen): number =>
  prefer === "accelerators" ? 0 : Math.round(SCARCITY_STEPS * scarcity.level(shares.lostShare));

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
