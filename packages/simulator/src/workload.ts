/**
 * The requests of a scenario, in order of arrival, drawn from its seed.
 *
 *   W1. A model's arrivals depend on the seed, its name and its rate: other models, their number and order change nothing.
 *   W2. Requests are numbered 1, 2, 3 … by (moment, place of the model in the scenario).
 *   W3. A change of the rate stretches the gap it falls into, so that a process of any kind follows the rate exactly.
 *   W4. Memory doesn't grow with the number of requests: a slice of time is drawn after the other.
 */
import { type Instant, type Micros, NEVER, Prng, assert } from "@tutti/units";
import { ArrivedRequest } from "./arrived-request.ts";
import { type Gaps, gapsOf } from "./gaps.ts";
import type { Arrivals, Scenario, ScenarioModel, TraceEntry } from "./scenario.ts";
import type { SimRequest } from "./simulated-cluster.ts";

export interface Workload {
  /** `undefined` once the scenario's time is over. */
  next(): SimRequest | undefined;
}

/** @throws Error for a trace that names a model which the scenario doesn't have */
export function createWorkload(scenario: Scenario): Workload {
  const { arrivals, models } = scenario;
  assert(models.length > 0, "a scenario without models");
  if (arrivals.process === "trace") return new TraceWorkload(scenario, arrivals.entries);
  return new DrawnWorkload(scenario, arrivals);
}

/** As many requests are drawn at a time, about: each stream's state is then fetched once for several of its requests. */
const SLICE = 4096;

class DrawnWorkload implements Workload {
  readonly #duration: Micros;
  readonly #streams: readonly Stream[];
  /** moment · models + place of the model, sorted: exact, because it is a whole number below 2^53. */
  #slice = new Float64Array(SLICE);
  #drawn = 0;
  #taken = 0;
  readonly #sliceTime: number;
  #drawnUntil = 0;
  #id = 0;

  constructor(scenario: Scenario, arrivals: Exclude<Arrivals, { process: "trace" }>) {
    const { models, seed, duration, rate } = scenario;
    const names = new Set(models.map(({ name }) => name));
    assert(names.size === models.length, "two models of one name would draw the same arrivals");
    assert(duration * models.length < Number.MAX_SAFE_INTEGER, "moments and models fit into one number");
    const root = new Prng(seed).nextUint32();
    this.#duration = duration;
    this.#sliceTime = Math.max(1, Math.round((SLICE / rate) * 1e6));
    this.#streams = models.map((model, i) => {
      const prng = new Prng(root ^ hashOf(model.name));
      return new Stream(model, ratesOf(scenario, i), gapsOf(arrivals, prng.fork()), prng.fork());
    });
  }

  next(): SimRequest | undefined {
    if (this.#taken === this.#drawn && !this.#draw()) return undefined;
    const code = this.#slice[this.#taken++]!;
    const at = Math.floor(code / this.#streams.length);
    const model = code - at * this.#streams.length;
    return new ArrivedRequest(++this.#id, model, at as Instant, this.#streams[model]!.drawSlo());
  }

  /** The next slice of time that has requests; false where none has. */
  #draw(): boolean {
    const streams = this.#streams;
    this.#taken = this.#drawn = 0;
    while (this.#drawn === 0 && this.#drawnUntil < this.#duration) {
      const until = Math.min(this.#drawnUntil + this.#sliceTime, this.#duration);
      let next: number = NEVER;
      for (let i = 0; i < streams.length; i++) next = Math.min(next, this.#drawStream(i, until));
      this.#drawnUntil = Math.max(until, next);
    }
    if (streams.length > 1) this.#slice.subarray(0, this.#drawn).sort();
    return this.#drawn > 0;
  }

  #drawStream(i: number, until: number): Instant {
    const stream = this.#streams[i]!;
    const models = this.#streams.length;
    while (stream.at < until) {
      if (this.#drawn === this.#slice.length) this.#grow();
      this.#slice[this.#drawn++] = stream.at * models + i;
      stream.advance();
    }
    return stream.at;
  }

  /** A burst: the slice has the rate's mean only on average. */
  #grow(): void {
    const larger = new Float64Array(2 * this.#slice.length);
    larger.set(this.#slice);
    this.#slice = larger;
  }
}

/** A rate, in requests per µs, from a moment on. */
interface Rate {
  readonly from: number;
  readonly perMicro: number;
}

/** The requests of one model. */
class Stream {
  /** Of its next request; `NEVER` where none comes any more. */
  at: Instant = NEVER;
  readonly #rates: readonly Rate[];
  readonly #gaps: Gaps;
  readonly #prng: Prng;
  readonly #slo: Micros;
  readonly #classes: ScenarioModel["classes"];
  /** Not rounded, so that rounding doesn't add up. */
  #exactAt = 0;
  #rate = 0;

  constructor(model: ScenarioModel, rates: readonly Rate[], gaps: Gaps, prng: Prng) {
    this.#rates = rates;
    this.#gaps = gaps;
    this.#prng = prng;
    this.#slo = model.slo;
    this.#classes = model.classes;
    this.#pass(gaps.first());
  }

  advance(): void {
    this.#pass(this.#gaps.next());
  }

  drawSlo(): Micros {
    if (this.#classes.length === 0) return this.#slo;
    let draw = this.#prng.nextFloat();
    for (const { slo, share } of this.#classes) {
      if (draw < share) return slo;
      draw -= share;
    }
    return this.#slo;
  }

  /** W3: goes on by `gap` expected requests. */
  #pass(gap: number): void {
    for (;;) {
      const { perMicro } = this.#rates[this.#rate]!;
      const until = this.#rates[this.#rate + 1]?.from ?? Infinity;
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
      this.#rate++;
    }
  }
}

/** Before the first phase its factor is 1; a phase without shares has the scenario's. */
function ratesOf({ rate, phases, models }: Scenario, model: number): Rate[] {
  const { share } = models[model]!;
  const perMicro = rate / 1e6;
  const changes = phases.map(({ from, factor, shares }) => ({
    from,
    perMicro: perMicro * factor * (shares?.[model] ?? share),
  }));
  const sorted = changes.toSorted((a, b) => a.from - b.from);
  return sorted[0]?.from === 0 ? sorted : [{ from: 0, perMicro: perMicro * share }, ...sorted];
}

class TraceWorkload implements Workload {
  readonly #duration: Micros;
  readonly #entries: readonly TraceEntry[];
  readonly #models: readonly ScenarioModel[];
  readonly #indexOf: ReadonlyMap<string, number>;
  /** From recorded to simulated time. */
  readonly #stretch: number;
  #next = 0;

  constructor({ duration, models, rate }: Scenario, entries: readonly TraceEntry[]) {
    this.#duration = duration;
    this.#models = models;
    this.#indexOf = new Map(models.map(({ name }, i) => [name, i]));
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
    const slo = entry.slo ?? this.#models[model]!.slo;
    return new ArrivedRequest(++this.#next, model, at as Instant, slo);
  }
}

/** Requests per second of a trace as it was recorded; 0 where no time passes in it. */
export function recordedRate(entries: readonly TraceEntry[]): number {
  const last = entries.at(-1)?.at ?? 0;
  return last > 0 ? (entries.length / last) * 1e6 : 0;
}

/** FNV-1a of the UTF-16 units: a model's draws hang on its name. */
function hashOf(name: string): number {
  let hash = 0x811c9dc5;
  for (let i = 0; i < name.length; i++) hash = Math.imul(hash ^ name.charCodeAt(i), 0x01000193);
  return hash;
}
