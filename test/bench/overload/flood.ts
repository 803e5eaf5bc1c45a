import {
  type Arrivals,
  NatsTarget,
  OK as OK_OUTCOME,
  OpenLoop,
  type Outcome,
  type Sent,
  createArrivals,
} from "@tutti/bench";
import type { Bus } from "@tutti/ports/bus";
import type { Clock } from "@tutti/ports/clock";
import { type Instant, type Micros, assert, millis, seconds } from "@tutti/units";
import { encodeTensors } from "@tutti/wire";

/** One application's load: its rate in each phase, in requests per second. */
export interface FloodStream {
  readonly app: string;
  /** Requests per second, by phase. */
  readonly rates: readonly number[];
}
export interface FloodPlan {
  readonly model: string;
  readonly slo: Micros;
  /** Length of each phase, in seconds. */
  readonly phases: readonly number[];
  readonly streams: readonly FloodStream[];
  readonly seed: number;
}

export interface Quantiles {
  readonly p50: number;
  readonly p99: number;
  readonly max: number;
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
  readonly refusalMs: Quantiles;
  /**
   * Times to refusal of requests that were due at least a second after the phase began. By then the system knows of the
   * flood.
   */
  readonly laterRefusalMs: Quantiles;
  /** The refusals' retry hints: least, median and most; 0 where a refusal has none. */
  readonly retryAfterMs: { readonly least: number; readonly median: number; readonly most: number };
}
export interface FloodReport {
  readonly parts: readonly FloodPart[];
  /**
   * Time from the beginning of the last phase until its requests are served again. It ends with the last 100 ms in
   * which more than 1 % were not; 0 if there is none.
   */
  readonly recoveryMs: number;
  readonly repeated: number;
  readonly sendLagMs: { readonly p50: number; readonly p99: number };
}

/** Longest wait for an answer on a busy machine; later answers count as lost. */
const GRACE = millis(15_000);
const SLICE = millis(100);
const ONSET = seconds(1);
const UNANSWERED = 0;
const OK = 1;
/** Codes from 2 on index `#codes`, less 2. */
const FIRST_CODE = 2;

/**
 * Open-loop load of several applications over phases. It keeps as little as possible for a request, since it shares the
 * machine with the system that it measures.
 */
export class Flood {
  readonly #bus: Bus;
  readonly #clock: Clock;
  readonly #plan: FloodPlan;
  /**
   * Due times by token. There is room for all from the beginning: arrays that grow are copied, all of them at the same
   * request, and the 50 ms of that would count as the system's.
   */
  readonly #dueAt: Float64Array;
  readonly #lag: Float64Array;
  readonly #answeredAt: Float64Array;
  readonly #outcome: Uint8Array;
  readonly #retryAfter: Float64Array;
  readonly #stream: Uint8Array;
  #count = 0;
  readonly #codes: string[] = [];
  #repeated = 0;

  constructor(bus: Bus, clock: Clock, plan: FloodPlan) {
    this.#bus = bus;
    this.#clock = clock;
    this.#plan = plan;
    const room = roomFor(plan);
    [this.#dueAt, this.#lag, this.#answeredAt, this.#retryAfter] = [0, 1, 2, 3].map(() =>
      new Float64Array(room).fill(0),
    ) as [Float64Array, Float64Array, Float64Array, Float64Array];
    [this.#outcome, this.#stream] = [new Uint8Array(room), new Uint8Array(room)];
  }

  async run(onPhase: (phase: number) => void = () => undefined): Promise<FloodReport> {
    const { phases, streams, model } = this.#plan;
    const payload = encodeTensors([{ name: "x", type: "FP32", dims: [1, 1], data: new Uint8Array(4) }]);
    const target = new NatsTarget(streams.map(({ app }) => ({ bus: this.#bus, model, app, payload })));
    const loop = new OpenLoop({
      ...{ clock: this.#clock, target, arrivals: this.#arrivals(), grace: GRACE },
      observer: {
        sent: (request) => this.#onSent(request),
        settled: (request, outcome, at) => this.#onSettled(request, outcome, at),
        stray: (kind) => void (kind === "repeated" && this.#repeated++),
      },
    });
    let start = 0;
    let phase = 0;
    const next = this.#clock.alarm(() => {
      onPhase(++phase);
      if (phase < phases.length - 1) next.set((start + this.#untilEndOf(phase)) as Instant);
    });
    await loop.run((at) => {
      start = at;
      onPhase(0);
      if (phases.length > 1) next.set((start + this.#untilEndOf(0)) as Instant);
    });
    target.close();
    return this.#report(
      start,
      phases.map((_, i) => start + this.#untilEndOf(i)),
    );
  }

  #untilEndOf(phase: number): number {
    return this.#plan.phases.slice(0, phase + 1).reduce((a, b) => a + b, 0) * 1e6;
  }

  #arrivals(): Arrivals {
    const { model, slo, streams, phases, seed } = this.#plan;
    return createArrivals({
      streams: streams.map(({ app }) => ({ model, app, slo, weight: 1 })),
      ...{ arrivals: { process: "poisson" }, rate: 1, seed },
      duration: this.#untilEndOf(phases.length - 1) as Micros,
      phases: phases.map((_, i) => {
        const rates = streams.map((stream) => stream.rates[i]!);
        const factor = rates.reduce((a, b) => a + b, 0);
        const from = (i === 0 ? 0 : this.#untilEndOf(i - 1)) as Micros;
        return { from, factor, shares: rates.map((rate) => rate / (factor || 1)) };
      }),
    });
  }

  #onSent({ token, stream, dueAt, sentAt }: Sent): void {
    assert(token < this.#dueAt.length, `request ${token} of a flood of ${this.#dueAt.length} at most`);
    this.#count = token + 1;
    this.#dueAt[token] = dueAt;
    this.#lag[token] = sentAt - dueAt;
    this.#answeredAt[token] = 0;
    this.#outcome[token] = UNANSWERED;
    this.#retryAfter[token] = 0;
    this.#stream[token] = stream;
  }

  #onSettled({ token }: Sent, outcome: Outcome, at: Instant): void {
    if (typeof outcome === "string") return; // the request stays unanswered
    this.#answeredAt[token] = at;
    if (outcome.outcome === OK_OUTCOME) {
      this.#outcome[token] = OK;
      return;
    }
    let index = this.#codes.indexOf(outcome.outcome);
    if (index < 0) index = this.#codes.push(outcome.outcome) - 1;
    this.#outcome[token] = FIRST_CODE + index;
    this.#retryAfter[token] = outcome.retryAfterMs;
  }

  #report(start: number, ends: readonly number[]): FloodReport {
    const { streams, phases } = this.#plan;
    const parts = phases.flatMap((_, phase) =>
      streams.map((_, stream) => this.#part(stream, phase, phase === 0 ? start : ends[phase - 1]!, ends[phase]!)),
    );
    const lags = this.#lag.slice(0, this.#count).sort();
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
    const later: number[] = [];
    const waits: number[] = [];
    const count = { sent: 0, inTime: 0, late: 0, lost: 0 };
    for (let token = 0; token < this.#count; token++) {
      const dueAt = this.#dueAt[token]!;
      if (this.#stream[token] !== stream || dueAt < from || dueAt >= to) continue;
      count.sent++;
      const outcome = this.#outcome[token]!;
      // Time from when the request really left: the generator's lag says nothing about the system.
      const took = this.#answeredAt[token]! - dueAt - this.#lag[token]!;
      if (outcome === UNANSWERED) count.lost++;
      else if (outcome === OK) count[took <= slo ? "inTime" : "late"]++;
      else {
        const code = this.#codes[outcome - FIRST_CODE]!;
        refused[code] = (refused[code] ?? 0) + 1;
        delays.push(took);
        if (dueAt >= from + ONSET) later.push(took);
        waits.push(this.#retryAfter[token]! * 1_000);
      }
    }
    waits.sort((a, b) => a - b);
    return {
      app: streams[stream]!.app,
      phase,
      seconds: phases[phase]!,
      ...count,
      refused,
      refusalMs: quantiles(delays),
      laterRefusalMs: quantiles(later),
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
    for (let token = 0; token < this.#count; token++) {
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

/** Room for the arrivals: a Poisson process of mean n exceeds it in one run of 10^23. */
function roomFor({ streams, phases }: FloodPlan): number {
  const mean = streams.reduce((sum, { rates }) => sum + rates.reduce((all, rate, i) => all + rate * phases[i]!, 0), 0);
  return Math.ceil(mean + 10 * Math.sqrt(mean) + 100);
}

function quantiles(delays: readonly number[]): Quantiles {
  const sorted = delays.toSorted((a, b) => a - b);
  return { p50: milliseconds(sorted, 0.5), p99: milliseconds(sorted, 0.99), max: milliseconds(sorted, 1) };
}

/** The quantile in milliseconds; NaN without values. */
function milliseconds(sorted: ArrayLike<number>, quantile: number): number {
  if (sorted.length === 0) return NaN;
  const index = Math.min(sorted.length - 1, Math.max(0, Math.ceil(quantile * sorted.length) - 1));
  return Number((sorted[index]! / 1_000).toFixed(3));
}
