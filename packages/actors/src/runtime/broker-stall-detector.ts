import type { Bus } from "@tutti/ports/bus";
import type { Clock } from "@tutti/ports/clock";
import { ALWAYS, type Instant, type Micros, after, millis } from "@tutti/units";

/** A server that answers within this is awake. */
export const AWAKE_WITHIN = millis(20);

/**
 * Detects stalls of the NATS server itself. A server that gets no processor for a second, as happens when every core is
 * busy, makes all peers look dead to each other: the time in which it left a PING unanswered proves nothing about any
 * of them.
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
   * @param every - shortest interval between questions, however many registries share the detector. Default: none
   */
  constructor(bus: Pick<Bus, "flush">, clock: Clock, tolerated: Micros, every = 0 as Micros) {
    this.#bus = bus;
    this.#clock = clock;
    this.#tolerated = tolerated;
    this.#every = every;
  }

  /** Total time so far in which the server was stalled: µs. It grows during a stall. */
  get stalledUs(): number {
    return this.#stalledUs + this.#overdue();
  }

  /**
   * Asks, unless an answer is due.
   *
   * @param rarely - longest interval that this caller needs
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

  /** Our connection is away, or was made again: the open question will not be answered. */
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
