/** Requests that ingresses report, by model: how many a second, how they cluster, and with which SLOs. Pure. */
import { type StatsReported, readArrivals } from "@tutti/protocol";
import type { ActorKey, Instant, Micros } from "@tutti/units";

/** Most arrivals kept for the burstiness; later ones count in rates only. */
const ARRIVALS_MAX = 1_000_000;
/** SLOs with a smaller share of a model's requests are left out, and so are those beyond so many. */
const CLASS_SHARE_MIN = 0.01;
const CLASSES_MAX = 8;
/** Fewer intervals say too little about their variance. */
const INTERVALS_MIN = 50;

export interface ObservedModel {
  readonly name: string;
  /** Requests per second. */
  readonly rate: number;
  /** SLOs of its requests, with their shares, the most frequent first. */
  readonly slos: readonly { readonly slo: Micros; readonly share: number }[];
}

export class ObservedLoad {
  readonly #ingresses = new Map<ActorKey, { readonly from: Instant; until: Instant }>();
  /** Counts by ingress, model and SLO, which become rates by each ingress's own time. */
  readonly #counts = new Map<ActorKey, Map<string, Map<Micros, number>>>();
  readonly #kept = new Map<string, { readonly at: number[]; counted: number }>();
  #size = 0;

  hear(stats: Pick<StatsReported, "key" | "role" | "at" | "arrivals">): void {
    if (stats.role !== "ingress") return;
    const { key, at } = stats;
    const known = this.#ingresses.get(key);
    // The first report is about a time that began before this one listened.
    if (known === undefined) return void this.#ingresses.set(key, { from: at, until: at });
    if (at <= known.until) return;
    known.until = at;
    const told = stats.arrivals === undefined ? undefined : readArrivals(stats.arrivals, at);
    if (told === undefined || told.arrivals.length === 0) return;
    const stands = told.every + told.left / told.arrivals.length;
    for (const arrival of told.arrivals) this.#add(key, told.streams[arrival.stream]!, arrival.at, stands);
  }

  #add(key: ActorKey, { model, slo }: { model: string; slo: Micros }, at: Instant, stands: number): void {
    const models = entry(this.#counts, key, () => new Map<string, Map<Micros, number>>());
    const slos = entry(models, model, () => new Map<Micros, number>());
    slos.set(slo, (slos.get(slo) ?? 0) + stands);
    if (this.#size >= ARRIVALS_MAX) return;
    this.#size++;
    const kept = entry(this.#kept, model, () => ({ at: [], counted: 0 }));
    kept.at.push(at);
    kept.counted += stands;
  }

  /** Models with requests, those with most first. */
  models(): ObservedModel[] {
    const rates = new Map<string, Map<Micros, number>>();
    for (const [key, models] of this.#counts) {
      const { from, until } = this.#ingresses.get(key)!;
      for (const [model, slos] of models) {
        const all = entry(rates, model, () => new Map<Micros, number>());
        for (const [slo, count] of slos) all.set(slo, (all.get(slo) ?? 0) + (1e6 * count) / (until - from));
      }
    }
    return Array.from(rates, ([name, bySlo]): ObservedModel => {
      const rate = [...bySlo.values()].reduce((sum, one) => sum + one, 0);
      const slos = Array.from(bySlo, ([slo, of]) => ({ slo, share: of / rate })).sort((a, b) => b.share - a.share);
      return { name, rate, slos: slos.filter(({ share }, i) => i < CLASSES_MAX && share >= CLASS_SHARE_MIN) };
    }).sort((a, b) => b.rate - a.rate);
  }

  /**
   * How bursty all models' arrivals are at the length of an SLO, each model by itself: 1 is Poisson, 0 evenly spaced.
   *
   * @returns undefined where too few came to say
   */
  burstiness(): number | undefined {
    let [sum, weights] = [0, 0];
    for (const { name, slos } of this.models()) {
      const { at, counted } = this.#kept.get(name) ?? { at: [], counted: 0 };
      const found = dispersionOf(at, slos[0]?.slo ?? 0);
      if (found === undefined) continue;
      // A report that lists every k-th request at random brings bursts nearer to Poisson, k times.
      const own = Math.max(0, 1 + (counted / at.length) * (found.dispersion - 1));
      sum += own * found.intervals;
      weights += found.intervals;
    }
    return weights > 0 ? sum / weights : undefined;
  }
}

/**
 * Index of dispersion for intervals: the variance over the squared mean of the times that so many requests take as come
 * within a length of time, times their number. It is 1/shape for Gamma-distributed gaps, whatever the number.
 */
export function dispersionOf(
  times: readonly number[],
  within: number,
): { readonly dispersion: number; readonly intervals: number } | undefined {
  const sorted = Float64Array.from(times).sort();
  const span = sorted.length > 1 ? sorted.at(-1)! - sorted[0]! : 0;
  if (span <= 0) return undefined;
  const block = Math.max(1, Math.round((sorted.length * within) / span));
  const lengths: number[] = [];
  for (let i = block; i < sorted.length; i += block) lengths.push(sorted[i]! - sorted[i - block]!);
  if (lengths.length < INTERVALS_MIN) return undefined;
  const mean = lengths.reduce((sum, one) => sum + one, 0) / lengths.length;
  const variance = lengths.reduce((sum, one) => sum + (one - mean) ** 2, 0) / (lengths.length - 1);
  return { dispersion: (block * variance) / mean ** 2, intervals: lengths.length };
}

function entry<Key, Value>(map: Map<Key, Value>, key: Key, make: () => Value): Value {
  const known = map.get(key);
  if (known !== undefined) return known;
  const made = make();
  map.set(key, made);
  return made;
}
