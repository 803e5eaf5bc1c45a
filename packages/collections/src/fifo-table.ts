/**
 * A queue for each of the ids 0 … capacity − 1, most of which hold one item or none. The first item lies in a table of
 * its own, so that such a queue touches one place in memory.
 *
 *   FT1. Items after the first exist only where there is a first.
 */
export class FifoTable<T> {
  readonly #first: (T | undefined)[];
  readonly #rest: (T[] | undefined)[];

  constructor(capacity: number) {
    this.#first = new Array<T | undefined>(capacity).fill(undefined);
    this.#rest = new Array<T[] | undefined>(capacity).fill(undefined);
  }

  first(id: number): T | undefined {
    return this.#first[id];
  }
  push(id: number, item: T): void {
    if (this.#first[id] === undefined) this.#first[id] = item;
    else (this.#rest[id] ??= []).push(item);
  }
  shift(id: number): T | undefined {
    const first = this.#first[id];
    const rest = this.#rest[id];
    this.#first[id] = rest?.shift();
    if (rest?.length === 0) this.#rest[id] = undefined;
    return first;
  }
  /** Items of a queue, the first first. */
  items(id: number): T[] {
    const first = this.#first[id];
    return first === undefined ? [] : [first, ...(this.#rest[id] ?? [])];
  }
}
