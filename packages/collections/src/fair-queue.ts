/**
 * A queue in which owners take turns: who brings much waits for what it brought, and nobody else does. Its user bounds
 * it, and where it is full, the owner of most makes room.
 */
export class FairQueue<Item> {
  /** In the order of their turns; none is empty. */
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

  /** The oldest of the owner whose turn it is. */
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
   * Makes room for one of `owner`. @returns the newest of the owner that has most; undefined: nobody would have more
   * than `owner` then
   */
  makeRoom(owner: string): Item | undefined {
    let most = this.#byOwner.get(owner) ?? [];
    const fair = most.length + 1;
    for (const items of this.#byOwner.values()) if (items.length > most.length) most = items;
    if (most.length <= fair) return undefined;
    this.#size--;
    return most.pop();
  }

  /** @returns whether it was there */
  remove(owner: string, item: Item): boolean {
    const items = this.#byOwner.get(owner);
    const at = items?.indexOf(item) ?? -1;
    if (items === undefined || at < 0) return false;
    items.splice(at, 1);
    if (items.length === 0) this.#byOwner.delete(owner);
    this.#size--;
    return true;
  }

  /** All that waits, in any order; none afterwards. */
  clear(): Item[] {
    const items = [...this.#byOwner.values()].flat();
    this.#byOwner.clear();
    this.#size = 0;
    return items;
  }
}
