/**
 * Finds the slot of a request by its identity (ingress, seq). Open addressing in typed arrays: a JavaScript Map would
 * need a string or a nested Map per request, and costs five times as much on the path of every request.
 *
 *   INDEX-1. A lookup ends: at most half of the places are taken, so every probe run meets an empty one.
 *   INDEX-2. Deleting moves the rest of its probe run up, so no tombstones accumulate.
 */
export class IdentityIndex {
  /** Slot + 1 at each place; 0: empty. */
  #places: Int32Array;
  #mask: number;
  #ingresses: Float64Array;
  #seqs: Float64Array;

  /** @param slots - the number of slots: 0 … slots − 1 */
  constructor(slots: number) {
    this.#places = new Int32Array(4 * slots);
    this.#mask = 4 * slots - 1;
    this.#ingresses = new Float64Array(slots);
    this.#seqs = new Float64Array(slots);
  }

  get slots(): number {
    return this.#seqs.length;
  }

  /** The slot of (ingress, seq), or −1. */
  get(ingress: number, seq: number): number {
    const places = this.#places;
    const mask = this.#mask;
    for (let place = hash(ingress, seq) & mask; ; place = (place + 1) & mask) {
      const slot = places[place]! - 1;
      if (slot < 0) return -1;
      if (this.#seqs[slot] === seq && this.#ingresses[slot] === ingress) return slot;
    }
  }

  /** Adds `slot` under (ingress, seq), which must not be in the index yet. */
  put(ingress: number, seq: number, slot: number): void {
    this.#ingresses[slot] = ingress;
    this.#seqs[slot] = seq;
    this.#insert(hash(ingress, seq), slot);
  }

  /** Removes `slot`, which must be in the index. */
  delete(slot: number): void {
    const places = this.#places;
    const mask = this.#mask;
    let hole = hash(this.#ingresses[slot]!, this.#seqs[slot]!) & mask;
    while (places[hole] !== slot + 1) hole = (hole + 1) & mask;
    for (let place = (hole + 1) & mask; places[place] !== 0; place = (place + 1) & mask) {
      const other = places[place]! - 1;
      const home = hash(this.#ingresses[other]!, this.#seqs[other]!) & mask;
      // `other` may move up only if its home does not lie behind the hole (cyclically): INDEX-2.
      if (((place - home) & mask) < ((place - hole) & mask)) continue;
      places[hole] = other + 1;
      hole = place;
    }
    places[hole] = 0;
  }

  #insert(code: number, slot: number): void {
    const mask = this.#mask;
    let place = code & mask;
    while (this.#places[place] !== 0) place = (place + 1) & mask;
    this.#places[place] = slot + 1;
  }
}

/** Consecutive sequences land on distinct places; the ingress only shifts them. */
function hash(ingress: number, seq: number): number {
  const mixed = Math.imul(seq | 0, 0x9e3779b1) ^ Math.imul(ingress | 0, 0x85ebca6b);
  return mixed ^ (mixed >>> 15);
}
