import type { Bus, Delivery } from "@tutti/bus";
import type { Clock } from "@tutti/clock";
import { CONTENT, HEADER, inferSubject } from "@tutti/protocol";
import { type Instant, type Micros, Prng, after, formatDuration, micros } from "@tutti/units";

export interface LoadOptions {
  readonly model: string;
  readonly app: string;
  /** Requests a second. */
  readonly rate: number;
  readonly arrivals: "poisson" | "uniform";
  readonly duration: Micros;
  /** Requests that arrive before are sent and not counted. */
  readonly warmup: Micros;
  readonly slo: Micros;
  readonly seed: number;
  /** A binary request; sent as it is. */
  readonly payload: Uint8Array;
  /** Answers later than this count as lost. */
  readonly grace: Micros;
}

export interface LoadReport {
  readonly offered: number;
  readonly offeredRps: number;
  readonly inTime: number;
  readonly late: number;
  readonly lost: number;
  /** Answers to requests that had theirs already: T1 allows none. */
  readonly repeated: number;
  readonly refused: Readonly<Record<string, number>>;
  readonly inTimeShare: number;
  readonly latencyMs: {
    readonly p50: number;
    readonly p90: number;
    readonly p99: number;
    readonly p999: number;
    readonly max: number;
  };
  /** How late the generator itself sent: a generator that can't keep its pace measures itself. */
  readonly sendLagMs: { readonly p50: number; readonly p99: number };
}

/** The longest the generator sleeps; arrivals that fall due meanwhile go out together. */
const TICK = micros(500);

/**
 * Open-loop load: requests leave when a Poisson process says so, whatever became of the earlier ones; latency counts from the moment a request was meant
 * to leave. Paced by the precise alarm, since a generator that spins would take a core from the system that it measures.
 */
export class OpenLoop {
  readonly #bus: Bus;
  readonly #clock: Clock;
  readonly #options: LoadOptions;
  readonly #subject: string;
  readonly #inbox: string;
  readonly #headers: Record<string, string>;
  readonly #dueAt: number[] = [];
  readonly #answeredAt: number[] = [];
  readonly #codes: string[] = [];
  readonly #lags: number[] = [];
  #repeated = 0;
  #answered = 0;

  constructor(bus: Bus, clock: Clock, options: LoadOptions) {
    this.#bus = bus;
    this.#clock = clock;
    this.#options = options;
    this.#subject = inferSubject(options.model, options.app);
    this.#inbox = `${bus.newInbox()}.`;
    this.#headers = { [HEADER.contentType]: CONTENT.binary, [HEADER.slo]: `${options.slo}us` };
  }

  run(onProgress: (text: string) => void = () => undefined): Promise<LoadReport> {
    const { duration, warmup, grace, rate, seed, arrivals } = this.#options;
    const prng = new Prng(seed);
    const subscription = this.#bus.subscribe(`${this.#inbox}*`, (delivery) => this.#onAnswer(delivery));
    const start = after(this.#clock.now(), micros(20_000));
    const end = start + warmup + duration;
    let next: number = start;
    let saidAt: number = start;
    return new Promise((resolve) => {
      const alarm = this.#clock.alarm(() => {
        const now = this.#clock.now();
        while (next <= now && next < end) {
          this.#send(next, now);
          next += arrivals === "poisson" ? prng.nextExponential(rate / 1e6) : 1e6 / rate;
        }
        if (now - saidAt > 1e6) {
          saidAt = now;
          onProgress(
            `${this.#answered} of ${this.#dueAt.length} answered, ${formatDuration(micros(Math.max(0, Math.round(end - now))))} to go`,
          );
        }
        if (next < end) alarm.set(Math.max(Math.ceil(next), now + (rate > 4_000 ? TICK : 0)) as Instant);
        else if (this.#answered < this.#dueAt.length && now < end + grace) alarm.set(after(now, micros(5_000)));
        else {
          subscription.stop();
          resolve(this.#report(start + warmup, duration));
        }
      });
      alarm.set(start);
    });
  }

  #send(dueAt: number, now: number): void {
    const token = this.#dueAt.length;
    this.#dueAt.push(dueAt);
    this.#answeredAt.push(0);
    this.#codes.push("");
    this.#lags.push(now - dueAt);
    this.#bus.publish(this.#subject, this.#options.payload, {
      reply: this.#inbox + token.toString(36),
      headers: this.#headers,
    });
  }

  #onAnswer(delivery: Delivery): void {
    const token = Number.parseInt(delivery.subject.slice(this.#inbox.length), 36);
    if (this.#answeredAt[token] !== 0) {
      this.#repeated++;
      return;
    }
    this.#answered++;
    this.#answeredAt[token] = this.#clock.now();
    if (delivery.header(HEADER.errorCode) !== undefined)
      this.#codes[token] = (JSON.parse(Buffer.from(delivery.payload).toString()) as { code: string }).code;
  }

  #report(countFrom: number, duration: Micros): LoadReport {
    const latencies: number[] = [];
    const lags: number[] = [];
    const refused: Record<string, number> = {};
    let [offered, inTime, late, lost] = [0, 0, 0, 0];
    for (let token = 0; token < this.#dueAt.length; token++) {
      const dueAt = this.#dueAt[token]!;
      if (dueAt < countFrom) continue;
      offered++;
      lags.push(this.#lags[token]!);
      const latency = this.#answeredAt[token]! - dueAt;
      if (this.#answeredAt[token] === 0) lost++;
      else if (this.#codes[token] !== "") refused[this.#codes[token]!] = (refused[this.#codes[token]!] ?? 0) + 1;
      else {
        latencies.push(latency);
        if (latency <= this.#options.slo) inTime++;
        else late++;
      }
    }
    latencies.sort((a, b) => a - b);
    lags.sort((a, b) => a - b);
    return {
      offered,
      offeredRps: offered / (duration / 1e6),
      inTime,
      late,
      lost,
      repeated: this.#repeated,
      refused,
      inTimeShare: inTime / Math.max(1, offered),
      latencyMs: {
        p50: at(latencies, 0.5),
        p90: at(latencies, 0.9),
        p99: at(latencies, 0.99),
        p999: at(latencies, 0.999),
        max: at(latencies, 1),
      },
      sendLagMs: { p50: at(lags, 0.5), p99: at(lags, 0.99) },
    };
  }
}

/** Milliseconds at a quantile of sorted microseconds. */
export const at = (sorted: readonly number[], quantile: number): number =>
  sorted.length === 0
    ? NaN
    : Number(
        (sorted[Math.min(sorted.length - 1, Math.max(0, Math.ceil(quantile * sorted.length) - 1))]! / 1000).toFixed(3),
      );
