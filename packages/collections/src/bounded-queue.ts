/**
 * A queue in a ring of fixed capacity. At the bound a push is refused, and nothing else happens.
 */
import { assert } from "@tutti/units";

export class BoundedQueue<T> {
  readonly #capacity: number;
  #ring: (T | undefined)[];
  #head = 0;
  #size = 0;

  constructor(capacity: number) {
    assert(Number.isInteger(capacity) && capacity > 0, `a queue of ${capacity} places`);
    this.#capacity = capacity;
    this.#ring = new Array<T | undefined>(Math.min(capacity, 16)).fill(undefined);
  }

  get size(): number {
    return this.#size;
  }
  get first(): T | undefined {
    return this.#ring[this.#head];
  }

  /** False at the bound. */
  push(item: T): boolean {
    if (!this.#makeRoom()) return false;
    this.#ring[this.#place(this.#size++)] = item;
    return true;
  }
  shift(): T | undefined {
    if (this.#size === 0) return undefined;
    const item = this.#ring[this.#head];
    this.#ring[this.#head] = undefined;
    this.#head = this.#place(1);
    this.#size--;
    return item;
  }

  #place(offset: number): number {
    const place = this.#head + offset;
    return place < this.#ring.length ? place : place - this.#ring.length;
  }
  #makeRoom(): boolean {
    if (this.#size < this.#ring.length) return true;
    if (this.#size === this.#capacity) return false;
    const wider = new Array<T | undefined>(Math.min(this.#capacity, 2 * this.#ring.length)).fill(undefined);
    for (let i = 0; i < this.#size; i++) wider[i] = this.#ring[this.#place(i)];
    this.#ring = wider;
    this.#head = 0;
    return true;
  }
}
