/**
 * Distributions of running times: masses in bins, uniform inside a bin (Orloj §3; docs/algorithms.md, B1). Times are in
 * µs and need not be whole.
 *
 *   HISTOGRAM-1. Edges rise strictly, masses are ≥ 0 and sum to 1 ± 1e-12.
 *   HISTOGRAM-2. No bin is narrower than max(10 µs, 0.5 % of the median), so that a static model is one narrow bin and
 *                not a division by zero.
 */
import { assert } from "@tutti/units";

export interface Histogram {
  /** n + 1 edges, in µs. Bin j is [edges[j], edges[j+1]). */
  readonly edges: Float64Array;
  /** n masses. */
  readonly masses: Float64Array;
}

/** Every edge costs two milestones per pending request (B5). */
export const BINS_MAX = 16;
const WIDTH_MIN_US = 10;
const WIDTH_MIN_SHARE = 0.005;
/** Relative error that is assumed for a model before it has been measured (B9). */
const COLD_SPREAD = 0.2;

/** @throws AssertionError where the histogram breaks HISTOGRAM-1 */
export function histogram(edges: ArrayLike<number>, masses: ArrayLike<number>): Histogram {
  assert(edges.length === masses.length + 1 && masses.length > 0, `${edges.length} edges of ${masses.length} bins`);
  let sum = 0;
  for (let j = 0; j < masses.length; j++) {
    assert(edges[j]! < edges[j + 1]! && edges[j]! >= 0, `H1: edges ${edges[j]} and ${edges[j + 1]}`);
    assert(masses[j]! >= 0, `H1: a mass of ${masses[j]}`);
    sum += masses[j]!;
  }
  assert(Math.abs(sum - 1) < 1e-9, `H1: masses sum to ${sum}`);
  return { edges: Float64Array.from(edges), masses: Float64Array.from(masses, (mass) => mass / sum) };
}

/** Least width of a bin (HISTOGRAM-2), µs. */
export const leastWidth = (median: number): number => Math.max(WIDTH_MIN_US, WIDTH_MIN_SHARE * median);

/** The histogram of a static model: one bin of least width that begins at `value`. */
export const pointHistogram = (value: number): Histogram => histogram([value, value + leastWidth(value)], [1]);

/** Histogram of a model of which only l(1) is known: uniform within ± 20 % of it (B9). */
export const coldHistogram = (solo: number): Histogram =>
  histogram(
    [(1 - COLD_SPREAD) * solo, Math.max((1 + COLD_SPREAD) * solo, (1 - COLD_SPREAD) * solo + leastWidth(solo))],
    [1],
  );

/** Whether the histogram is one bin of least width (HISTOGRAM-2): a model that always takes the same time. */
export const isPoint = ({ edges, masses }: Histogram): boolean =>
  masses.length === 1 && edges[1]! - edges[0]! <= leastWidth(edges[0]!) * 1.01;

/** Mixture of kinds of requests, weighted by their shares; at most BINS_MAX times 4 bins. */
export function mixtureOf(parts: readonly { readonly share: number; readonly alone: Histogram }[]): Histogram {
  assert(parts.length > 0, "a mixture of nothing");
  if (parts.length === 1) return parts[0]!.alone;
  const total = parts.reduce((sum, { share }) => sum + share, 0);
  const grid = thinned(unionGrid(parts.map(({ alone }) => alone)), 4 * BINS_MAX);
  const masses = new Float64Array(grid.length - 1);
  for (const { alone, share } of parts) {
    const weight = total > 0 ? share / total : 1 / parts.length;
    const cdf = cdfOn(alone, grid);
    for (let j = 0; j < masses.length; j++) masses[j]! += weight * Math.max(0, cdf[j + 1]! - cdf[j]!); // rounding
  }
  return histogram(grid, masses);
}

/** Keeps every n-th edge, and always the first and the last. */
function thinned(grid: Float64Array, binsMax: number): Float64Array {
  const step = Math.ceil((grid.length - 1) / binsMax);
  return grid.filter((_, i) => i % step === 0 || i === grid.length - 1);
}

/** Mean: Σ mass · midpoint. Uniform bins underestimate maxima: use grids refined with `halved` for those. */
export function meanOf({ edges, masses }: Histogram): number {
  let mean = 0;
  for (let j = 0; j < masses.length; j++) mean += (masses[j]! * (edges[j]! + edges[j + 1]!)) / 2;
  return mean;
}

export function varianceOf(of: Histogram): number {
  const mean = meanOf(of);
  let variance = 0;
  for (let j = 0; j < of.masses.length; j++) {
    const [low, high] = [of.edges[j]!, of.edges[j + 1]!];
    variance += of.masses[j]! * (((low + high) / 2 - mean) ** 2 + (high - low) ** 2 / 12);
  }
  return variance;
}

/** @param quantile - 0 … 1 */
export function quantileOf({ edges, masses }: Histogram, quantile: number): number {
  let below = 0;
  for (let j = 0; j < masses.length; j++) {
    const mass = masses[j]!;
    if (mass > 0 && below + mass >= quantile)
      return edges[j]! + (Math.max(0, quantile - below) / mass) * (edges[j + 1]! - edges[j]!);
    below += mass;
  }
  return edges.at(-1)!;
}

/** All edges of the histograms, once each: the grid on which their CDFs are compared and multiplied. */
export function unionGrid(histograms: readonly Histogram[]): Float64Array {
  const edges = new Set<number>();
  for (const one of histograms) for (const edge of one.edges) edges.add(edge);
  return Float64Array.from(edges).sort();
}

/** The grid with every bin halved. */
export function halved(grid: Float64Array): Float64Array {
  const finer = new Float64Array(2 * grid.length - 1);
  for (let i = 0; i < grid.length; i++) {
    finer[2 * i] = grid[i]!;
    if (i > 0) finer[2 * i - 1] = (grid[i - 1]! + grid[i]!) / 2;
  }
  return finer;
}

/** F at each place of the grid, which contains all edges of the histogram; F is linear between them. */
export function cdfOn({ edges, masses }: Histogram, grid: Float64Array): Float64Array {
  const cdf = new Float64Array(grid.length);
  let bin = 0;
  let below = 0;
  for (let i = 0; i < grid.length; i++) {
    const x = grid[i]!;
    while (bin < masses.length && x >= edges[bin + 1]!) below += masses[bin++]!;
    const isInside = bin < masses.length && x > edges[bin]!;
    cdf[i] = isInside ? below + (masses[bin]! * (x - edges[bin]!)) / (edges[bin + 1]! - edges[bin]!) : below;
  }
  if (cdf.length > 0 && grid.at(-1)! >= edges.at(-1)!) cdf[cdf.length - 1] = 1; // exactly, so that masses sum to 1
  return cdf;
}
