/**
 * Detects that a good part of the arrivals is lost for seconds. Then overload lasts, and it is no passing burst.
 *
 * The adaptive policy aims below b* for lack of requests, since future arrivals can't be counted on (Adaptation); under
 * lasting overload they are not lacking. A long queue alone is no sign of it: aiming at b* wherever 1.2 b* waited cost
 * 5 to 20 % of the goodput of Table 2's workloads.
 */
import type { Instant } from "@tutti/units";

const WINDOW = 2_000_000;
/** Lost fraction above which overload lasts: ten times the loss of a workload at its goodput. */
const SHARE = 0.1;

/** Number of requests over which the share of the lost fades. */
const REQUESTS = 1_024;

export class SustainedLoss {
  /** Share of the latest requests that were lost: 0 … 1. */
  share = 0;
  /** Number of lost requests. */
  count = 0;
  #came = 0;
  #lost = 0;
  #endsAt = -Infinity;
  #lasts = false;

  came(): void {
    this.#came++;
    this.share -= this.share / REQUESTS;
  }
  lost(): void {
    this.#lost++;
    this.count++;
    this.share += 1 / REQUESTS;
  }

  /** True if overload lasted in the last whole window. */
  lasts(now: Instant): boolean {
    if (now < this.#endsAt) return this.#lasts;
    this.#lasts = this.#lost > SHARE * this.#came;
    this.#came = 0;
    this.#lost = 0;
    this.#endsAt = now + WINDOW;
    return this.#lasts;
  }
}
