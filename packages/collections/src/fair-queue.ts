/** Owners whose costs are remembered beyond their items; the one charged longest ago is forgotten. */
export const OWNERS_CHARGED_MAX = 1_024;

/**
 * A queue in which owners share what their items cost, such as time: the next item is one of the owner that was charged
 * least. Without charges they take turns. An owner that comes back after a while owes and is owed nothing. The queue's
 * user bounds it; when it is full, the owner with most items makes room.
 */
export class FairQueue<Item> {
  /** Items by owner, in the order of their turns; no list is empty. */
  readonly #byOwner = new Map<string, Item[]>();
  /** Charges by owner: of all that have items, and of others with more than `#level`. */
  readonly #charged = new Map<string, number>();
  /** Charges of the owner whose item was taken last: an owner that comes starts there. */
  #level = 0;
  #size = 0;

  get size(): number {
    return this.#size;
  }

  push(owner: string, item: Item): void {
    const items = this.#byOwner.get(owner);
    if (items === undefined) {
      this.#byOwner.set(owner, [item]);
      this.#charged.set(owner, Math.max(this.#level, this.#charged.get(owner) ?? 0));
    } else items.push(item);
    this.#size++;
  }

  /**
   * Removes and returns the oldest item of the owner whose turn it is.
   *
   * @param mayTake - owners of which it says no are passed over
   */
  shift(mayTake: (owner: string) => boolean = () => true): Item | undefined {
    let owner: string | undefined;
    let least = Infinity;
    for (const one of this.#byOwner.keys()) {
      const charged = this.#charged.get(one)!;
      if (charged < least && mayTake(one)) [owner, least] = [one, charged];
    }
    if (owner === undefined) return undefined;
    this.#level = Math.max(this.#level, least);
    const items = this.#byOwner.get(owner)!;
    this.#byOwner.delete(owner);
    const item = items.shift();
    if (items.length > 0) this.#byOwner.set(owner, items);
    this.#size--;
    return item;
  }

  /** Charges an owner for an item that it had. */
  charge(owner: string, cost: number): void {
    const charged = Math.max(this.#level, this.#charged.get(owner) ?? 0) + cost;
    this.#charged.delete(owner);
    this.#charged.set(owner, charged);
    for (const [one, already] of this.#charged) {
      const isFull = this.#charged.size > OWNERS_CHARGED_MAX;
      if (!this.#byOwner.has(one) && (isFull || already <= this.#level)) this.#charged.delete(one);
    }
  }

  /**
   * Makes room for an item of `owner`. @returns the removed item, the newest of the owner that has most; undefined: no
   * other owner would then have more than `owner`
   */
  makeRoom(owner: string): Item | undefined {
    let most = this.#byOwner.get(owner) ?? [];
    const fair = most.length + 1;
    for (const items of this.#byOwner.values()) if (items.length > most.length) most = items;
    if (most.length <= fair) return undefined;
    this.#size--;
    return most.pop();
  }

  /** @returns whether the item was queued */
  remove(owner: string, item: Item): boolean {
    const items = this.#byOwner.get(owner);
    const at = items?.indexOf(item) ?? -1;
    if (items === undefined || at < 0) return false;
    items.splice(at, 1);
    if (items.length === 0) this.#byOwner.delete(owner);
    this.#size--;
    return true;
  }

  /** Removes and returns all items, in any order. */
  clear(): Item[] {
    const items = [...this.#byOwner.values()].flat();
    this.#byOwner.clear();
    this.#size = 0;
    return items;
  }
}
