/**
 * A queue with two ends in a ring of fixed capacity. At the bound a push is refused, and nothing else happens.
 */
import { assert } from "@tutti/units";

export class BoundedDeque<T> {
  readonly capacity: number;
  #ring: (T | undefined)[];
  #head = 0;
  #size = 0;

  constructor(capacity: number) {
    assert(Number.isInteger(capacity) && capacity > 0, `a queue of ${capacity} places`);
    this.capacity = capacity;
    this.#ring = new Array<T | undefined>(Math.min(capacity, 16)).fill(undefined);
  }

  get size(): number {
    return this.#size;
  }
  get isFull(): boolean {
    return this.#size === this.capacity;
  }

  /** False at the bound. */
  pushBack(item: T): boolean {
    if (!this.#makeRoom()) return false;
    this.#ring[this.#place(this.#size++)] = item;
    return true;
  }
  /** False at the bound. */
  pushFront(item: T): boolean {
    if (!this.#makeRoom()) return false;
    this.#head = this.#head === 0 ? this.#ring.length - 1 : this.#head - 1;
    this.#ring[this.#head] = item;
    this.#size++;
    return true;
  }
  popFront(): T | undefined {
    if (this.#size === 0) return undefined;
    const item = this.#ring[this.#head];
    this.#ring[this.#head] = undefined;
    this.#head = this.#place(1);
    this.#size--;
    return item;
  }
  popBack(): T | undefined {
    if (this.#size === 0) return undefined;
    const place = this.#place(--this.#size);
    const item = this.#ring[place];
    this.#ring[place] = undefined;
    return item;
  }
  /** The item `index` places behind the front. */
  at(index: number): T | undefined {
    return index >= 0 && index < this.#size ? this.#ring[this.#place(index)] : undefined;
  }
  clear(): void {
    this.#ring.fill(undefined);
    this.#head = this.#size = 0;
  }

  #place(offset: number): number {
    const place = this.#head + offset;
    return place < this.#ring.length ? place : place - this.#ring.length;
  }
  #makeRoom(): boolean {
    if (this.#size < this.#ring.length) return true;
    if (this.#size === this.capacity) return false;
    const wider = new Array<T | undefined>(Math.min(this.capacity, 2 * this.#ring.length)).fill(undefined);
    for (let i = 0; i < this.#size; i++) wider[i] = this.#ring[this.#place(i)];
    this.#ring = wider;
    this.#head = 0;
    return true;
  }
}
