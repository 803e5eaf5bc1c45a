/**
 * Which batcher takes a model that has no living holder. Every batcher works it out for itself from what all of them
 * are shown, the leases in the store and the heartbeats of who lives, and takes its own part: so nobody decides, and
 * two that see the same never want different things. Measured loads would not do: they differ from one view to the
 * next, and a model waits while two batchers each wait for the other. Loads are evened out afterwards (balance.ts).
 *
 *   S1. Models without a holder go one by one to whoever holds the fewest.
 *   S2. A model with a living holder stays there.
 */
import type { ActorKey } from "@tutti/units";

export interface Holding {
  readonly number: number;
  /** Undefined: nobody that lives. */
  readonly holder: ActorKey | undefined;
}

/**
 * @param takers - who takes models
 * @returns who takes each model that has no holder
 */
export function heirsOf(holdings: readonly Holding[], takers: readonly ActorKey[]): ReadonlyMap<number, ActorKey> {
  const heirs = new Map<number, ActorKey>();
  if (takers.length === 0) return heirs;
  const held = new Map<ActorKey, number>();
  for (const key of [...takers].sort((a, b) => a - b)) held.set(key, 0);
  const homeless: number[] = [];
  for (const { number, holder } of holdings) {
    const count = holder === undefined ? undefined : held.get(holder);
    if (holder === undefined) homeless.push(number);
    else if (count !== undefined) held.set(holder, count + 1);
  }
  // In an order that has nothing to do with that in which models were made: those made together are often busy
  // together.
  for (const number of homeless.sort((a, b) => scrambled(a) - scrambled(b))) {
    const heir = fewest(held, number);
    held.set(heir, held.get(heir)! + 1);
    heirs.set(number, heir);
  }
  return heirs;
}

/** Ties by rendezvous weight: when many models have no holder, each batcher's are some of all. */
function fewest(held: ReadonlyMap<ActorKey, number>, modelNumber: number): ActorKey {
  let best: ActorKey | undefined;
  let bestCount = Infinity;
  let bestWeight = -1;
  for (const [key, count] of held) {
    if (count > bestCount) continue;
    const weight = scrambled(key ^ scrambled(modelNumber));
    if (count === bestCount && weight <= bestWeight) continue;
    best = key;
    bestCount = count;
    bestWeight = weight;
  }
  return best!;
}

/** Every bit depends on every other (murmur3's last step). */
function scrambled(value: number): number {
  let bits = Math.imul(value ^ (value >>> 16), 0x85ebca6b);
  bits = Math.imul(bits ^ (bits >>> 13), 0xc2b2ae35);
  return (bits ^ (bits >>> 16)) >>> 0;
}
