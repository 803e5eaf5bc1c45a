/**
 * A queue in which owners take turns: an owner of many items waits only for its own. Its user bounds it; when it is
 * full, the owner with most items makes room.
 */
export class FairQueue<Item> {
  /** Items by owner, in the order of their turns; no list is empty. */
  readonly #byOwner = new Map<string, Item[]>();
  #size = 0;

  get size(): number {
    return this.#size;
  }

  push(owner: string, item: Item): void {
    const items = this.#byOwner.get(owner);
    if (items === undefined) this.#byOwner.set(owner, [item]);
    else items.push(item);
    this.#size++;
  }

  /** Removes and returns the oldest item of the owner whose turn it is. */
  shift(): Item | undefined {
    const [first] = this.#byOwner;
    if (first === undefined) return undefined;
    const [owner, items] = first;
    this.#byOwner.delete(owner);
    const item = items.shift();
    if (items.length > 0) this.#byOwner.set(owner, items);
    this.#size--;
    return item;
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
