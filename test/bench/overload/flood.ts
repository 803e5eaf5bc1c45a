import type { Bus, Delivery } from "@tutti/bus";
import type { Clock } from "@tutti/clock";
import { CONTENT, HEADER, inferSubject } from "@tutti/protocol";
import { type Micros, Prng, after, micros, millis } from "@tutti/units";
import { encodeTensors } from "@tutti/wire";

/** One application's load: so many requests a second in each phase. */
export interface FloodStream {
  readonly app: string;
  /** By phase. */
  readonly rates: readonly number[];
}
export interface FloodPlan {
  readonly model: string;
  readonly slo: Micros;
  /** Seconds of each phase. */
  readonly phases: readonly number[];
  readonly streams: readonly FloodStream[];
  readonly seed: number;
}

/** One stream in one phase. */
export interface FloodPart {
  readonly app: string;
  readonly phase: number;
  readonly seconds: number;
  readonly sent: number;
  readonly inTime: number;
  readonly late: number;
  readonly lost: number;
  readonly refused: Readonly<Record<string, number>>;
  /** From sending to the refusal. */
  readonly refusalMs: { readonly p50: number; readonly p99: number; readonly max: number };
  /** Of refusals: the least and the most; 0 where one had none. */
  readonly retryAfterMs: { readonly least: number; readonly median: number; readonly most: number };
}
export interface FloodReport {
  readonly parts: readonly FloodPart[];
  /** From the beginning of the last phase until its requests are served again: the end of the last 100 ms in which more than 1 % were not; 0 if there is none. */
  readonly recoveryMs: number;
  readonly repeated: number;
  readonly sendLagMs: { readonly p50: number; readonly p99: number };
}

/** So late an answer can come when the machine is busy; what comes later counts as lost. */
const GRACE = millis(15_000);
const SLICE = millis(100);
/** Arrivals that fall due within it go out together; a timer for each would cost more than the request. */
const TICK = micros(500);
const UNANSWERED = 0;
const OK = 1;
/** Codes from 2 on stand in `#codes`. */
const FIRST_CODE = 2;

/** Open-loop load of several applications over phases, with as little work for a request as possible: it shares the machine with what it measures. */
export class Flood {
  readonly #bus: Bus;
  readonly #clock: Clock;
  readonly #plan: FloodPlan;
  readonly #dueAt: number[] = [];
  readonly #lag: number[] = [];
  readonly #answeredAt: number[] = [];
  readonly #outcome: number[] = [];
  readonly #retryAfter: number[] = [];
  readonly #stream: number[] = [];
  readonly #codes: string[] = [];
  #answered = 0;
  #repeated = 0;

  constructor(bus: Bus, clock: Clock, plan: FloodPlan) {
    this.#bus = bus;
    this.#clock = clock;
    this.#plan = plan;
  }

  run(onPhase: (phase: number) => void = () => undefined): Promise<FloodReport> {
    const { phases, streams, slo, model, seed } = this.#plan;
    const data = new Uint8Array(4);
    const payload = encodeTensors([{ name: "x", type: "FP32", dims: [1, 1], data }]);
    const headers = { [HEADER.contentType]: CONTENT.binary, [HEADER.slo]: `${slo}us` };
    const root = this.#bus.newInbox();
    const subscription = this.#bus.subscribe(`${root}.*`, (delivery) => this.#onAnswer(delivery, root.length + 1));
    const subjects = streams.map(({ app }) => inferSubject(model, app));
    const start = after(this.#clock.now(), millis(20));
    const ends = phases.map((_, i) => start + phases.slice(0, i + 1).reduce((a, b) => a + b, 0) * 1e6);
    const end = ends.at(-1)!;
    const prng = new Prng(seed);
    let phase = 0;
    const next: number[] = streams.map(({ rates }) => start + prng.nextExponential(rates[0]! / 1e6));
    onPhase(0);
    return new Promise((resolve) => {
      const alarm = this.#clock.alarm(() => {
        const now = this.#clock.now();
        for (const [i, { rates }] of streams.entries()) {
          while (next[i]! <= now && next[i]! < ends[phase]!) {
            const token = this.#dueAt.length;
            this.#dueAt.push(next[i]!);
            this.#lag.push(now - next[i]!);
            this.#answeredAt.push(0);
            this.#outcome.push(UNANSWERED);
            this.#retryAfter.push(0);
            this.#stream.push(i);
            this.#bus.publish(subjects[i]!, payload, { reply: `${root}.${token.toString(36)}`, headers });
            next[i]! += prng.nextExponential(rates[phase]! / 1e6);
          }
        }
        if (now >= ends[phase]! && phase < phases.length - 1) {
          const begin = ends[phase]!;
          phase++;
          onPhase(phase);
          for (const [i, { rates }] of streams.entries()) next[i] = begin + prng.nextExponential(rates[phase]! / 1e6);
        }
        if (now < end) alarm.set(after(now, TICK));
        else if (this.#answered < this.#dueAt.length && now < end + GRACE) alarm.set(after(now, millis(5)));
        else {
          subscription.stop();
          resolve(this.#report(start, ends));
        }
      });
      alarm.set(start);
    });
  }

  #onAnswer(delivery: Delivery, from: number): void {
    const token = Number.parseInt(delivery.subject.slice(from), 36);
    if (this.#outcome[token] !== UNANSWERED) {
      this.#repeated++;
      return;
    }
    this.#answered++;
    this.#answeredAt[token] = this.#clock.now();
    if (delivery.header(HEADER.errorCode) === undefined) {
      this.#outcome[token] = OK;
      return;
    }
    const { code, retryAfterMs = 0 } = JSON.parse(Buffer.from(delivery.payload).toString()) as {
      code: string;
      retryAfterMs?: number;
    };
    let index = this.#codes.indexOf(code);
    if (index < 0) index = this.#codes.push(code) - 1;
    this.#outcome[token] = FIRST_CODE + index;
    this.#retryAfter[token] = retryAfterMs;
  }

  #report(start: number, ends: readonly number[]): FloodReport {
    const { streams, phases } = this.#plan;
    const parts = phases.flatMap((_, phase) =>
      streams.map((_, stream) => this.#part(stream, phase, phase === 0 ? start : ends[phase - 1]!, ends[phase]!)),
    );
    const lags = this.#lag.toSorted((a, b) => a - b);
    return {
      parts,
      recoveryMs: this.#recovery(ends.at(-2) ?? start, ends.at(-1)!),
      repeated: this.#repeated,
      sendLagMs: { p50: milliseconds(lags, 0.5), p99: milliseconds(lags, 0.99) },
    };
  }

  #part(stream: number, phase: number, from: number, to: number): FloodPart {
    const { slo, streams, phases } = this.#plan;
    const refused: Record<string, number> = {};
    const delays: number[] = [];
    const waits: number[] = [];
    const count = { sent: 0, inTime: 0, late: 0, lost: 0 };
    for (let token = 0; token < this.#dueAt.length; token++) {
      const dueAt = this.#dueAt[token]!;
      if (this.#stream[token] !== stream || dueAt < from || dueAt >= to) continue;
      count.sent++;
      const outcome = this.#outcome[token]!;
      // From when it really left: how far a busy generator is behind says nothing about the system.
      const took = this.#answeredAt[token]! - dueAt - this.#lag[token]!;
      if (outcome === UNANSWERED) count.lost++;
      else if (outcome === OK) count[took <= slo ? "inTime" : "late"]++;
      else {
        const code = this.#codes[outcome - FIRST_CODE]!;
        refused[code] = (refused[code] ?? 0) + 1;
        delays.push(took);
        waits.push(this.#retryAfter[token]! * 1_000);
      }
    }
    delays.sort((a, b) => a - b);
    waits.sort((a, b) => a - b);
    return {
      app: streams[stream]!.app,
      phase,
      seconds: phases[phase]!,
      ...count,
      refused,
      refusalMs: { p50: milliseconds(delays, 0.5), p99: milliseconds(delays, 0.99), max: milliseconds(delays, 1) },
      retryAfterMs: {
        least: milliseconds(waits, 0),
        median: milliseconds(waits, 0.5),
        most: milliseconds(waits, 1),
      },
    };
  }

  #recovery(from: number, to: number): number {
    const slices = Math.ceil((to - from) / SLICE);
    const sent = new Array<number>(slices).fill(0);
    const bad = new Array<number>(slices).fill(0);
    for (let token = 0; token < this.#dueAt.length; token++) {
      const slice = Math.floor((this.#dueAt[token]! - from) / SLICE);
      if (slice < 0) continue;
      sent[slice]!++;
      const took = this.#answeredAt[token]! - this.#dueAt[token]! - this.#lag[token]!;
      if (this.#outcome[token] !== OK || took > this.#plan.slo) bad[slice]!++;
    }
    const last = bad.findLastIndex((count, slice) => count > 0.01 * sent[slice]!);
    return ((last + 1) * SLICE) / 1_000;
  }
}

/** NaN of nothing. */
function milliseconds(sorted: readonly number[], quantile: number): number {
  if (sorted.length === 0) return NaN;
  const index = Math.min(sorted.length - 1, Math.max(0, Math.ceil(quantile * sorted.length) - 1));
  return Number((sorted[index]! / 1_000).toFixed(3));
}
