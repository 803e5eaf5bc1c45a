/**
 * Arrivals of the last ten minutes: time, model, application and SLO of each. No inputs. Recorded all the time, so that
 * a replay can look back.
 *
 *   RECORD-1. Bounded (T7): at most `ARRIVALS_KEPT_MAX` arrivals in a ring of typed columns, and `STREAMS_KEPT_MAX`
 *             (model, application, SLO); the oldest arrivals go first, and arrivals without a stream are only counted.
 */
import { type StatsReported, type StreamArrivals, readArrivals } from "@tutti/protocol";
import { type Instant, type Micros, before, between, seconds } from "@tutti/units";

export const RECORD_LASTS: Micros = seconds(600);
/** Ten minutes of 800 requests a second; eleven bytes each. */
export const ARRIVALS_KEPT_MAX = 500_000;
export const STREAMS_KEPT_MAX = 4_096;

export interface RecordedArrivals {
  readonly streams: readonly StreamArrivals[];
  /** In the order of time. */
  readonly stream: Uint16Array;
  readonly at: Float64Array;
  /** Arrivals of that time that could not be kept. */
  readonly left: number;
}

export class ArrivalRecord {
  readonly #max: number;
  readonly #streams: StreamArrivals[] = [];
  readonly #numbers = new Map<string, number>();
  #stream: Uint16Array;
  #at: Float64Array;
  /** Rows are first … first + size − 1, modulo the columns' length. */
  #first = 0;
  #size = 0;
  /** Counts of arrivals that were not kept, by time, newest last. */
  readonly #left: { readonly at: Instant; readonly count: number }[] = [];

  constructor(max: number = ARRIVALS_KEPT_MAX) {
    this.#max = max;
    this.#stream = new Uint16Array(Math.min(max, 1_024));
    this.#at = new Float64Array(Math.min(max, 1_024));
  }

  get size(): number {
    return this.#size;
  }
  /** Time since the oldest arrival that is kept. */
  span(now: Instant): Micros {
    return this.#size === 0 ? (0 as Micros) : between(this.#at[this.#first] as Instant, now);
  }
  get left(): number {
    return this.#left.reduce((sum, { count }) => sum + count, 0);
  }

  /** @returns false when the report's arrivals are malformed (T8) */
  hear({ arrivals: value, at }: Pick<StatsReported, "arrivals" | "at">): boolean {
    if (value === undefined) return true;
    const told = readArrivals(value, at);
    if (told === undefined) return false;
    const numbers = told.streams.map((stream) => this.#numberOf(stream));
    let left = told.left;
    for (const [i, { stream, at: arrivedAt }] of told.arrivals.entries()) {
      const number = numbers[stream];
      if (number === undefined) left += told.every;
      else this.#addEvery(told.every, number, arrivedAt, told.arrivals[i + 1]?.at ?? at);
    }
    if (left > 0) this.#note({ at, count: left });
    this.#forget(at);
    return true;
  }

  /** Arrivals in the order of time: the reports of several ingresses overlap. */
  since(from: Instant): RecordedArrivals {
    const rows: number[] = [];
    for (let i = 0; i < this.#size; i++) {
      const row = (this.#first + i) % this.#at.length;
      if (this.#at[row]! >= from) rows.push(row);
    }
    rows.sort((a, b) => this.#at[a]! - this.#at[b]!);
    return {
      streams: this.#streams,
      stream: Uint16Array.from(rows, (row) => this.#stream[row]!),
      at: Float64Array.from(rows, (row) => this.#at[row]!),
      left: this.#left.reduce((sum, { at, count }) => (at >= from ? sum + count : sum), 0),
    };
  }

  /** Adds an arrival that stands for several, spread until the next one. */
  #addEvery(every: number, stream: number, from: Instant, to: Instant): void {
    const step = Math.max(0, to - from) / every;
    for (let i = 0; i < every; i++) this.#add(stream, (from + Math.floor(i * step)) as Instant);
  }

  #add(stream: number, at: Instant): void {
    if (this.#size === this.#at.length && this.#size < this.#max) this.#grow();
    if (this.#size === this.#at.length) {
      this.#first = (this.#first + 1) % this.#at.length;
      this.#size--;
      this.#note({ at, count: 1 });
    }
    const row = (this.#first + this.#size++) % this.#at.length;
    this.#stream[row] = stream;
    this.#at[row] = at;
  }

  #grow(): void {
    const length = Math.min(this.#max, 2 * this.#at.length);
    const [stream, at] = [new Uint16Array(length), new Float64Array(length)];
    for (let i = 0; i < this.#size; i++) {
      const row = (this.#first + i) % this.#at.length;
      stream[i] = this.#stream[row]!;
      at[i] = this.#at[row]!;
    }
    [this.#stream, this.#at, this.#first] = [stream, at, 0];
  }

  #forget(now: Instant): void {
    const oldest = before(now, RECORD_LASTS);
    while (this.#size > 0 && this.#at[this.#first]! < oldest) {
      this.#first = (this.#first + 1) % this.#at.length;
      this.#size--;
    }
    while (this.#left.length > 0 && this.#left[0]!.at < oldest) this.#left.shift();
  }

  #note(left: { readonly at: Instant; readonly count: number }): void {
    const last = this.#left.at(-1);
    // One entry a second is enough, and bounds their number.
    if (last !== undefined && left.at - last.at < 1e6)
      this.#left[this.#left.length - 1] = { at: last.at, count: last.count + left.count };
    else this.#left.push(left);
  }

  #numberOf({ model, app, slo }: StreamArrivals): number | undefined {
    const key = `${model} ${app} ${slo}`;
    const known = this.#numbers.get(key);
    if (known !== undefined || this.#streams.length >= STREAMS_KEPT_MAX) return known;
    this.#numbers.set(key, this.#streams.length);
    return this.#streams.push({ model, app, slo }) - 1;
  }
}
