/**
 * Batch latency where members are chosen by length. Classes of requests (an application, or a range of its size hints)
 * are ordered by their mean times alone. For each (level, batch size) there is the distribution of a batch that has one
 * member of the class at that level and other members of classes up to it. The mixture of docs/algorithms.md, B3,
 * covers everything that arrives; a scheduler that keeps long requests out of a batch of short ones has a tighter
 * estimate.
 *
 *   BL1. F_{c,k} = F_c · F_{≤c}^{k−1}, F_{≤c} the mixture of the classes up to c: with one class Orloj's F^k.
 *   BL2. A score is read from a table between the least and the most time. Beyond the most time it is computed exactly:
 *        it decays with e^{−b·slack}.
 */
import { assert } from "@tutti/units";
import type { BatchCosts } from "./batch-costs.ts";
import { type Histogram, cdfOn, halved, meanOf, quantileOf, unionGrid } from "./histogram.ts";
import { mapped, productOf } from "./latency-model.ts";

export interface ClassLatency {
  /** Distribution of the running times of its requests alone, µs. */
  readonly alone: Histogram;
  /** Its share of the arrivals; shares need not sum to 1. */
  readonly share: number;
}

export interface BatchLevelsOptions {
  readonly classes: readonly ClassLatency[];
  /** S: batch sizes, ascending from 1. */
  readonly sizes: readonly number[];
  readonly costs: BatchCosts;
  /** b_τ in 1/µs. */
  readonly chances: number;
  /** A batch is planned to end by its members' deadlines with this probability. */
  readonly certainty: number;
}

const HALVINGS = 2;
/** With many classes the union of their edges is fine enough already, and levels are built while requests wait. */
const EDGES_FINE = 400;
const STEPS = 64;

interface Entry {
  readonly expected: number;
  readonly needed: number;
  readonly least: number;
  readonly most: number;
  readonly scores: Float64Array;
}

export class BatchLevels {
  readonly sizes: readonly number[];
  readonly classes: number;
  readonly #chances: number;
  /** By class: its place in the order of means. */
  readonly #levels: Int32Array;
  /** By level: share of all arrivals that are of levels up to it. */
  readonly #shares: Float64Array;
  /** By level · sizes + place. */
  readonly #entries: readonly Entry[];

  constructor({ classes, sizes, costs, chances, certainty }: BatchLevelsOptions) {
    assert(classes.length > 0 && sizes[0] === 1, "levels need classes, and batch sizes from 1");
    this.sizes = sizes;
    this.classes = classes.length;
    this.#chances = chances;
    const means = classes.map(({ alone }) => meanOf(alone));
    const order = [...classes.keys()].sort((a, b) => means[a]! - means[b]! || a - b);
    this.#levels = new Int32Array(classes.length);
    this.#shares = new Float64Array(classes.length);
    for (const [level, one] of order.entries()) this.#levels[one] = level;
    let grid = unionGrid(classes.map(({ alone }) => alone));
    for (let i = 0; i < HALVINGS && grid.length < EDGES_FINE; i++) grid = halved(grid);
    const upTo = new Float64Array(grid.length);
    let share = 0;
    const entries: Entry[] = [];
    for (const one of order) {
      const own = cdfOn(classes[one]!.alone, grid);
      const weight = Math.max(1e-9, classes[one]!.share);
      for (let i = 0; i < grid.length; i++) upTo[i] = (upTo[i]! * share + own[i]! * weight) / (share + weight);
      share += weight;
      this.#shares[this.#levels[one]!] = share;
      for (const size of sizes) {
        const batch = mapped(grid, productOf(own, upTo, size - 1), costs(size));
        entries.push(entryOf(batch, chances, certainty));
      }
    }
    this.#entries = entries;
  }

  levelOf(oneClass: number): number {
    return this.#levels[oneClass]!;
  }
  /** Share of all arrivals that may be members of a batch of that level. */
  shareUpTo(level: number): number {
    return this.#shares[level]! / this.#shares.at(-1)!;
  }
  /** E[L] in µs. */
  expected(level: number, place: number): number {
    return this.#entries[level * this.sizes.length + place]!.expected;
  }
  /** Time within which the batch ends with the requested certainty, µs. */
  needed(level: number, place: number): number {
    return this.#entries[level * this.sizes.length + place]!.needed;
  }
  /** Longest time in the measured distribution, µs. */
  bound(level: number, place: number): number {
    return this.#entries[level * this.sizes.length + place]!.most;
  }
  /** Score p of B2, for c = 1, of a member of a batch that starts with this slack. */
  score(level: number, place: number, slack: number): number {
    const { least, most, scores } = this.#entries[level * this.sizes.length + place]!;
    if (slack <= least) return 0;
    if (slack >= most) return scores[STEPS]! * Math.exp(this.#chances * (most - slack));
    const at = ((slack - least) / (most - least)) * STEPS;
    const below = Math.floor(at);
    return scores[below]! + (at - below) * (scores[below + 1]! - scores[below]!);
  }
}

function entryOf(batch: Histogram, chances: number, certainty: number): Entry {
  const expected = meanOf(batch);
  const { edges, masses } = batch;
  let first = 0;
  let end = masses.length;
  while (masses[first] === 0) first++;
  while (masses[end - 1] === 0) end--;
  const [least, most] = [edges[first]!, edges[end]!];
  return {
    expected,
    needed: quantileOf(batch, certainty),
    least,
    most,
    scores: scoresOf(batch, { chances, expected, first, end }),
  };
}

/**
 * LatencyCurve.scoreAt at STEPS + 1 slacks from the least to the most time, in one pass over the bins. There are
 * hundreds of entries, and they are built while requests wait. The sum over the bins below a slack decays as a whole,
 * by e^{−b} for each µs.
 */
function scoresOf(
  { edges, masses }: Histogram,
  { chances, expected, first, end }: { chances: number; expected: number; first: number; end: number },
): Float64Array {
  const scores = new Float64Array(STEPS + 1);
  const [least, most] = [edges[first]!, edges[end]!];
  /** Sum over the bins below `bin`, as it is at the end of the last of them. */
  let ended = 0;
  let bin = first;
  for (let i = 0; i <= STEPS; i++) {
    const slack = i === STEPS ? most : least + (i / STEPS) * (most - least);
    while (bin < end && edges[bin + 1]! <= slack) {
      const width = edges[bin + 1]! - edges[bin]!;
      ended = ended * Math.exp(-chances * width) - weightOf(bin) * Math.expm1(-chances * width);
      bin++;
    }
    const since = slack - edges[bin]!;
    const inside = bin < end ? -weightOf(bin) * Math.expm1(-chances * since) : 0;
    scores[i] = ended * Math.exp(-chances * since) + inside;
  }
  return scores;

  function weightOf(j: number): number {
    return masses[j]! / (edges[j + 1]! - edges[j]!) / (expected * chances);
  }
}
