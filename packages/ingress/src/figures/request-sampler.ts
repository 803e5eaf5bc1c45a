/**
 * Samples requests since the last report, for the simulator.
 *
 *   TR1. Bounded (T7): if more requests come than a report holds, it keeps a random part of them (by a hash of their
 *        number), and each stands for as many.
 */
import {
  type ModelSpec,
  REPORTED_ARRIVALS_MAX,
  REPORTED_STREAMS_MAX,
  type StatsReported,
  type ArrivalReports,
  type StreamArrivals,
} from "@tutti/protocol";
import { type Instant, type Micros, between } from "@tutti/units";

export class RequestSampler {
  readonly #streams = new Map<string, Map<string, Map<Micros, number>>>();
  #reported: StreamArrivals[] = [];
  readonly #stream = new Uint16Array(REPORTED_ARRIVALS_MAX);
  readonly #at = new Float64Array(REPORTED_ARRIVALS_MAX);
  readonly #hash = new Uint32Array(REPORTED_ARRIVALS_MAX);
  #size = 0;
  #every = 1;
  #left = 0;
  #seen = 0;

  arrived(spec: Pick<ModelSpec, "name" | "slo">, app: string, slo: Micros, at: Instant): void {
    const stream = this.#streamOf(spec, app, slo);
    if (stream === undefined) return void this.#left++;
    const hash = hashOf(this.#seen++);
    while (hash % this.#every === 0 && this.#size >= REPORTED_ARRIVALS_MAX) this.#thin();
    if (hash % this.#every !== 0) return;
    const i = this.#size++;
    this.#stream[i] = stream;
    this.#at[i] = at;
    this.#hash[i] = hash;
  }

  /** Returns the arrivals noted since the last call. @param at - time of the report */
  told(at: Instant): Pick<StatsReported, "arrivals"> {
    const arrivals = this.#arrivals(at);
    return arrivals === undefined ? {} : { arrivals };
  }

  #arrivals(at: Instant): ArrivalReports | undefined {
    if (this.#size === 0 && this.#left === 0) return undefined;
    const rows: number[] = [];
    for (let i = 0; i < this.#size; i++) rows.push(this.#stream[i]!, between(this.#at[i] as Instant, at));
    const told = { every: this.#every, left: this.#left, streams: this.#reported, rows };
    this.#streams.clear();
    this.#reported = [];
    [this.#size, this.#every, this.#left] = [0, 1, 0];
    return told;
  }

  #thin(): void {
    this.#every *= 2;
    let kept = 0;
    for (let i = 0; i < this.#size; i++) {
      if (this.#hash[i]! % this.#every !== 0) continue;
      this.#stream[kept] = this.#stream[i]!;
      this.#at[kept] = this.#at[i]!;
      this.#hash[kept++] = this.#hash[i]!;
    }
    this.#size = kept;
  }

  #streamOf({ name: model, slo: own }: Pick<ModelSpec, "name" | "slo">, app: string, slo: Micros): number | undefined {
    // Publishers that name a deadline have a different SLO each time: two digits are enough.
    const told = slo === own ? slo : (Number(slo.toPrecision(2)) as Micros);
    const known = this.#streams.get(model)?.get(app)?.get(told);
    if (known !== undefined || this.#reported.length >= REPORTED_STREAMS_MAX) return known;
    let apps = this.#streams.get(model);
    if (apps === undefined) this.#streams.set(model, (apps = new Map()));
    let slos = apps.get(app);
    if (slos === undefined) apps.set(app, (slos = new Map()));
    slos.set(told, this.#reported.length);
    return this.#reported.push({ model, app, slo: told }) - 1;
  }
}

/**
 * Spreads consecutive numbers over 32 bits, so that patterns of arrivals don't meet patterns of the sample. It is the
 * finaliser of MurmurHash3.
 */
function hashOf(count: number): number {
  let h = count >>> 0;
  h = Math.imul(h ^ (h >>> 16), 0x85ebca6b);
  h = Math.imul(h ^ (h >>> 13), 0xc2b2ae35);
  return (h ^ (h >>> 16)) >>> 0;
}
