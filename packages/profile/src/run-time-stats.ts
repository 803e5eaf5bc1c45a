/**
 * RunTimeStats: how long the requests of one model (and bucket) take alone, by application. The profiler keeps and
 * publishes them (docs/algorithms.md, B1, B3 and B9).
 *
 *   RB1. Planning always has times: an application's own samples from 30 on, below that those of all applications, and
 *        as long as these are fewer than 30, l(1) ± 20 % in place of the missing ones.
 *   RB2. The number of applications is bounded: beyond, the one of least share is dropped, and its samples remain in
 *        the pool only.
 *   RB3. A model is dynamic if its inputs make its times vary, not if the machine does: where other processes want its
 *        cores, any times vary.
 *        Nor does it vary because executor types are unlike: a time counts by its ratio to its type's median.
 *   RB4. Samples may come in any order of their requests' lengths, but long requests must not be sampled more often:
 *        sampling must not depend on the length.
 */
import { type BatchSample, type Histogram, coldHistogram, histogramOf, quantileOf } from "@tutti/dynamic";
import {
  APPS_PROFILED_MAX,
  type AppRunTimes,
  type BucketRunTimes,
  type LearnedSize,
  type RunTimes,
  UNIT_CLASSES_MAX,
} from "@tutti/protocol";
import type { Instant, Micros } from "@tutti/units";
import { batchCostPoints } from "./batch-cost-points.ts";
import { quantile } from "./quantile.ts";
import { SampleWindow } from "./sample-window.ts";

export interface AloneSample {
  readonly app: number;
  /** Size hint; 0: none. */
  readonly units: number;
  /** µs. */
  readonly alone: number;
  /** Executor type that it ran on. */
  readonly type?: string | undefined;
}

interface Pair {
  readonly once: number;
  readonly again: number;
  readonly type: string | undefined;
}

export interface RunTimeStatsOptions {
  readonly window: Micros;
  /** l(b) in µs: used where nothing has been measured yet. */
  readonly table: (batchSize: number) => number;
  /** Batch sizes to publish costs of, ascending from 1. */
  readonly sizes: readonly number[];
  /** Whether run times are known to depend on the input: an axis is declared to vary. */
  readonly variesBySpec?: boolean;
  /** Times that an earlier process published for the same model and bucket. */
  readonly restored?: { readonly at: Instant; readonly times: BucketRunTimes };
}

/** Fewest samples of an application that replace those of the pool (B9). */
export const SAMPLES_FEW = 30;
/**
 * Largest spread of a static model's times alone, as a share of the median; a twentieth of the samples on either side
 * is left out. The latency table describes such a model completely.
 */
const STATIC_SPREAD = 0.25;
/** A dynamic model must vary less than this to become static again. */
const STATIC_AGAIN_SPREAD = 0.15;
const APPS_KEPT = 256;
/** Type of samples that an earlier process published: of all types together, so that they can't be compared. */
const MIXED = "*";
/** Fewest pairs of runs of the same request that tell how much its time varies by itself. */
const PAIRS_FEW = 10;
/** Number of arrivals for which a restored share of 1 counts. */
const RESTORED_ARRIVALS = 100;

interface App {
  readonly samples: SampleWindow<AloneSample>;
  name: string;
  /** Arrivals, fading with the window: an EWMA of the rate, up to a factor that all applications share. */
  arrivals: number;
  countedAt: number;
}

export class RunTimeStats {
  readonly #options: RunTimeStatsOptions;
  readonly #apps = new Map<number, App>();
  readonly #pool: SampleWindow<AloneSample>;
  readonly #batches: SampleWindow<BatchSample>;
  /** Two times of the same request, in µs. */
  readonly #pairs: SampleWindow<Pair>;
  #kind: BucketRunTimes["kind"] = "unknown";

  constructor(options: RunTimeStatsOptions) {
    this.#options = options;
    this.#pool = this.#newWindow();
    this.#batches = this.#newWindow();
    this.#pairs = new SampleWindow({ window: options.window, leastFew: PAIRS_FEW });
    if (options.restored !== undefined) this.#restore(options.restored.at, options.restored.times);
  }

  note(at: Instant, sample: AloneSample): void {
    this.#app(at, sample.app).samples.note(at, sample);
    this.#pool.note(at, sample);
  }
  noteBatch(at: Instant, batch: BatchSample): void {
    this.#batches.note(at, batch);
  }
  /** Records two isolated runs of one request. */
  notePair(at: Instant, once: Micros, again: Micros, type?: string): void {
    this.#pairs.note(at, { once, again, type });
  }
  /** Adds requests of an application that arrived since the last count. */
  count(at: Instant, number: number, requests: number): void {
    const app = this.#app(at, number);
    app.arrivals = this.#faded(app, at) + requests;
    app.countedAt = at;
  }
  name(number: number, name: string): void {
    const app = this.#apps.get(number);
    if (app !== undefined) app.name = name;
  }

  /** Run times as known now. */
  times(at: Instant): BucketRunTimes {
    const pooled = this.#pool.values(at);
    this.#kind = this.#kindOf(at, pooled);
    const total = [...this.#apps.values()].reduce((sum, app) => sum + this.#faded(app, at), 0);
    const pool = this.#timesOf(pooled);
    const apps = [...this.#apps]
      .map(([number, app]) => ({ number, app, share: total > 0 ? this.#faded(app, at) / total : 0 }))
      .sort((a, b) => b.share - a.share || a.number - b.number)
      .slice(0, APPS_PROFILED_MAX)
      .map(({ number, app, share }): AppRunTimes => {
        const own = app.samples.values(at);
        const known = own.length >= SAMPLES_FEW ? this.#timesOf(own) : { ...pool, samples: own.length };
        return { app: number, name: app.name, share: rounded(share, 1e4), ...known };
      });
    const batches = this.#batches.values(at);
    const { sizes, table } = this.#options;
    return {
      kind: this.#kind,
      apps,
      ...(pooled.length > 0 && { pool: { app: 0, name: "", share: 0, ...pool } }),
      costs: batchCostPoints(sizes, batches, table).map(({ batchSize, fixed, slope }) => ({
        batchSize,
        fixed: rounded(fixed, 10),
        slope: Math.max(1e-4, rounded(slope, 1e4)),
      })),
      costSamples: batches.length,
    };
  }

  #newWindow<Sample>(): SampleWindow<Sample> {
    return new SampleWindow({ window: this.#options.window, leastFew: SAMPLES_FEW });
  }

  #app(at: Instant, number: number): App {
    let app = this.#apps.get(number);
    if (app !== undefined) return app;
    if (this.#apps.size >= APPS_KEPT) this.#forgetLeast(at);
    app = { samples: this.#newWindow(), name: "", arrivals: 0, countedAt: at };
    this.#apps.set(number, app);
    return app;
  }
  /** Drops the application of least share (RB2). */
  #forgetLeast(at: Instant): void {
    let least: [number, number] = [-1, Infinity];
    for (const [number, app] of this.#apps) {
      const arrivals = this.#faded(app, at);
      if (arrivals < least[1]) least = [number, arrivals];
    }
    this.#apps.delete(least[0]);
  }
  #faded({ arrivals, countedAt }: App, at: Instant): number {
    return arrivals * Math.exp(-Math.max(0, at - countedAt) / this.#options.window);
  }

  #kindOf(at: Instant, pooled: readonly AloneSample[]): BucketRunTimes["kind"] {
    if (this.#options.variesBySpec === true) return "dynamic";
    const own = pooled.filter(({ type }) => type !== MIXED);
    if (own.length < SAMPLES_FEW) return this.#kind;
    const medians = mediansByType(own);
    const groups = [own, ...[...this.#apps.values()].map((app) => app.samples.values(at))]
      .map((samples) => relativeTimes(samples, medians).sort())
      .filter((times) => times.length >= SAMPLES_FEW);
    const low = Math.min(...groups.map((times) => quantile(times, 0.05)));
    const high = Math.max(...groups.map((times) => quantile(times, 0.95)));
    const spread = (Math.sqrt(this.#ofInputs(at, groups[0]!, medians)) * (high - low)) / quantile(groups[0]!, 0.5);
    return spread > (this.#kind === "dynamic" ? STATIC_AGAIN_SPREAD : STATIC_SPREAD) ? "dynamic" : "static";
  }

  /**
   * Share of the variance of times that comes from the inputs, at least (RB3). It is the correlation between two runs
   * of the same request, less two standard errors (Fisher's transform). It is 1 while too little is known: while pairs
   * are few, or vary less than half as much as all samples do (rare long requests may be among no pairs).
   */
  #ofInputs(at: Instant, times: Float64Array, medians: Medians): number {
    const pairs = this.#pairs.values(at).flatMap(({ once, again, type }): [number, number][] => {
      const median = medians.get(type);
      return median === undefined ? [] : [[once / median, again / median]];
    });
    if (pairs.length < PAIRS_FEW) return 1;
    const mean = pairs.reduce((sum, [once, again]) => sum + once + again, 0) / (2 * pairs.length);
    let [common, all] = [0, 0];
    for (const [once, again] of pairs) {
      common += 2 * (once - mean) * (again - mean);
      all += (once - mean) ** 2 + (again - mean) ** 2;
    }
    if (all / (2 * pairs.length) <= varianceOf(times) / 2) return 1;
    const seen = Math.min(0.9999, Math.max(0, common / all));
    return Math.max(0, Math.tanh(Math.atanh(seen) - 2 / Math.sqrt(pairs.length - 3)));
  }

  /** Times of the samples, completed by guesses while they are few (RB1). */
  #timesOf(samples: readonly AloneSample[]): RunTimes & Pick<AppRunTimes, "mean" | "p50" | "p99" | "byUnits"> {
    const few = samples.length < SAMPLES_FEW;
    const guesses = few ? this.#guesses(SAMPLES_FEW - samples.length) : [];
    const times = Float64Array.from([...samples.map(({ alone }) => alone), ...guesses]).sort();
    const byUnits = few ? undefined : unitClasses(samples);
    return {
      ...asRunTimes(samples.length, histogramOf(times)),
      mean: rounded(times.reduce((sum, time) => sum + time, 0) / times.length, 10),
      p50: rounded(quantile(times, 0.5), 10),
      p99: rounded(quantile(times, 0.99), 10),
      ...(byUnits !== undefined && { byUnits }),
    };
  }
  #guesses(count: number): number[] {
    return spreadOver(coldHistogram(this.#options.table(1)), count);
  }

  #restore(at: Instant, { kind, apps, pool, costs, costSamples }: BucketRunTimes): void {
    this.#kind = kind;
    const keep = (into: SampleWindow<AloneSample>, number: number, times: AppRunTimes): void =>
      into.restore(at, restoredSamples(number, times));
    if (pool !== undefined) keep(this.#pool, 0, pool);
    for (const times of apps) {
      const app = this.#app(at, times.app);
      app.name = times.name;
      app.arrivals = RESTORED_ARRIVALS * times.share;
      if (times.samples >= SAMPLES_FEW) keep(app.samples, times.app, times);
    }
    // Each cost line is restored as samples on the line; the batches that it was fitted to are gone.
    if (costSamples === 0 || pool === undefined) return;
    const lengths = spreadOver(asHistogram(pool), SAMPLES_FEW);
    this.#batches.restore(
      at,
      costs.flatMap(({ batchSize, fixed, slope }) =>
        batchSize === 1 ? [] : lengths.map((alone) => ({ batchSize, alone, took: fixed + slope * alone })),
      ),
    );
  }
}

/** Smaller relative changes may be sampling noise, and batchers spend milliseconds of work on each update. */
const NEWS_SHARE = 0.05;

/** Whether scheduling would decide differently with `now` than with `before`. */
export function isNews(before: BucketRunTimes | undefined, now: BucketRunTimes): boolean {
  if (before === undefined) return now.kind === "dynamic" || now.apps.length > 0;
  if (before.kind !== now.kind || before.apps.length !== now.apps.length) return true;
  if (before.costs.length !== now.costs.length || before.costs.some((cost, i) => hasMoved(cost, now.costs[i]!)))
    return true;
  const known = new Map(before.apps.map((app) => [app.app, app]));
  return now.apps.some((app) => {
    const old = known.get(app.app);
    if (old === undefined || old.name !== app.name || Math.abs(old.share - app.share) > NEWS_SHARE) return true;
    if (differs(old, app) || old.byUnits?.length !== app.byUnits?.length) return true;
    return app.byUnits?.some((one, i) => differs(one, old.byUnits![i]!)) ?? false;
  });
}

/**
 * Whether people should be told what live runs have taught: plans use other latencies than `before`, a type or a bucket
 * has begun to run, or the spread is that of twice as many runs.
 */
export function isLearnedNews(before: readonly LearnedSize[], now: readonly LearnedSize[]): boolean {
  const keyOf = ({ type, bucket, batchSize }: LearnedSize): string => `${bucket} ${batchSize} ${type}`;
  const known = new Map(before.map((size) => [keyOf(size), size]));
  const runsOf = (sizes: readonly LearnedSize[]): number =>
    sizes.reduce((sum, { spread }) => sum + (spread?.runs ?? 0), 0);
  return (
    runsOf(now) >= Math.max(1, 2 * runsOf(before)) ||
    now.some((size) => {
      const old = known.get(keyOf(size));
      // Sizes come and go; of what runs there is always the first.
      if (old === undefined) return size.batchSize === 1;
      return Math.abs(size.learned - old.learned) > NEWS_SHARE * old.learned;
    })
  );
}

const differs = (a: RunTimes, b: RunTimes): boolean =>
  [0.1, 0.5, 0.9].some((q) => {
    const [from, to] = [quantileOf(asHistogram(a), q), quantileOf(asHistogram(b), q)];
    return Math.abs(from - to) > NEWS_SHARE * from;
  });
const hasMoved = (a: { fixed: number; slope: number }, b: { fixed: number; slope: number }): boolean =>
  Math.abs(a.slope - b.slope) > NEWS_SHARE * a.slope || Math.abs(a.fixed - b.fixed) > Math.max(10, 0.1 * a.fixed);

/** Stored times as a histogram: rescales the rounded masses so that they sum to 1. */
export function asHistogram({ edges, masses }: RunTimes): Histogram {
  const sum = masses.reduce((total, mass) => total + mass, 0);
  return { edges: Float64Array.from(edges), masses: Float64Array.from(masses, (mass) => mass / sum) };
}

function asRunTimes(samples: number, { edges, masses }: Histogram): RunTimes {
  return {
    samples,
    edges: [...edges].map((edge) => rounded(edge, 10)),
    masses: [...masses].map((mass) => rounded(mass, 1e7)),
  };
}

/**
 * Divides the samples into equal classes by their hints, none of fewer than 30. Undefined where hints tell nothing
 * apart.
 */
function unitClasses(samples: readonly AloneSample[]): AppRunTimes["byUnits"] {
  const hinted = samples.filter(({ units }) => units > 0).sort((a, b) => a.units - b.units);
  // Where many samples have no hint, classes would leave those out.
  if (hinted.length < (2 / 3) * samples.length) return undefined;
  const count = Math.min(UNIT_CLASSES_MAX, Math.floor(hinted.length / SAMPLES_FEW));
  const classes: (RunTimes & { upTo: number })[] = [];
  let first = 0;
  for (let i = 1; i <= count; i++) {
    const upTo = hinted[Math.ceil((i * hinted.length) / count) - 1]!.units;
    let end = first;
    while (end < hinted.length && hinted[end]!.units <= upTo) end++;
    if (end === first) continue; // All of its samples have the hint at which the last class ended.
    const own = hinted.slice(first, end).map(({ alone }) => alone);
    classes.push({ upTo, ...asRunTimes(own.length, histogramOf(own)) });
    first = end;
  }
  return classes.length > 1 ? classes : undefined;
}

function restoredSamples(app: number, times: AppRunTimes): AloneSample[] {
  const classes = times.byUnits ?? [{ ...times, upTo: 0 }];
  return classes.flatMap((one) =>
    spreadOver(asHistogram(one), one.samples).map((alone) => ({ app, units: one.upTo, alone, type: MIXED })),
  );
}

/** `count` times that are distributed as the histogram says; at most 2,000. */
const spreadOver = (histogram: Histogram, count: number): number[] =>
  Array.from({ length: Math.min(count, 2_000) }, (_, i) => quantileOf(histogram, (i + 0.5) / count));

/** Median times by executor type. */
type Medians = ReadonlyMap<string | undefined, number>;

function mediansByType(samples: readonly AloneSample[]): Medians {
  const times = new Map<string | undefined, number[]>();
  for (const { alone, type } of samples) {
    const known = times.get(type);
    if (known === undefined) times.set(type, [alone]);
    else known.push(alone);
  }
  return new Map([...times].map(([type, own]) => [type, quantile(Float64Array.from(own).sort(), 0.5)]));
}

/** Times as shares of their type's median; without those of other types. */
function relativeTimes(samples: readonly AloneSample[], medians: Medians): Float64Array {
  const times = new Float64Array(samples.length);
  let count = 0;
  for (const { alone, type } of samples) {
    const median = medians.get(type);
    if (median !== undefined) times[count++] = alone / median;
  }
  return times.subarray(0, count);
}

function varianceOf(times: Float64Array): number {
  const mean = times.reduce((sum, time) => sum + time, 0) / times.length;
  return times.reduce((sum, time) => sum + (time - mean) ** 2, 0) / times.length;
}
const rounded = (value: number, grid: number): number => Math.round(value * grid) / grid;
