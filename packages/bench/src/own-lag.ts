/**
 * How far the client itself was behind: a load generator that can't keep its pace measures itself. Three things are
 * watched: how late requests left, how late its event loop came round (answers are read, and their times taken, as late
 * as that), and how much of its thread was used.
 */
import type { Clock, Stop } from "@tutti/ports/clock";
import { type Instant, type Micros, after, formatDuration, micros, millis } from "@tutti/units";
import { LatencyHistogram, type Percentiles } from "./histogram.ts";

export interface ClientReport {
  /** From when a request was due until it left. */
  readonly sendLagMs: Percentiles;
  /** How late its event loop came round; timers of a quiet process show a millisecond. */
  readonly eventLoopDelayMs: Percentiles;
  /** Share of its thread that was in use: 0 … 1. */
  readonly utilization: number;
  readonly unsent: number;
  /** Requests that waited for a free connection. */
  readonly held: number;
  readonly wasBottleneck: boolean;
  /** Why, a sentence each. */
  readonly reasons: readonly string[];
}

export interface OwnLagOptions {
  readonly clock: Clock;
  /** Share of the thread in use since it was last asked: 0 … 1. */
  readonly utilization: () => number;
}

const LOOK_EVERY = millis(10);
/** More of its SLO a request mustn't lose in the client: then the client decides what is in time. */
const SLO_SHARE = 0.1;
/** Less than this no timer promises. */
const LAG_LEAST = millis(2);
/** A thread used more than this has queues of its own. */
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

  /** From now on; what was before doesn't count. */
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

  /** The first counts. */
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
