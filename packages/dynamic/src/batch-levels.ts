/**
 * How long a batch takes whose members are chosen by length: classes of requests (an application, or a range of its
 * size hints) in order of their mean times alone, and per (level, batch size) the distribution of a batch of classes up
 * to that level, with one member of it. docs/algorithms.md, B3, restricts the mixture no further than to everything
 * that arrives; a scheduler that keeps long requests out of a batch of short ones knows more.
 *
 *   BL1. F_{c,k} = F_c · F_{≤c}^{k−1}, F_{≤c} the mixture of the classes up to c: with one class Orloj's F^k.
 *   BL2. A score is read from a table between the least and the most time, exact beyond: there it decays with
 *        e^{−b·slack}.
 */
import { assert } from "@tutti/units";
import type { BatchCosts } from "./batch-costs.ts";
import { type Histogram, cdfOn, halved, meanOf, quantileOf, unionGrid } from "./histogram.ts";
import { mapped, productOf } from "./latency-model.ts";

export interface ClassLatency {
  /** Of its requests run alone, µs. */
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
/** Of many classes the union of their edges is as fine already, and levels are made while requests wait. */
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
  /** By level: of all arrivals, those of levels up to it. */
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
  /** Of all arrivals, those that a batch of that level may have as members. */
  shareUpTo(level: number): number {
    return this.#shares[level]! / this.#shares.at(-1)!;
  }
  /** E[L] in µs. */
  expected(level: number, place: number): number {
    return this.#entries[level * this.sizes.length + place]!.expected;
  }
  /** Within this time the batch ends with the certainty asked for, µs. */
  needed(level: number, place: number): number {
    return this.#entries[level * this.sizes.length + place]!.needed;
  }
  /** Nothing of what was measured takes longer, µs. */
  bound(level: number, place: number): number {
    return this.#entries[level * this.sizes.length + place]!.most;
  }
  /** B2's p for c = 1 of a member of a batch that starts with so much slack. */
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
 * LatencyCurve.scoreAt at STEPS + 1 slacks from the least to the most time, in one pass over the bins: there are
 * hundreds of entries, and they are made while requests wait. What lies below a slack fades as a whole, by e^{−b} for
 * each µs.
 */
function scoresOf(
  { edges, masses }: Histogram,
  { chances, expected, first, end }: { chances: number; expected: number; first: number; end: number },
): Float64Array {
  const scores = new Float64Array(STEPS + 1);
  const [least, most] = [edges[first]!, edges[end]!];
  /** Of the bins below `bin`, as it is at the end of the last of them. */
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
