/**
 * The fewest executors that any partition needs. It tries every split of an executor, every assignment of shares of
 * models to parts, and every duty cycle that could make a part fit. It covers the ideal scheduler of gpulet's Figures
 * 15 and 16, and more: theirs tries every split, but places greedily.
 *
 *   PO1. A mix can fit only if it fits without any one of its shares. A mix that doesn't fit never does with more
 *        shares, so most mixes are never looked at.
 *   PO2. A part fits if one model runs on it batch after batch, or if in some duty cycle all its models pass C10 with
 *        L·f.
 */
import { assert } from "@tutti/units";
import { type FractionModel, type Interference, SIZES, WHOLE, factorBeside } from "../index.ts";
import { atMost, batchIn } from "../packing/stream.ts";

export interface PartitionOracleOptions {
  /** Number of equal shares into which each model may be cut; shares may be on different parts. */
  readonly shares: number;
  readonly executorsMax: number;
  readonly interference?: Interference;
  readonly sizes?: readonly number[];
}

/** Most mixes. A mix is a counter to base shares + 1, with a digit for each model. */
const MIXES = 2 ** 17;

export class PartitionOracle {
  readonly #shares: readonly FractionModel[];
  readonly #options: PartitionOracleOptions;
  readonly #sizes: readonly number[];
  /** Weight of each digit. */
  readonly #weights: readonly number[];
  readonly #mixes: number;
  /** Fewest executors by mix; more than executorsMax: it doesn't fit. */
  readonly #fewest: Uint8Array;
  readonly #fitting = new Map<number, boolean>();

  /** @param shares - each model at the rate of one of its shares */
  constructor(shares: readonly FractionModel[], options: PartitionOracleOptions) {
    this.#shares = shares;
    this.#options = options;
    this.#sizes = options.sizes ?? SIZES;
    this.#weights = shares.map((_, i) => (options.shares + 1) ** i);
    this.#mixes = (options.shares + 1) ** shares.length;
    assert(this.#mixes <= MIXES, `${this.#mixes} mixes are too many to look at all`);
    this.#fewest = new Uint8Array(this.#mixes).fill(options.executorsMax + 1);
    this.#fewest[0] = 0;
    this.#fill();
  }

  /**
   * @param counts - number of shares by model
   * @returns Infinity where executorsMax don't suffice
   */
  fewest(counts: readonly number[]): number {
    const mix = counts.reduce((sum, count, i) => sum + count * this.#weights[i]!, 0);
    const found = this.#fewest[mix]!;
    return found > this.#options.executorsMax ? Infinity : found;
  }

  #fill(): void {
    for (let mix = 1; mix < this.#mixes; mix++) if (this.#fitsOnOne(mix)) this.#fewest[mix] = 1;
    const largest: number[] = [];
    for (let mix = 1; mix < this.#mixes; mix++) if (this.#fewest[mix] === 1 && !this.#hasLarger(mix)) largest.push(mix);
    for (let executors = 2; executors <= this.#options.executorsMax; executors++) {
      for (let mix = 1; mix < this.#mixes; mix++) {
        if (this.#fewest[mix]! < executors) continue;
        // By PO1 one executor may take as much of the mix as it can.
        const fits = largest.some((one) => this.#fewest[mix - this.#common(mix, one)]! < executors);
        if (fits) this.#fewest[mix] = executors;
      }
    }
  }

  #digit(mix: number, model: number): number {
    return Math.floor(mix / this.#weights[model]!) % (this.#options.shares + 1);
  }
  #common(mix: number, one: number): number {
    let common = 0;
    for (const [i, weight] of this.#weights.entries())
      common += weight * Math.min(this.#digit(mix, i), this.#digit(one, i));
    return common;
  }
  #hasLarger(mix: number): boolean {
    return this.#weights.some(
      (weight, i) => this.#digit(mix, i) < this.#options.shares && this.#fewest[mix + weight] === 1,
    );
  }

  #fitsOnOne(mix: number): boolean {
    for (const [i, weight] of this.#weights.entries())
      if (this.#digit(mix, i) > 0 && this.#fewest[mix - weight]! > 1) return false; // PO1
    if (this.#partFits(WHOLE, mix, 0)) return true;
    const smaller = this.#sizes.filter((size) => 2 * size <= WHOLE);
    for (const first of this.#within(mix, 0))
      for (const size of smaller) {
        const second = mix - first;
        if (!this.#partFits(size, first, this.#namesOf(second))) continue;
        if (this.#partFits(WHOLE - size, second, this.#namesOf(first))) return true;
      }
    return false;
  }
  /** All mixes that are contained in a mix. */
  *#within(mix: number, model: number): Generator<number> {
    if (model === this.#shares.length) {
      yield 0;
      return;
    }
    const most = this.#digit(mix, model);
    for (const rest of this.#within(mix, model + 1))
      for (let count = 0; count <= most; count++) yield rest + count * this.#weights[model]!;
  }
  /** Models of a mix, one bit each: interference depends on nothing else. */
  #namesOf(mix: number): number {
    let names = 0;
    for (const i of this.#shares.keys()) if (this.#digit(mix, i) > 0) names |= 1 << i;
    return names;
  }

  #partFits(size: number, mix: number, beside: number): boolean {
    if (mix === 0) return true;
    const key = (size * this.#mixes + mix) * 2 ** this.#shares.length + beside;
    let fits = this.#fitting.get(key);
    if (fits === undefined) this.#fitting.set(key, (fits = fitsOn(size, this.#itemsOf(size, mix, beside))));
    return fits;
  }
  #itemsOf(size: number, mix: number, beside: number): Item[] {
    const { interference } = this.#options;
    const others = this.#shares.filter((_, i) => (beside & (1 << i)) !== 0);
    return this.#shares.flatMap((model, i) => {
      const rate = model.rate * this.#digit(mix, i);
      if (rate === 0) return [];
      const factors = others.map((other) =>
        interference === undefined
          ? 1
          : factorBeside(interference, { model, size }, { model: other, size: WHOLE - size }),
      );
      return [{ model, rate, factor: Math.max(1, ...factors) }];
    });
  }
}

interface Item {
  readonly model: FractionModel;
  readonly rate: number;
  readonly factor: number;
}

/** Whether items fit on a part (PO2). */
function fitsOn(size: number, items: readonly Item[]): boolean {
  const latency = ({ model, factor }: Item, b: number): number => model.latency(b, size) * factor;
  if (items.length === 1) {
    const [item] = items as [Item];
    for (let b = 1; b <= item.model.batchMax; b++)
      if (atMost(2 * latency(item, b), item.model.slo) && b / latency(item, b) >= item.rate * (1 - 1e-9)) return true;
  }
  const passes = (dutyCycle: number): boolean => {
    let busy = 0;
    for (const item of items) {
      const b = batchIn(dutyCycle, item.rate);
      if (b > item.model.batchMax || !atMost(dutyCycle + latency(item, b), item.model.slo)) return false;
      busy += latency(item, b);
      if (!atMost(busy, dutyCycle)) return false;
    }
    return true;
  };
  // Between two of these cycles no batch changes and no further SLO is met, so a shorter cycle has less room and gains
  // nothing.
  return items.some((item) => {
    for (let b = 1; b <= item.model.batchMax; b++)
      for (const dutyCycle of [b / item.rate, item.model.slo - latency(item, b)])
        if (dutyCycle > 0 && passes(dutyCycle)) return true;
    return false;
  });
}
