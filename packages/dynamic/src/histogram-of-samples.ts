import { assert } from "@tutti/units";
import { BINS_MAX, type Histogram, histogram, leastWidth } from "./histogram.ts";

/**
 * Nothing between two neighbours over such a share of all lengths lies between modes; of few samples over more, since
 * these lie apart anyway.
 */
const GAP_SHARE = 1 / 16;
const GAP_FEW = 8;

/**
 * Bins of the longest times. The longest of k requests lies mostly in the highest 1/k of the distribution, and one even
 * bin up to the greatest sample makes it look longer than it is. So the last of the equal parts is halved three times.
 */
const TAIL_BINS = 4;

/**
 * At most `binsMax` bins, of equal mass but for the tail, and empty ones where nothing lies between two modes. Bins
 * without gaps would spread the last samples of a mode over all of the way to the next one, and of a mode that is one
 * value all of its samples: two modes of 10 and 50 ms would have a mean of 40 ms instead of 30.
 *
 * @param samples - running times alone, in µs; at least one; in any order
 */
export function histogramOf(samples: ArrayLike<number>, binsMax = BINS_MAX): Histogram {
  assert(samples.length > 0 && binsMax > 0, "a histogram needs samples and bins");
  const sorted = Float64Array.from(samples).sort();
  const width = leastWidth(sorted[sorted.length >> 1]!);
  const range = sorted.at(-1)! - sorted[0]!;
  const gap = Math.max(width, range * Math.max(GAP_SHARE, GAP_FEW / sorted.length));
  const bins: { low: number; high: number; count: number }[] = [];
  for (let j = 0; j < binsMax; j++) {
    const first = Math.floor(shareBelow(j, binsMax) * sorted.length);
    const end = Math.floor(shareBelow(j + 1, binsMax) * sorted.length);
    for (const run of runsOf(sorted.subarray(first, end), gap)) {
      const low = run[0]!;
      const high = Math.max(run.at(-1)!, low + width);
      const last = bins.at(-1);
      if (last === undefined || low - last.high > gap) bins.push({ low, high, count: run.length });
      else if (low < last.high || last.high - last.low < width) {
        last.high = Math.max(last.high, high);
        last.count += run.length;
      } else {
        last.high = low; // They touch: nothing lies between.
        bins.push({ low, high, count: run.length });
      }
    }
  }
  const edges = [bins[0]!.low];
  const masses: number[] = [];
  for (const { low, high, count } of bins) {
    if (low > edges.at(-1)!) {
      edges.push(low);
      masses.push(0);
    }
    edges.push(high);
    masses.push(count / sorted.length);
  }
  return histogram(edges, masses);
}

/** Share of the samples below an edge: 0 … bins. */
function shareBelow(edge: number, bins: number): number {
  const parts = Math.max(1, bins - TAIL_BINS + 1);
  if (edge < parts) return edge / parts;
  return edge === bins ? 1 : 1 - 2 ** (parts - edge - 1) / parts;
}

/** Split where two neighbours are further apart than `gap`. */
function runsOf(sorted: Float64Array, gap: number): Float64Array[] {
  const runs: Float64Array[] = [];
  let first = 0;
  for (let i = 1; i <= sorted.length; i++) {
    if (i < sorted.length && sorted[i]! - sorted[i - 1]! <= gap) continue;
    if (i > first) runs.push(sorted.subarray(first, i));
    first = i;
  }
  return runs;
}
