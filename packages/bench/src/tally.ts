/** Outcomes of requests, per stream and over time. Only requests due within the window count. */
import type { Instant } from "@tutti/units";
import { nameOf, type LoadStream } from "./arrivals.ts";
import { LatencyHistogram, type PercentilePoint, type Percentiles } from "./histogram.ts";
import type { LoadObserver, Outcome, Sent } from "./open-loop.ts";
import { OK } from "./target.ts";

export interface Counts {
  readonly offered: number;
  /** Answers with outputs within the SLO, counted from when the request was due. */
  readonly good: number;
  readonly late: number;
  readonly lost: number;
  readonly unsent: number;
  /** Refusals by code. */
  readonly refused: Readonly<Record<string, number>>;
  /** 1 − good/offered; 0 without requests. */
  readonly badRate: number;
}
export interface StreamReport extends Counts {
  readonly name: string;
  readonly model: string;
  readonly app: string;
  readonly sloMs: number;
  readonly offeredRps: number;
  readonly goodRps: number;
  /** Latency of answers with outputs, in time or late; refusals have their own. */
  readonly latencyMs: Percentiles;
  readonly refusalMs: Percentiles;
}
/** One slice of the timeline; a request belongs to the slice in which it was due. */
export interface Slice extends Pick<Counts, "offered" | "good"> {
  /** Start of the slice, in seconds since the warm-up. */
  readonly second: number;
  readonly latencyMaxMs: number;
}
export interface Totals extends Counts {
  readonly offeredRps: number;
  readonly goodRps: number;
  readonly latencyMs: Percentiles;
  readonly curve: readonly PercentilePoint[];
  /** Latencies of answers with outputs, HdrHistogram V2 compressed, microseconds. */
  readonly histogram: string;
  readonly streams: readonly StreamReport[];
  readonly slices: readonly Slice[];
  /** Second answers to a request: there should be none. */
  readonly repeated: number;
}

export interface Window {
  readonly from: Instant;
  readonly until: Instant;
}

/** Largest number of slices in a run's timeline. */
const SLICES = 240;
/** Largest number of distinct codes: codes come from outside. */
const CODES_KEPT = 64;
const OTHER = "other codes";

export class Tally implements LoadObserver {
  readonly #streams: readonly StreamTally[];
  readonly #latency = new LatencyHistogram();
  readonly #slices: { offered: number; good: number; latencyMax: number }[] = [];
  #window: Window = { from: 0 as Instant, until: 0 as Instant };
  #sliceUs = 1e6;
  #repeated = 0;
  #settled = 0;

  constructor(streams: readonly LoadStream[]) {
    this.#streams = streams.map((stream) => new StreamTally(stream));
  }

  begin(window: Window): void {
    this.#window = window;
    const seconds = Math.ceil((window.until - window.from) / 1e6);
    this.#sliceUs = Math.max(1, Math.ceil(seconds / SLICES)) * 1e6;
  }
  /** Ends the window early, where the run ended early. */
  endAt(at: Instant): void {
    if (at < this.#window.until)
      this.#window = { ...this.#window, until: at > this.#window.from ? at : this.#window.from };
  }

  sent(): void {}

  settled(request: Sent, outcome: Outcome, at: Instant): void {
    const { from } = this.#window;
    if (request.dueAt < from) return;
    this.#settled++;
    const latency = at - request.dueAt;
    const stream = this.#streams[request.stream]!;
    const isOk = typeof outcome !== "string" && outcome.outcome === OK;
    const isGood = isOk && latency <= request.slo;
    stream.note(outcome, { latency, isGood });
    if (isOk) this.#latency.note(latency);
    const slice = this.#sliceOf(request.dueAt - from);
    slice.offered++;
    if (isGood) slice.good++;
    if (isOk) slice.latencyMax = Math.max(slice.latencyMax, latency);
  }

  stray(kind: "repeated" | "after-loss"): void {
    if (kind === "repeated") this.#repeated++;
  }

  /** The figures so far, for a progress display. */
  glance(): {
    readonly settled: number;
    readonly good: number;
    readonly p50: number | null;
    readonly p99: number | null;
  } {
    const good = this.#streams.reduce((sum, stream) => sum + stream.good, 0);
    return { settled: this.#settled, good, p50: this.#latency.at(50), p99: this.#latency.at(99) };
  }

  totals(): Totals {
    const seconds = (this.#window.until - this.#window.from) / 1e6;
    const streams = this.#streams.map((stream) => stream.report(seconds));
    const counts = addUp(streams);
    return {
      ...counts,
      ...rates(counts, seconds),
      latencyMs: this.#latency.percentiles(),
      curve: this.#latency.curve(),
      histogram: this.#latency.encoded(),
      streams,
      slices: this.#slices.map(({ offered, good, latencyMax }, i) => ({
        ...{ second: (i * this.#sliceUs) / 1e6, offered, good, latencyMaxMs: latencyMax / 1_000 },
      })),
      repeated: this.#repeated,
    };
  }

  #sliceOf(since: number): { offered: number; good: number; latencyMax: number } {
    const index = Math.floor(since / this.#sliceUs);
    while (this.#slices.length <= index) this.#slices.push({ offered: 0, good: 0, latencyMax: 0 });
    return this.#slices[index]!;
  }
}

class StreamTally {
  good = 0;
  readonly #stream: LoadStream;
  readonly #latency = new LatencyHistogram();
  readonly #refusals = new LatencyHistogram();
  readonly #refused = new Map<string, number>();
  #late = 0;
  #lost = 0;
  #unsent = 0;

  constructor(stream: LoadStream) {
    this.#stream = stream;
  }

  note(outcome: Outcome, { latency, isGood }: { readonly latency: number; readonly isGood: boolean }): void {
    if (outcome === "lost") this.#lost++;
    else if (outcome === "unsent") this.#unsent++;
    else if (outcome.outcome === OK) {
      this.#latency.note(latency);
      if (isGood) this.good++;
      else this.#late++;
    } else {
      this.#refusals.note(latency);
      const isKept = this.#refused.has(outcome.outcome) || this.#refused.size < CODES_KEPT;
      const code = isKept ? outcome.outcome : OTHER;
      this.#refused.set(code, (this.#refused.get(code) ?? 0) + 1);
    }
  }

  report(seconds: number): StreamReport {
    const { model, app, slo } = this.#stream;
    const refused = Object.fromEntries(this.#refused);
    const answered = this.good + this.#late + sum(Object.values(refused));
    const offered = answered + this.#lost + this.#unsent;
    const counts = { offered, good: this.good, late: this.#late, lost: this.#lost, unsent: this.#unsent };
    return {
      ...{ name: nameOf(this.#stream), model, app, sloMs: slo / 1_000 },
      ...{ ...counts, refused, badRate: badRateOf(counts) },
      ...rates(counts, seconds),
      latencyMs: this.#latency.percentiles(),
      refusalMs: this.#refusals.percentiles(),
    };
  }
}

/** Adds up the counts of streams. */
export function addUp(all: readonly Counts[]): Counts {
  const of = (name: "offered" | "good" | "late" | "lost" | "unsent"): number => sum(all.map((one) => one[name]));
  const refused: Record<string, number> = {};
  for (const one of all)
    for (const [code, count] of Object.entries(one.refused)) refused[code] = (refused[code] ?? 0) + count;
  const counts = { offered: of("offered"), good: of("good"), late: of("late"), lost: of("lost"), unsent: of("unsent") };
  return { ...counts, refused, badRate: badRateOf(counts) };
}

const badRateOf = ({ offered, good }: Pick<Counts, "offered" | "good">): number =>
  offered > 0 ? (offered - good) / offered : 0;
const rates = ({ offered, good }: Pick<Counts, "offered" | "good">, seconds: number) => ({
  offeredRps: seconds > 0 ? offered / seconds : 0,
  goodRps: seconds > 0 ? good / seconds : 0,
});
const sum = (numbers: readonly number[]): number => numbers.reduce((total, one) => total + one, 0);
