/**
 * Measures the client's own lag: a load generator that can't keep its pace measures itself. It records how late
 * requests left, the delay of the event loop (which delays reading answers and timing them), and the utilization of the
 * thread.
 */
import type { Clock, Stop } from "@tutti/ports/clock";
import { type Instant, type Micros, after, formatDuration, micros, millis } from "@tutti/units";
import { LatencyHistogram, type Percentiles } from "./histogram.ts";

export interface ClientReport {
  /** Delay from when a request was due until it left. */
  readonly sendLagMs: Percentiles;
  /** Delay of the event loop; timers of a quiet process show a millisecond. */
  readonly eventLoopDelayMs: Percentiles;
  /** Share of the thread in use: 0 … 1. */
  readonly utilization: number;
  readonly unsent: number;
  /** Requests that waited for a free connection. */
  readonly held: number;
  readonly wasBottleneck: boolean;
  /** The reasons, a sentence each. */
  readonly reasons: readonly string[];
}

export interface OwnLagOptions {
  readonly clock: Clock;
  /** Share of the thread in use since the last call: 0 … 1. */
  readonly utilization: () => number;
}

const LOOK_EVERY = millis(10);
/**
 * Largest share of its SLO that a request may lose in the client. Beyond it the client decides which answers are in
 * time.
 */
const SLO_SHARE = 0.1;
/** Lag that timers do not rule out. */
const LAG_LEAST = millis(2);
/** Utilization above which the thread has queues of its own. */
const UTILIZATION_HIGH = 0.9;

export class OwnLag {
  readonly #clock: Clock;
  readonly #utilization: () => number;
  readonly #sendLag = new LatencyHistogram();
  readonly #loopDelay = new LatencyHistogram();
  #looking: Stop | undefined;
  #lookedAt: Instant = 0 as Instant;
  #used = 0;

  constructor({ clock, utilization }: OwnLagOptions) {
    this.#clock = clock;
    this.#utilization = utilization;
  }

  /** Starts measuring; earlier values don't count. */
  begin(): void {
    this.#utilization();
    this.#lookedAt = this.#clock.now();
    this.#looking = this.#clock.every(LOOK_EVERY, () => {
      const now = this.#clock.now();
      const delay = now - after(this.#lookedAt, LOOK_EVERY);
      this.#loopDelay.note(delay);
      this.#lookedAt = now;
    });
  }

  noteSent(lag: number): void {
    this.#sendLag.note(lag);
  }

  /** Ends measuring; later calls do nothing. */
  end(): void {
    if (this.#looking === undefined) return;
    this.#looking.stop();
    this.#looking = undefined;
    this.#used = this.#utilization();
  }

  /** @param slo - the tightest of the mix */
  report({
    unsent,
    held,
    slo,
  }: {
    readonly unsent: number;
    readonly held: number;
    readonly slo: Micros;
  }): ClientReport {
    const sendLagMs = this.#sendLag.percentiles();
    const eventLoopDelayMs = this.#loopDelay.percentiles();
    const allowed = micros(Math.max(LAG_LEAST, Math.round(slo * SLO_SHARE)));
    const over = (ms: number | null): boolean => ms !== null && ms * 1_000 > allowed;
    const limit = `with an SLO of ${formatDuration(slo)}, ${formatDuration(allowed)} are bearable`;
    const reasons = [
      ...(over(sendLagMs.p99) ? [`1 % of the requests left ${sendLagMs.p99} ms late or later (${limit})`] : []),
      ...(over(eventLoopDelayMs.p99)
        ? [`its event loop came round ${eventLoopDelayMs.p99} ms late (p99), and answers were read as late (${limit})`]
        : []),
      ...(this.#used > UTILIZATION_HIGH ? [`its thread was busy ${(100 * this.#used).toFixed(0)} % of the time`] : []),
      ...(unsent > 0 ? [`${unsent} requests could not be sent`] : []),
      ...(held > 0 ? [`${held} requests waited for a free connection: give more --connections`] : []),
    ];
    const wasBottleneck = reasons.length > 0;
    return { sendLagMs, eventLoopDelayMs, utilization: this.#used, unsent, held, wasBottleneck, reasons };
  }
}
