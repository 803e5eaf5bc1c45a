/**
 * LatencyObserver: l(b) as live runs have it. It begins with a seed, the profile that is given or was measured, and
 * corrects it by the ratio of each size's recent runs to the seed. docs/architecture.md, section 5.
 *
 *   O1. A latency is the typical run: the median. What slow runs take beyond it is no part of l(b); batches keep time
 *       in hand for it (docs/algorithms.md, A9).
 *   O2. What is believed stands until recent runs disagree significantly: until it lies outside the interval in which
 *       their median is with 99 % certainty. So noise moves nothing, and a change of speed counts once most of the
 *       recent runs have it.
 *   O3. A size without recent runs moves with those that have some: an accelerator that is throttled runs every size
 *       slower.
 *   O4. After `window` without any run the seed counts again.
 */
import { type Instant, type Micros, assert } from "@tutti/units";
import { LatencyTable } from "./latency-table.ts";
import { quantile } from "./quantile.ts";

/** Runs that are recent, µs. A change of speed counts after half of that. */
const RECENT = 4_000_000;
/** Fewest recent runs of one size that say something about it. */
const RUNS_MIN = 8;
/** Most runs kept of a size: enough for a median within 2 % where runs vary by a tenth. */
const RUNS_MAX = 128;
/** Half the width of the interval of a median, in standard deviations of the rank. */
const CERTAIN = 2.576;

/** The last runs of a size. */
class RecentRuns {
  readonly #at = new Float64Array(RUNS_MAX);
  readonly #run = new Float64Array(RUNS_MAX);
  #noted = 0;

  note(at: Instant, run: Micros): void {
    this.#at[this.#noted % RUNS_MAX] = at;
    this.#run[this.#noted++ % RUNS_MAX] = run;
  }
  /** Runs since an instant, ascending. */
  since(from: number): Float64Array {
    const kept = Math.min(this.#noted, RUNS_MAX);
    return this.#run
      .subarray(0, kept)
      .filter((_, i) => this.#at[i]! >= from)
      .sort();
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
  /** By batch size; created when a size first runs. */
  readonly #runs = new Map<number, RecentRuns>();
  /** By batch size: what is believed, as a factor on the seed. */
  readonly #factors: Float64Array;
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
    let runs = this.#runs.get(batchSize);
    if (runs === undefined) this.#runs.set(batchSize, (runs = new RecentRuns()));
    runs.note(at, run);
  }

  /** Latencies to plan with: the typical run of each size. */
  planning(at: Instant): LatencyTable {
    this.#learn(at);
    if (this.#factors.every((factor) => factor === 1)) return this.#seed;
    const points = this.#seed.toPoints().map(({ batchSize, latency }) => {
      return { batchSize, latency: Math.max(1, latency * this.#factors[batchSize]!) as Micros };
    });
    return LatencyTable.fromPoints(points);
  }

  /** How the recent runs vary, by rising size. */
  spread(at: Instant): Spread[] {
    return this.#recent(at).map(([batchSize, runs]) => {
      const [p10, p50, p90] = [quantile(runs, 0.1), quantile(runs, 0.5), quantile(runs, 0.9)];
      return { batchSize, runs: runs.length, p10, p50, p90 };
    });
  }

  #learn(at: Instant): void {
    if (at - this.#lastAt > this.#window) return void this.#factors.fill(1); // O4
    const changes: number[] = [];
    const measured = new Set<number>();
    for (const [batchSize, runs] of this.#recent(at)) {
      const believed = this.#factors[batchSize]! * this.#seed.latency(batchSize);
      const median = isTypical(believed, runs) ? believed : quantile(runs, 0.5);
      measured.add(batchSize);
      for (let i = 0; i < runs.length; i++) changes.push(median / believed);
      this.#factors[batchSize]! *= median / believed;
    }
    if (changes.length === 0) return;
    const change = quantile(
      changes.sort((a, b) => a - b),
      0.5,
    );
    if (change === 1) return;
    for (let b = 1; b < this.#factors.length; b++) if (!measured.has(b)) this.#factors[b]! *= change; // O3
  }

  /** Sizes with enough recent runs, and these runs, ascending. */
  #recent(at: Instant): [number, Float64Array][] {
    const recent = [...this.#runs].map(([size, runs]): [number, Float64Array] => [size, runs.since(at - RECENT)]);
    return recent.filter(([, runs]) => runs.length >= RUNS_MIN).sort(([a], [b]) => a - b);
  }
}

/** Whether the median of what these runs are a sample of may well be `believed` (O2). */
function isTypical(believed: number, ascending: Float64Array): boolean {
  const half = (CERTAIN * Math.sqrt(ascending.length)) / 2;
  const low = Math.max(0, Math.floor(ascending.length / 2 - half));
  const high = Math.min(ascending.length - 1, Math.ceil(ascending.length / 2 + half));
  return ascending[low]! <= believed && believed <= ascending[high]!;
}
