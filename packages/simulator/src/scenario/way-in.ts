import type { Instant, Micros } from "@tutti/units";
import type { Network } from "./scenario.ts";

/** The way of requests from their ingress to the schedulers. */
export class WayIn {
  readonly #takes: number;
  readonly #gather: number;
  /** When requests last left their ingress. */
  #leftAt = -Infinity;

  constructor({ arrive = 0 as Micros, gather = 0 as Micros, jitter }: Network) {
    this.#takes = Math.round(arrive * (1 + jitter));
    this.#gather = gather;
  }

  get isShort(): boolean {
    return this.#takes === 0 && this.#gather === 0;
  }
  /** When the schedulers hear of a request that comes now. */
  heardAt(at: Instant): Instant {
    if (at > this.#leftAt) this.#leftAt = Math.max(at, this.#leftAt + this.#gather);
    return (this.#leftAt + this.#takes) as Instant;
  }
}
