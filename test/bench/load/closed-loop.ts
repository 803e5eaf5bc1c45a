import { LatencyHistogram } from "@tutti/bench";
import type { Bus, Delivery } from "@tutti/ports/bus";
import type { Clock } from "@tutti/ports/clock";
import { CONTENT, HEADER, inferSubject } from "@tutti/protocol";
import { type Micros, Prng, after, micros } from "@tutti/units";

export interface ClosedLoopOptions {
  readonly model: string;
  readonly app: string;
  /** Requests under way at once. */
  readonly window: number;
  /** Mean of the exponential pause between an answer and the next request; 0 for none. */
  readonly pause: Micros;
  readonly duration: Micros;
  readonly warmup: Micros;
  readonly slo: Micros;
  readonly payload: Uint8Array;
  readonly seed: number;
}

export interface ClosedLoopReport {
  readonly answered: number;
  readonly rps: number;
  readonly refused: Readonly<Record<string, number>>;
  readonly latencyMs: {
    readonly p50: number;
    readonly p90: number;
    readonly p99: number;
    readonly p999: number;
    readonly max: number;
  };
}

/**
 * Closed-loop load: a fixed number of requests is under way at any time, and each answer triggers the next. It finds a
 * system's capacity.
 */
export class ClosedLoop {
  readonly #bus: Bus;
  readonly #clock: Clock;
  readonly #options: ClosedLoopOptions;
  readonly #headers: Record<string, string>;
  readonly #inbox: string;
  readonly #sentAt = new Map<number, number>();
  readonly #latencies = new LatencyHistogram();
  readonly #refused: Record<string, number> = {};
  readonly #prng: Prng;
  #token = 0;
  #counting = false;
  #ended = false;
  #answered = 0;

  constructor(bus: Bus, clock: Clock, options: ClosedLoopOptions) {
    this.#bus = bus;
    this.#clock = clock;
    this.#options = options;
    this.#headers = { [HEADER.contentType]: CONTENT.binary, [HEADER.slo]: `${options.slo}us` };
    this.#inbox = `${bus.newInbox()}.`;
    this.#prng = new Prng(options.seed);
  }

  run(): Promise<ClosedLoopReport> {
    const { window, warmup, duration } = this.#options;
    const subscription = this.#bus.subscribe(`${this.#inbox}*`, (delivery) => this.#onAnswer(delivery));
    for (let i = 0; i < window; i++) this.#next();
    return new Promise((resolve) => {
      let from = 0;
      const end = this.#clock.alarm(() => {
        if (!this.#counting) {
          this.#counting = true;
          from = this.#clock.now();
          end.set(after(this.#clock.now(), duration));
          return;
        }
        this.#ended = true;
        subscription.stop();
        const at = (percent: number): number => this.#latencies.at(percent) ?? NaN;
        const latencyMs = { p50: at(50), p90: at(90), p99: at(99), p999: at(99.9), max: at(100) };
        resolve({
          answered: this.#answered,
          rps: this.#answered / ((this.#clock.now() - from) / 1e6),
          refused: this.#refused,
          latencyMs,
        });
      });
      end.set(after(this.#clock.now(), warmup));
    });
  }

  #next(): void {
    if (this.#ended) return;
    const { pause } = this.#options;
    if (pause === 0) return this.#send();
    const alarm = this.#clock.alarm(() => this.#send());
    alarm.set(after(this.#clock.now(), micros(Math.round(this.#prng.nextExponential(1 / pause)))));
  }

  #send(): void {
    const token = ++this.#token;
    this.#sentAt.set(token, this.#clock.now());
    this.#bus.publish(inferSubject(this.#options.model, this.#options.app), this.#options.payload, {
      reply: this.#inbox + token.toString(36),
      headers: this.#headers,
    });
  }

  #onAnswer(delivery: Delivery): void {
    const token = Number.parseInt(delivery.subject.slice(this.#inbox.length), 36);
    const sentAt = this.#sentAt.get(token);
    if (sentAt === undefined) return;
    this.#sentAt.delete(token);
    if (this.#counting) {
      this.#answered++;
      if (delivery.header(HEADER.errorCode) === undefined) this.#latencies.note(this.#clock.now() - sentAt);
      else {
        const { code } = JSON.parse(Buffer.from(delivery.payload).toString()) as { code: string };
        this.#refused[code] = (this.#refused[code] ?? 0) + 1;
      }
    }
    this.#next();
  }
}
