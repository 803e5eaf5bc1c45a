import type { Bus } from "@tutti/ports/bus";
import type { Clock } from "@tutti/ports/clock";
import { ALWAYS, type Instant, type Micros, after, millis } from "@tutti/units";

/** A server that answers within this is awake. */
export const AWAKE_WITHIN = millis(20);

/**
 * Whether the NATS server itself is awake. One that gets no processor for a second, as happens where every core is
 * busy, makes everybody look dead to everybody: time in which it left a PING unanswered says nothing of anybody.
 */
export class BrokerStallDetector {
  readonly #bus: Pick<Bus, "flush">;
  readonly #clock: Clock;
  readonly #tolerated: Micros;
  readonly #every: Micros;
  #askedAt: Instant | undefined;
  #lastAskedAt: Instant = ALWAYS;
  #round = 0;
  #stalledUs = 0;

  /**
   * @param tolerated - an answer within this is no stall
   * @param every - it asks no more often, however many directories share it. Default: whenever one does
   */
  constructor(bus: Pick<Bus, "flush">, clock: Clock, tolerated: Micros, every = 0 as Micros) {
    this.#bus = bus;
    this.#clock = clock;
    this.#tolerated = tolerated;
    this.#every = every;
  }

  /** All the time, so far, for which the server was waited: µs. It grows while one waits. */
  get stalledUs(): number {
    return this.#stalledUs + this.#overdue();
  }

  /**
   * Asks, unless an answer is due.
   *
   * @param rarely - no more often than this, for whoever asks
   */
  beat(rarely: Micros = this.#every): void {
    if (this.#askedAt !== undefined) return;
    const now = this.#clock.now();
    if (now < after(this.#lastAskedAt, rarely > this.#every ? rarely : this.#every)) return;
    const round = ++this.#round;
    this.#askedAt = this.#lastAskedAt = now;
    this.#bus.flush(() => {
      if (round === this.#round) this.#answered();
    });
  }

  /** Our connection is away, or was made anew: what was asked is answered by nobody. */
  reset(): void {
    this.#round++;
    this.#answered();
  }

  #answered(): void {
    this.#stalledUs += this.#overdue();
    this.#askedAt = undefined;
  }

  #overdue(): number {
    if (this.#askedAt === undefined) return 0;
    const waited = this.#clock.now() - this.#askedAt;
    return waited > this.#tolerated ? waited : 0;
  }
}
