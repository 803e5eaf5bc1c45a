/**
 * The requests of a scenario, in order of arrival, drawn from its seed.
 *
 *   WORKLOAD-1. A model's arrivals depend on the seed, its name and its rate: other models, their number and order
 *               change nothing.
 *   WORKLOAD-2. Requests are numbered 1, 2, 3 … by (moment, place of the model in the scenario).
 *   WORKLOAD-3. A change of the rate stretches the gap it falls into, so that a process of any kind follows the rate
 *               exactly.
 *   WORKLOAD-4. The length of a dynamic model's request is drawn after its SLO, from a generator of its own: arrivals
 *               are those of a static model of that name.
 *   WORKLOAD-5. Memory doesn't grow with the number of requests: slices of time are drawn one after the other.
 *   WORKLOAD-6. Slices have the same requests, model by model. Within a slice they are numbered in that order instead
 *               of WORKLOAD-2's.
 */
import { type Instant, type Micros, NEVER, Prng, assert } from "@tutti/units";
import { ArrivedRequest, ParticularRequest, type Particulars } from "./arrived-request.ts";
import { type CostRule, stepsOf } from "./costs.ts";
import type { DynamicLoad } from "../dynamic/dynamic-load.ts";
import { drawIndex, drawLength } from "../dynamic/lengths.ts";
import { type Gaps, gapsOf } from "./gaps.ts";
import { type Pace, courseOf } from "../cluster/pace.ts";
import type { Arrivals, Arriving, ScenarioModel, TraceEntry } from "./scenario.ts";
import type { SimRequest, SimSlice } from "../cluster/simulated-cluster.ts";
import { TimeOrder } from "../bounds/time-order.ts";

export interface Workload {
  /** `undefined` once the scenario's time is over. */
  next(): SimRequest | undefined;
  /**
   * Replaces `next`, where requests are drawn by model: the requests of some time at once. They are not read any more
   * when the next slice is asked for. `undefined` as with `next`.
   */
  nextSlice?(): SimSlice | undefined;
}

type ArrivingModel = Arriving["models"][number];

/** @throws Error for a trace that names a model which the scenario doesn't have */
export function createWorkload(scenario: Arriving): Workload {
  const { arrivals, models } = scenario;
  assert(models.length > 0, "a scenario without models");
  if (arrivals.process === "trace") return new TraceWorkload(scenario, arrivals.entries);
  return new DrawnWorkload(scenario, arrivals);
}

/**
 * Approximate number of requests drawn at a time: each stream's state is then fetched once for several of its requests.
 * They lie side by side, so that a batch of them is in few places of memory.
 */
const SLICE = 8192;
const SLICE_TIME_MAX = 2 ** 30;

class DrawnWorkload implements Workload {
  /** By stream: index behind its last request. */
  readonly #ends: Uint32Array;
  readonly #duration: Micros;
  readonly #streams: readonly Stream[];
  /** Requests of the slice, stream by stream. */
  readonly #requests: (ArrivedRequest | undefined)[] = [];
  /** Arrival times of the requests, from the beginning of the slice. */
  #moments = new Uint32Array(SLICE);
  /** Indices of the requests, ordered by (moment, stream). */
  #order: Uint32Array = new Uint32Array(0);
  readonly #sorting = new TimeOrder();
  #drawn = 0;
  #taken = 0;
  readonly #sliceTime: number;
  #drawnUntil = 0;
  #id = 0;

  constructor(scenario: Arriving, arrivals: Exclude<Arrivals, { process: "trace" }>) {
    const { models, seed, duration, rate } = scenario;
    const names = new Set(models.map(({ name }) => name));
    assert(names.size === models.length, "two models of one name would draw the same arrivals");
    const root = new Prng(seed).nextUint32();
    this.#duration = duration;
    this.#ends = new Uint32Array(models.length);
    this.#sliceTime = Math.min(Math.max(1, Math.round((SLICE / rate) * 1e6)), SLICE_TIME_MAX);
    this.#streams = models.map((model, i) => {
      const prng = new Prng(root ^ hashOf(model.name));
      const gaps = gapsOf(arrivals, prng.fork());
      const slos = prng.fork();
      const requests = model.dynamic && new DynamicRequests(model.dynamic, model, prng.fork());
      return new Stream(i, model, courseOf(scenario, i, prng), gaps, slos, requests);
    });
  }

  nextSlice(): SimSlice | undefined {
    if (!this.#draw()) return undefined;
    const requests = this.#requests as readonly ArrivedRequest[];
    for (let place = 0; place < this.#drawn; place++) requests[place]!.id = ++this.#id;
    this.#taken = this.#drawn;
    return { requests, ends: this.#ends, until: this.#drawnUntil as Instant };
  }

  next(): SimRequest | undefined {
    if (this.#taken === this.#drawn) {
      if (!this.#draw()) return undefined;
      if (this.#streams.length > 1) this.#order = this.#sorting.of(this.#moments, this.#drawn, this.#sliceTime);
    }
    const place = this.#streams.length > 1 ? this.#order[this.#taken]! : this.#taken;
    this.#taken++;
    const request = this.#requests[place]!;
    this.#requests[place] = undefined;
    request.id = ++this.#id;
    return request;
  }

  /** Draws the next slice of time that has requests. @returns false where none has */
  #draw(): boolean {
    const streams = this.#streams;
    this.#taken = this.#drawn = 0;
    while (this.#drawn === 0 && this.#drawnUntil < this.#duration) {
      const until = Math.min(this.#drawnUntil + this.#sliceTime, this.#duration);
      let next: number = NEVER;
      for (let i = 0; i < streams.length; i++) {
        next = Math.min(next, this.#drawStream(streams[i]!, until));
        this.#ends[i] = this.#drawn;
      }
      this.#drawnUntil = Math.max(until, next);
    }
    return this.#drawn > 0;
  }

  #drawStream(stream: Stream, until: number): Instant {
    while (stream.at < until) {
      if (this.#drawn === this.#moments.length) this.#grow();
      this.#moments[this.#drawn] = stream.at - this.#drawnUntil;
      this.#requests[this.#drawn++] = stream.request();
      stream.advance();
    }
    return stream.at;
  }

  /** Makes room for a burst: a slice has the mean rate only on average. */
  #grow(): void {
    const larger = new Uint32Array(2 * this.#moments.length);
    larger.set(this.#moments);
    this.#moments = larger;
  }
}

/** SLO of a request, and what it costs when that is missed. */
interface Terms {
  readonly slo: Micros;
  readonly costs?: readonly CostRule[];
}

/** A request that takes as long as any other of its model. */
function staticRequest(id: number, model: number, at: Instant, { slo, costs }: Terms): ArrivedRequest {
  if (costs === undefined) return new ArrivedRequest(id, model, at, slo);
  return new ParticularRequest(id, model, at, { slo, app: 0, solo: 0, units: 0, steps: stepsOf(costs, at, slo) });
}

/** The requests of one model. */
class Stream {
  /** Arrival of its next request; `NEVER` after the last one. */
  at: Instant = NEVER;
  readonly #model: number;
  readonly #pace: Pace;
  readonly #gaps: Gaps;
  readonly #slos: Prng;
  /** Terms of the requests that no class has. */
  readonly #terms: Terms;
  readonly #classes: readonly (Terms & { readonly share: number })[];
  readonly #dynamic: DynamicRequests | undefined;
  /** Exact arrival, not rounded, so that rounding errors don't add up. */
  #exactAt = 0;

  constructor(
    number: number,
    model: ArrivingModel,
    pace: Pace,
    gaps: Gaps,
    slos: Prng,
    dynamic: DynamicRequests | undefined,
  ) {
    this.#model = number;
    this.#pace = pace;
    this.#gaps = gaps;
    this.#slos = slos;
    this.#terms = model;
    this.#classes = model.classes.map((one) => ({ ...model, ...one }));
    this.#dynamic = dynamic;
    this.#pass(gaps.first());
  }

  advance(): void {
    this.#pass(this.#gaps.next());
  }

  /** The next request. It is numbered when it arrives. */
  request(): ArrivedRequest {
    if (this.#dynamic === undefined) return staticRequest(0, this.#model, this.at, this.#drawTerms());
    return new ParticularRequest(0, this.#model, this.at, this.#dynamic.draw(this.at));
  }

  #drawTerms(): Terms {
    if (this.#classes.length === 0) return this.#terms;
    let draw = this.#slos.nextFloat();
    for (const one of this.#classes) {
      if (draw < one.share) return one;
      draw -= one.share;
    }
    return this.#terms;
  }

  /** Moves on by `gap` expected requests (WORKLOAD-3). */
  #pass(gap: number): void {
    const pace = this.#pace;
    for (;;) {
      const { perMicro, until } = pace;
      const reachable = perMicro === 0 ? 0 : (until - this.#exactAt) * perMicro;
      if (gap < reachable) {
        this.#exactAt += gap / perMicro;
        this.at = Math.round(this.#exactAt) as Instant;
        return;
      }
      if (until === Infinity) {
        this.at = NEVER;
        return;
      }
      gap -= reachable;
      this.#exactAt = until;
      pace.advance();
    }
  }
}

/** Applications and lengths of a dynamic model's requests. */
class DynamicRequests {
  readonly #load: DynamicLoad;
  readonly #terms: Terms;
  readonly #prng: Prng;
  readonly #shares: readonly number[];

  constructor(load: DynamicLoad, terms: Terms, prng: Prng) {
    this.#load = load;
    this.#terms = terms;
    this.#prng = prng;
    this.#shares = load.apps.map(({ share }) => share);
  }

  /** @param named - the application that a trace names; one that the model doesn't have is drawn */
  draw(at: Instant, named?: string, asked?: Micros): Particulars {
    const { apps, hints } = this.#load;
    const known = named === undefined ? -1 : apps.findIndex(({ name }) => name === named);
    const app = known < 0 ? drawIndex(this.#shares, this.#prng) : known;
    const { lengths, slo = this.#terms.slo, costs = this.#terms.costs } = apps[app]!;
    const solo = drawLength(lengths, this.#prng);
    const own = asked ?? slo;
    return { slo: own, app, solo, units: hints === "exact" ? solo : 0, steps: costs && stepsOf(costs, at, own) };
  }
}

class TraceWorkload implements Workload {
  readonly #duration: Micros;
  readonly #entries: readonly TraceEntry[];
  readonly #models: readonly ArrivingModel[];
  readonly #indexOf: ReadonlyMap<string, number>;
  readonly #dynamic: readonly (DynamicRequests | undefined)[];
  /** Factor from recorded to simulated time. */
  readonly #stretch: number;
  #next = 0;

  constructor({ duration, models, rate, seed }: Arriving, entries: readonly TraceEntry[]) {
    this.#duration = duration;
    this.#models = models;
    this.#indexOf = new Map(models.map(({ name }, i) => [name, i]));
    const root = new Prng(seed).nextUint32();
    this.#dynamic = models.map(
      (model) => model.dynamic && new DynamicRequests(model.dynamic, model, new Prng(root ^ hashOf(model.name))),
    );
    const unknown = entries.find(({ model }) => !this.#indexOf.has(model));
    if (unknown !== undefined) {
      const known = models.map(({ name }) => name).join(", ");
      throw new Error(
        `the trace has requests for '${unknown.model}', which the scenario doesn't describe (it has ${known})`,
      );
    }
    const sorted = entries.every(({ at }, i) => i === 0 || entries[i - 1]!.at <= at);
    const place = ({ model }: TraceEntry) => this.#indexOf.get(model)!;
    this.#entries = sorted ? entries : entries.toSorted((a, b) => a.at - b.at || place(a) - place(b));
    this.#stretch = rate > 0 ? recordedRate(this.#entries) / rate : 1;
  }

  next(): SimRequest | undefined {
    const entry = this.#entries[this.#next];
    if (entry === undefined) return undefined;
    const at = Math.round(entry.at * this.#stretch);
    if (!(at < this.#duration)) return undefined;
    const model = this.#indexOf.get(entry.model)!;
    const dynamic = this.#dynamic[model];
    if (dynamic !== undefined)
      return new ParticularRequest(
        ++this.#next,
        model,
        at as Instant,
        dynamic.draw(at as Instant, entry.app, entry.slo),
      );
    const { slo, costs } = this.#models[model]!;
    return staticRequest(++this.#next, model, at as Instant, { slo: entry.slo ?? slo, ...(costs && { costs }) });
  }
}

/** Requests per second of a trace as it was recorded; 0 where no time passes in it. */
export function recordedRate(entries: readonly TraceEntry[]): number {
  const last = entries.at(-1)?.at ?? 0;
  return last > 0 ? (entries.length / last) * 1e6 : 0;
}

/** Microseconds from the start of a trace to its last request when it is stretched to a rate; 0: its own rate. */
export function recordedTime(entries: readonly TraceEntry[], rate: number): number {
  return (entries.at(-1)?.at ?? 0) * (rate > 0 ? recordedRate(entries) / rate : 1);
}

/** Batch size at which `rateOfLoad` counts work. */
const LOAD_BATCH = 8;

/**
 * Requests per second whose work is `load` times the capacity of the accelerators: load · gpus / Σ share · l(8)/8,
 * where l is that of batches of mean requests. A model that can't batch 8 counts with its largest batch.
 */
export function rateOfLoad(load: number, models: readonly ScenarioModel[], gpus: number): number {
  const perRequest = models.reduce((sum, { profile, share }) => {
    const size = Math.min(LOAD_BATCH, profile.batchSizeMax);
    return sum + (share * profile.latency(size)) / size;
  }, 0);
  return (load * gpus * 1e6) / perRequest;
}

/** FNV-1a of the UTF-16 units: a model's draws depend on its name. */
function hashOf(name: string): number {
  let hash = 0x811c9dc5;
  for (let i = 0; i < name.length; i++) hash = Math.imul(hash ^ name.charCodeAt(i), 0x01000193);
  return hash;
}
