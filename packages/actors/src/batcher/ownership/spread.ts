/**
 * Assigns models that have no living holder to batchers. Every batcher computes the assignment by itself from state
 * that all of them see, the leases in the store and the heartbeats of living batchers, and takes its own part. So no
 * batcher decides for others, and two with the same view never want different things. Measured loads would not do: they
 * differ between views, and a model waits while two batchers each wait for the other. Loads are balanced afterwards
 * (balance.ts).
 *
 *   OWN-1. Models without a holder go one by one to the batcher that holds the fewest.
 *   OWN-2. A model with a living holder stays there.
 */
import type { ActorKey } from "@tutti/units";

export interface Holding {
  readonly number: number;
  /** Undefined: no living batcher. */
  readonly holder: ActorKey | undefined;
}

/**
 * Assigns a batcher to each model that has no holder.
 *
 * @param takers - batchers that take models
 * @returns the new holder of each model that has none
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
  // The order is unrelated to that in which models were created: models created together are often busy together.
  for (const number of homeless.sort((a, b) => scrambled(a) - scrambled(b))) {
    const heir = fewest(held, number);
    held.set(heir, held.get(heir)! + 1);
    heirs.set(number, heir);
  }
  return heirs;
}

/** Breaks ties by rendezvous weight. When many models have no holder, each batcher gets a mix of all of them. */
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

/** Mixes bits so that every bit depends on every other (murmur3's last step). */
function scrambled(value: number): number {
  let bits = Math.imul(value ^ (value >>> 16), 0x85ebca6b);
  bits = Math.imul(bits ^ (bits >>> 13), 0xc2b2ae35);
  return (bits ^ (bits >>> 16)) >>> 0;
}
