/**
 * The order of some thousand moments, by radix sort: an order of numbers without comparisons, and of what belongs to
 * them without moving it.
 */

/** Places of a digit: what is counted by them stays in the nearest cache. */
const DIGIT_BITS = 11;

export class TimeOrder {
  #order: Uint32Array = new Uint32Array(0);
  #before: Uint32Array = new Uint32Array(0);
  readonly #counts = new Uint32Array(2 ** DIGIT_BITS);

  /**
   * @param count - how many of `moments` to sort
   * @param end - all of them are below it
   * @returns the places of the moments, the earliest first, equal ones as they stand; borrowed until the next call
   */
  of(moments: Uint32Array, count: number, end: number): Uint32Array {
    if (this.#order.length < count) {
      this.#order = new Uint32Array(moments.length);
      this.#before = new Uint32Array(moments.length);
    }
    const bits = 32 - Math.clz32(end);
    const passes = Math.max(1, Math.ceil(bits / DIGIT_BITS));
    const width = Math.ceil(bits / passes);
    for (let i = 0; i < count; i++) this.#order[i] = i;
    for (let pass = 0; pass < passes; pass++) this.#sortByDigit(moments, count, pass * width, width);
    return this.#order;
  }

  #sortByDigit(moments: Uint32Array, count: number, shift: number, width: number): void {
    const from = this.#order;
    const to = this.#before;
    const counts = this.#counts;
    const mask = 2 ** width - 1;
    counts.fill(0, 0, mask + 1);
    for (let i = 0; i < count; i++) counts[(moments[i]! >>> shift) & mask]!++;
    let place = 0;
    for (let digit = 0; digit <= mask; digit++) {
      const next = place + counts[digit]!;
      counts[digit] = place;
      place = next;
    }
    for (let i = 0; i < count; i++) {
      const moment = from[i]!;
      to[counts[(moments[moment]! >>> shift) & mask]!++] = moment;
    }
    this.#order = to;
    this.#before = from;
  }
}
