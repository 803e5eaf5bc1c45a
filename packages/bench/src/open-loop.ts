/**
 * OpenLoop: requests leave when they are due, whether or not earlier ones were answered.
 *
 *   LOAD-1. Latency counts from the moment at which a request was due, not from when it left: neither a server that
 *           stalls nor a client that is late hides the requests that had to wait (no coordinated omission).
 *   LOAD-2. Every request that was due has one outcome: an answer, `unsent`, or `lost` when none came within its SLO
 *           and the grace.
 *   LOAD-3. All queues here are bounded: beyond `inFlightMax` a request isn't sent, and its outcome is `unsent`.
 */
import type { Alarm, Clock } from "@tutti/ports/clock";
import { type Instant, type Micros, after, micros, millis } from "@tutti/units";
import type { Arrivals, Due } from "./arrivals.ts";
import type { Answer, Target } from "./target.ts";

/** A request that was due, sent or not. */
export interface Sent {
  readonly token: number;
  readonly stream: number;
  readonly slo: Micros;
  readonly dueAt: Instant;
  readonly sentAt: Instant;
}
/** `unsent`: this client could not send it. `lost`: nothing came back. */
export type Outcome = Answer | "unsent" | "lost";

export interface LoadObserver {
  sent(request: Sent): void;
  /**
   * Called once for every request that was due. @param at - when its answer came; of a lost one when it was given up
   */
  settled(request: Sent, outcome: Outcome, at: Instant): void;
  /** An answer to a request that had one (`repeated`; T1 allows none), or that had been given up. */
  stray(kind: "repeated" | "after-loss"): void;
}

export interface OpenLoopOptions {
  readonly clock: Clock;
  readonly target: Target;
  readonly arrivals: Arrivals;
  readonly observer: LoadObserver;
  /** A request is lost when it has no answer for this long after its SLO. */
  readonly grace: Micros;
  readonly inFlightMax?: number;
}

/** Requests in flight of one run: 26 s of them at 10,000 r/s without an answer. */
export const IN_FLIGHT_MAX = 262_144;
/** Lost requests that are remembered, so that a late answer isn't taken for a repeated one. */
const LOST_KEPT_MAX = 65_536;
/** Requests sent per turn. After a stall of its own a client has a backlog, and reads answers between parts of it. */
const SENDS_PER_TURN = 512;
/** Time from the call to the start of arrivals. */
const LEAD = millis(20);
/** Longest wait of dense arrivals to go out together: an alarm for each would cost more than the request. */
const TICK = micros(500);
const DENSE = micros(250);
const SWEEP_EVERY = millis(50);

export class OpenLoop {
  readonly #clock: Clock;
  readonly #target: Target;
  readonly #arrivals: Arrivals;
  readonly #observer: LoadObserver;
  readonly #grace: Micros;
  readonly #inFlightMax: number;
  readonly #inFlight = new Map<number, Sent>();
  readonly #lost = new Set<number>();
  readonly #pace: Alarm;
  #start: Instant = 0 as Instant;
  #next: Due | undefined;
  #token = 0;
  #lastDueAt = 0;
  /** Mean gap between arrivals, µs; starts large, so that each of the first arrivals has an alarm of its own. */
  #meanGap = 1e6;
  #sloMax = 0;
  #done: (() => void) | undefined;

  constructor({ clock, target, arrivals, observer, grace, inFlightMax = IN_FLIGHT_MAX }: OpenLoopOptions) {
    this.#clock = clock;
    this.#target = target;
    this.#arrivals = arrivals;
    this.#observer = observer;
    this.#grace = grace;
    this.#inFlightMax = inFlightMax;
    this.#pace = clock.alarm(() => this.#onAlarm());
  }

  get inFlight(): number {
    return this.#inFlight.size;
  }

  /**
   * @param onStart - called with the moment at which arrivals begin. Resolves when every request has its outcome. Once.
   */
  run(onStart: (at: Instant) => void = () => undefined): Promise<void> {
    this.#start = after(this.#clock.now(), LEAD);
    onStart(this.#start);
    this.#target.open((token, answer) => this.#onAnswer(token, answer));
    const sweep = this.#clock.every(SWEEP_EVERY, () => this.#sweep());
    return new Promise((resolve) => {
      this.#done = () => {
        sweep.stop();
        this.#pace.clear();
        resolve();
      };
      this.#take();
      this.#arm();
    });
  }

  /** Stops sending, and waits for the requests in flight. */
  stop(): void {
    this.#next = undefined;
    this.#endIfOver();
  }

  #take(): void {
    this.#next = this.#arrivals.next();
    if (this.#next === undefined) return;
    this.#meanGap += (this.#next.at - this.#lastDueAt - this.#meanGap) / 64;
    this.#lastDueAt = this.#next.at;
  }

  #onAlarm(): void {
    const now = this.#clock.now();
    for (let i = 0; i < SENDS_PER_TURN && this.#next !== undefined; i++) {
      const dueAt = after(this.#start, this.#next.at);
      if (dueAt > now) break;
      this.#send(this.#next, dueAt);
      this.#take();
    }
    this.#arm();
  }

  #arm(): void {
    if (this.#next === undefined) return this.#endIfOver();
    const dueAt = after(this.#start, this.#next.at);
    const dense = this.#meanGap < DENSE ? after(this.#clock.now(), TICK) : dueAt;
    this.#pace.set(Math.max(dueAt, dense) as Instant);
  }

  #send({ stream, slo }: Due, dueAt: Instant): void {
    const token = this.#token++;
    const sentAt = this.#clock.now();
    const sent = { token, stream, slo, dueAt, sentAt };
    this.#sloMax = Math.max(this.#sloMax, slo);
    this.#observer.sent(sent);
    const hasRoom = this.#inFlight.size < this.#inFlightMax;
    this.#inFlight.set(token, sent);
    if (hasRoom && this.#target.send({ token, stream, slo })) return;
    this.#inFlight.delete(token);
    this.#observer.settled(sent, "unsent", sentAt);
  }

  #onAnswer(token: number, answer: Answer): void {
    const sent = this.#inFlight.get(token);
    if (sent === undefined) {
      if (token >= 0 && token < this.#token) this.#observer.stray(this.#lost.has(token) ? "after-loss" : "repeated");
      return;
    }
    this.#inFlight.delete(token);
    this.#observer.settled(sent, answer, this.#clock.now());
    this.#endIfOver();
  }

  /**
   * Settles lost requests. Entries are in the order of sending and all get the longest SLO, so the first that isn't
   * over ends the search.
   */
  #sweep(): void {
    const now = this.#clock.now();
    for (const [token, sent] of this.#inFlight) {
      if (sent.sentAt + this.#sloMax + this.#grace > now) break;
      this.#inFlight.delete(token);
      if (this.#lost.size < LOST_KEPT_MAX) this.#lost.add(token);
      this.#target.forget(token);
      this.#observer.settled(sent, "lost", now);
    }
    this.#endIfOver();
  }

  #endIfOver(): void {
    if (this.#next !== undefined || this.#inFlight.size > 0) return;
    this.#done?.();
    this.#done = undefined;
  }
}
