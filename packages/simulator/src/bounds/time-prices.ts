/**
 * Prices of accelerator time that change over time, and the cheapest schedule of one model at them: the pieces of the
 * non-preemptive bound (docs/algorithms.md, A7).
 *
 *   PRICE-1. A run costs the integral of the price over its time. Time outside of the grid is free.
 *   PRICE-2. A run's cost is linear in its start between those starts where it or its end passes into another cell, so
 *            its least cost within a cell is at one of at most three starts.
 *   PRICE-3. A start is looked for in all cells that its window touches: the cost found is never above the least one.
 */
import { assert } from "@tutti/units";
import type { BatchCosts, ClairvoyantStream, PricedSchedule } from "./clairvoyant.ts";

export class TimePrices {
  readonly from: number;
  /** Width of a cell in µs. */
  readonly cell: number;
  /** By cell; `integrate` after a change. */
  readonly prices: Float64Array;
  /** Integral from the beginning to the beginning of each cell, and to the end. */
  readonly #paid: Float64Array;

  constructor(from: number, cell: number, cells: number) {
    this.from = from;
    this.cell = cell;
    this.prices = new Float64Array(cells).fill(1);
    this.#paid = new Float64Array(cells + 1);
    this.integrate();
  }

  integrate(): void {
    const { prices, cell } = this;
    for (let k = 0; k < prices.length; k++) this.#paid[k + 1] = this.#paid[k]! + prices[k]! * cell;
  }

  /** Price of one accelerator for all the time. */
  get total(): number {
    return this.#paid[this.prices.length]!;
  }

  /** Index of the cell of a moment; the last one is all the time after the grid. */
  cellOf(moment: number): number {
    const k = Math.floor((moment - this.from) / this.cell);
    return k < 0 ? 0 : k > this.prices.length ? this.prices.length : k;
  }

  /** Least cost of a run that starts within each cell (PRICE-2). @param out - one longer than there are cells */
  leastCosts(run: number, out: Float64Array): void {
    const { prices, cell } = this;
    const paid = this.#paid;
    const cells = prices.length;
    const whole = Math.floor(run / cell);
    const rest = run / cell - whole;
    const last = paid[cells]!;
    for (let k = 0; k < cells; k++) {
      const end = k + whole; // the cell in which a run from the beginning of this cell ends
      const paidTo = end < cells ? paid[end]! : last;
      const paidPast = end + 1 < cells ? paid[end + 1]! : last;
      const atEnd = end < cells ? prices[end]! : 0;
      const atNext = end + 1 < cells ? prices[end + 1]! : 0;
      const first = paidTo + rest * atEnd * cell - paid[k]!;
      const middle = paidPast - paid[k]! - (1 - rest) * prices[k]! * cell;
      const final = paidPast + rest * atNext * cell - paid[k + 1]!;
      out[k] = first < middle ? (first < final ? first : final) : middle < final ? middle : final;
    }
    out[cells] = 0;
  }

  /** Adds one accelerator's time to the cells of a load. */
  addRun(load: Float64Array, start: number, end: number): void {
    const cells = this.prices.length;
    const last = Math.min(cells - 1, this.cellOf(end));
    for (let k = this.cellOf(start); k <= last; k++) {
      const left = this.from + k * this.cell;
      load[k]! += (Math.min(end, left + this.cell) - Math.max(start, left)) / this.cell;
    }
  }
}

/** The least of a window of cells that only moves forward: a queue of cells whose costs rise. */
class SlidingMinimum {
  readonly costs: Float64Array;
  readonly #queue: Int32Array;
  #head = 0;
  #tail = 0;
  #seen = -1;

  constructor(cells: number, windowMax: number) {
    this.costs = new Float64Array(cells + 1);
    this.#queue = new Int32Array(2 ** Math.ceil(Math.log2(windowMax + 2)));
  }

  rewind(): void {
    this.#head = this.#tail = 0;
    this.#seen = -1;
  }

  /** @returns the cell from `from` to `until` of least cost; neither ever falls */
  least(from: number, until: number): number {
    const { costs } = this;
    const queue = this.#queue;
    const mask = queue.length - 1;
    if (this.#seen < from - 1) {
      this.#head = this.#tail = 0;
      this.#seen = from - 1;
    }
    while (this.#head < this.#tail && queue[this.#head & mask]! < from) this.#head++;
    while (this.#seen < until) {
      const cost = costs[++this.#seen]!;
      while (this.#tail > this.#head && costs[queue[(this.#tail - 1) & mask]!]! >= cost) this.#tail--;
      queue[this.#tail++ & mask] = this.#seen;
    }
    return queue[this.#head & mask]!;
  }
}

/**
 * Cheapest schedules of one model whose requests have one SLO: clairvoyant.ts, with a cost that depends on the start.
 * O(requests · largest batch in time + cells · batch sizes).
 */
export class PricedStream {
  readonly #stream: ClairvoyantStream;
  readonly #costs: BatchCosts;
  readonly #prices: TimePrices;
  /** By batch size. */
  readonly #windows: readonly SlidingMinimum[];
  readonly #least: Float64Array;
  readonly #skipped: Int32Array;
  /** Size of the batch that ends the cheapest schedule of the first j requests, 0 for a skip; and its cell. */
  readonly #size: Uint16Array;
  readonly #cell: Int32Array;

  constructor(stream: ClairvoyantStream, costs: BatchCosts, prices: TimePrices) {
    const count = stream.arrivals.length;
    const slack = count === 0 ? 0 : stream.deadlines[0]! - stream.arrivals[0]!;
    this.#stream = stream;
    this.#costs = costs;
    this.#prices = prices;
    const window = Math.ceil(slack / prices.cell) + 2;
    this.#windows = Array.from(costs.run, () => new SlidingMinimum(prices.prices.length, window));
    this.#least = new Float64Array(count + 1);
    this.#skipped = new Int32Array(count + 1);
    this.#size = new Uint16Array(count + 1);
    this.#cell = new Int32Array(count + 1);
  }

  /** Call it once the prices have changed. */
  reprice(): void {
    for (let size = 1; size < this.#windows.length; size++)
      this.#prices.leastCosts(this.#costs.run[size]!, this.#windows[size]!.costs);
  }

  /** The schedule of least cost + price · skips. */
  solve(price: number): PricedSchedule {
    const { arrivals, deadlines } = this.#stream;
    const { run, finish } = this.#costs;
    const least = this.#least;
    const skipped = this.#skipped;
    const prices = this.#prices;
    for (const window of this.#windows) window.rewind();
    const batchSizeMax = run.length - 1;
    for (let end = 1; end <= arrivals.length; end++) {
      const lastArrival = arrivals[end - 1]!;
      let best = least[end - 1]! + price;
      let skips = skipped[end - 1]! + 1;
      let bestSize = 0;
      let bestCell = 0;
      const sizes = end < batchSizeMax ? end : batchSizeMax;
      for (let size = 1; size <= sizes; size++) {
        const first = end - size;
        // Larger batches start no earlier, run no shorter and have no later deadline.
        if (lastArrival + finish[size]! > deadlines[first]!) break;
        const from = prices.cellOf(lastArrival + finish[size]! - run[size]!);
        const window = this.#windows[size]!;
        const cell = window.least(from, prices.cellOf(deadlines[first]! - run[size]!));
        const total = least[first]! + window.costs[cell]!;
        if (total < best) {
          best = total;
          skips = skipped[first]!;
          bestSize = size;
          bestCell = cell;
        }
      }
      least[end] = best;
      skipped[end] = skips;
      this.#size[end] = bestSize;
      this.#cell[end] = bestCell;
    }
    const count = arrivals.length;
    return { time: least[count]! - price * skipped[count]!, skipped: skipped[count]! };
  }

  /** Adds the runs of the schedule that was solved last to a load, by cell. */
  addLoad(load: Float64Array): void {
    const { arrivals } = this.#stream;
    const { run, finish } = this.#costs;
    for (let end = arrivals.length; end > 0;) {
      const size = this.#size[end]!;
      if (size === 0) {
        end--;
        continue;
      }
      const earliest = arrivals[end - 1]! + finish[size]! - run[size]!;
      const start = Math.max(earliest, this.#prices.from + this.#cell[end]! * this.#prices.cell);
      this.#prices.addRun(load, start, start + run[size]!);
      end -= size;
    }
    assert(load.length === this.#prices.prices.length, "a load of other cells");
  }
}
