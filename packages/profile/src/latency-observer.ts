/**
 * LatencyObserver: l(b) as live runs have it. It begins with a seed, the profile that is given or was measured, and
 * corrects it by the ratio of each size's recent runs to the seed. docs/architecture.md, section 5.
 *
 *   O1. A latency is the typical run: the median. What slow runs take beyond it is no part of l(b); batches keep time
 *       in hand for it (docs/algorithms.md, A9).
 *   O2. What is believed stands until recent runs disagree significantly: until it lies outside the interval in which
 *       their median is with 99 % certainty. So noise moves nothing.
 *   O3. An accelerator that is throttled, and code that is cold, run every size slower. So runs first tell a change of
 *       speed, which is that of all sizes: it counts once most recent runs take so much longer or shorter. A size that
 *       a wrong belief keeps from running would otherwise never be believed to be faster.
 *   O4. A size differs from the others as its own runs say, but only those that were recent without a change of speed:
 *       just after a change a size has runs from before it alone, or from after it alone. One that has had too few
 *       differs as its neighbours do.
 *   O5. After `window` without any run the seed counts again.
 */
import { type Instant, type Micros, assert } from "@tutti/units";
import { LatencyTable } from "./latency-table.ts";
import { quantile } from "./quantile.ts";

/** Runs that are recent, µs. A change of speed counts after half of that. */
const RECENT = 3_000_000;
/** Most runs kept of these, of all sizes together. */
const RECENT_MAX = 4_096;
/** Least change of speed. */
const CHANGE_LEAST = 0.01;
/** Fewest recent runs of one size that say something about it. */
const RUNS_MIN = 8;
/** Most runs kept of a size: enough for a median within 2 % where runs vary by a tenth. */
const RUNS_MAX = 128;
/** Half the width of the interval of a median, in standard deviations of the rank. */
const CERTAIN = 2.576;

interface NotedRun {
  readonly at: Instant;
  readonly batchSize: number;
  readonly run: number;
}

/** The last runs of a size. */
class RunsOfSize {
  readonly #run = new Float64Array(RUNS_MAX);
  #noted = 0;

  note(run: number): void {
    this.#run[this.#noted++ % RUNS_MAX] = run;
  }
  ascending(): Float64Array {
    return this.#run.slice(0, Math.min(this.#noted, RUNS_MAX)).sort();
  }
}

/** How runs of one size vary: their number and their quantiles 0.1, 0.5 and 0.9, µs. */
export interface Spread {
  readonly batchSize: number;
  readonly runs: number;
  readonly p10: number;
  readonly p50: number;
  readonly p90: number;
}

export class LatencyObserver {
  readonly #seed: LatencyTable;
  readonly #window: Micros;
  /** Recent runs, in order: those since the last change of speed, and all of them. */
  #recent: NotedRun[] = [];
  #seen: NotedRun[] = [];
  /** Runs before these by batch size, since the last change of speed (O4). */
  readonly #runs = new Map<number, RunsOfSize>();
  /** By batch size: what is believed, as a factor on the seed. */
  readonly #factors: Float64Array;
  /** Sizes that have had enough runs for a factor of their own. */
  readonly #own = new Set<number>();
  /** The table of the present factors; undefined: one has changed since. */
  #planned: LatencyTable | undefined;
  #lastAt = -Infinity;

  /** @param window - after which time without runs the seed counts again */
  constructor({ seed, window }: { seed: LatencyTable; window: Micros }) {
    assert(window >= RECENT, `a window of ${window} µs`);
    this.#seed = seed;
    this.#window = window;
    this.#factors = new Float64Array(seed.batchSizeMax + 1).fill(1);
  }

  /** Records that a batch of `batchSize` took `run`. Sizes that the seed doesn't have are ignored. */
  note(at: Instant, batchSize: number, run: Micros): void {
    if (!Number.isInteger(batchSize) || batchSize < 1 || batchSize > this.#seed.batchSizeMax) return;
    this.#lastAt = at;
    const noted = { at, batchSize, run };
    this.#recent.push(noted);
    this.#seen.push(noted);
    if (this.#recent.length >= 2 * RECENT_MAX) this.#recent = this.#recent.slice(-RECENT_MAX);
    if (this.#seen.length >= 2 * RECENT_MAX) this.#seen = this.#seen.slice(-RECENT_MAX);
  }

  /** Latencies to plan with: the typical run of each size. */
  planning(at: Instant): LatencyTable {
    this.#learn(at);
    return (this.#planned ??= this.#table());
  }

  #table(): LatencyTable {
    const factors = this.#interpolated();
    if (factors.every((factor) => factor === 1)) return this.#seed;
    const points = this.#seed.toPoints().map(({ batchSize, latency }) => {
      return { batchSize, latency: Math.max(1, latency * factors[batchSize]!) as Micros };
    });
    return LatencyTable.fromPoints(points);
  }

  /** How the recent runs vary, by rising size. */
  spread(at: Instant): Spread[] {
    const recent = this.#seen.filter((noted) => noted.at > at - RECENT);
    const bySize = Map.groupBy(recent, ({ batchSize }) => batchSize);
    return [...bySize]
      .filter(([, noted]) => noted.length >= RUNS_MIN)
      .sort(([a], [b]) => a - b)
      .map(([batchSize, noted]) => {
        const runs = Float64Array.from(noted, ({ run }) => run).sort();
        const [p10, p50, p90] = [quantile(runs, 0.1), quantile(runs, 0.5), quantile(runs, 0.9)];
        return { batchSize, runs: runs.length, p10, p50, p90 };
      });
  }

  #learn(at: Instant): void {
    if (at - this.#lastAt > this.#window) return this.#forget(); // O5
    this.#age(at);
    const change = this.#changeOfSpeed();
    if (change !== 1) {
      for (let b = 1; b < this.#factors.length; b++) this.#factors[b]! *= change;
      this.#runs.clear();
      this.#recent = [];
      this.#planned = undefined;
    }
    for (const [batchSize, runs] of this.#runs) {
      const ascending = runs.ascending();
      if (ascending.length < RUNS_MIN) continue;
      const believed = this.#believed(batchSize);
      const isAsBelieved = isTypical(believed, ascending);
      if (isAsBelieved && this.#own.has(batchSize)) continue;
      this.#factors[batchSize] = (isAsBelieved ? believed : quantile(ascending, 0.5)) / this.#seed.latency(batchSize);
      this.#own.add(batchSize);
      this.#planned = undefined;
    }
  }

  #forget(): void {
    this.#factors.fill(1);
    this.#own.clear();
    this.#planned = undefined;
    this.#runs.clear();
    this.#recent = [];
    this.#seen = [];
  }

  #believed(batchSize: number): number {
    return (this.#planned ?? (this.#planned = this.#table())).latency(batchSize);
  }

  /** Runs that are recent no more say how sizes differ. Some are kept, however old, where few run. */
  #age(at: Instant): void {
    const recent = this.#recent;
    let first = Math.max(0, recent.length - RECENT_MAX);
    while (first < recent.length - RUNS_MIN && recent[first]!.at <= at - RECENT) first++;
    for (const { batchSize, run } of recent.slice(0, first)) {
      let runs = this.#runs.get(batchSize);
      if (runs === undefined) this.#runs.set(batchSize, (runs = new RunsOfSize()));
      runs.note(run);
    }
    this.#recent = recent.slice(first);
  }

  /** Times as long as believed that runs take now: 1 unless recent ones say another with certainty (O2, O3). */
  #changeOfSpeed(): number {
    if (this.#recent.length < RUNS_MIN) return 1;
    const ratios = Float64Array.from(this.#recent, ({ batchSize, run }) => run / this.#believed(batchSize)).sort();
    const median = quantile(ratios, 0.5);
    return isTypical(1, ratios) || Math.abs(median - 1) < CHANGE_LEAST ? 1 : median;
  }

  /** By batch size: the factor of a size that has had enough runs, and between such sizes the straight line. */
  #interpolated(): Float64Array {
    const own = [...this.#own].sort((a, b) => a - b);
    const factors = this.#factors.slice();
    if (own.length === 0) return factors;
    let next = 0; // the first of them at b or above it
    for (let b = 1; b < factors.length; b++) {
      while (next < own.length && own[next]! < b) next++;
      const [below, above] = [own[next - 1] ?? own[next]!, own[next] ?? own[next - 1]!];
      const part = above > below ? (b - below) / (above - below) : 0;
      factors[b] = factors[below]! + part * (factors[above]! - factors[below]!);
    }
    return factors;
  }
}

/** Whether the median of what these runs are a sample of may well be `believed` (O2). */
function isTypical(believed: number, ascending: Float64Array): boolean {
  const half = (CERTAIN * Math.sqrt(ascending.length)) / 2;
  const low = Math.max(0, Math.floor(ascending.length / 2 - half));
  const high = Math.min(ascending.length - 1, Math.ceil(ascending.length / 2 + half));
  return ascending[low]! <= believed && believed <= ascending[high]!;
}
