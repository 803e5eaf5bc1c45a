/**
 * Who should hold which model. Every batcher works it out for itself from what all of them are shown, the leases in the store and the heartbeats of who lives,
 * and does its own part: so nobody decides, and two that see the same never want different things.
 *
 *   S1. Even: when all is done, two batchers that take models differ by one model at most.
 *   S2. Few moves: a model stays with its holder unless that one is dead, leaves, or has two more than another.
 */
import type { ActorKey } from "@tutti/units";

export interface Holding {
  readonly number: number;
  /** Undefined: nobody that lives. */
  readonly holder: ActorKey | undefined;
}
export interface Spread {
  /** Models without a living holder: who should take each. */
  readonly heirs: ReadonlyMap<number, ActorKey>;
  /** Models that their holders should hand on, and to whom. */
  readonly moves: ReadonlyMap<number, ActorKey>;
}

/** @param takers - who takes models; a holder that is not among them keeps none */
export function spreadOf(holdings: readonly Holding[], takers: readonly ActorKey[]): Spread {
  const heirs = new Map<number, ActorKey>();
  const moves = new Map<number, ActorKey>();
  if (takers.length === 0) return { heirs, moves };
  const held = new Map<ActorKey, Holding[]>();
  for (const key of [...takers].sort((a, b) => a - b)) held.set(key, []);
  const homeless: Holding[] = [];
  // In an order that has nothing to do with that in which models were made: those made together are often busy together.
  for (const holding of [...holdings].sort((a, b) => scrambled(a.number) - scrambled(b.number))) {
    const models = holding.holder === undefined ? undefined : held.get(holding.holder);
    (models ?? homeless).push(holding);
  }
  const give = (holding: Holding, to: ActorKey): void => {
    held.get(to)!.push(holding);
    if (holding.holder === undefined) heirs.set(holding.number, to);
    else if (holding.holder === to) moves.delete(holding.number);
    else moves.set(holding.number, to);
  };
  for (const holding of homeless) give(holding, fewest(held, holding.number));
  for (;;) {
    const from = held.get(most(held))!;
    const to = fewest(held, 0);
    if (from.length - held.get(to)!.length < 2) return { heirs, moves };
    give(from.pop()!, to);
  }
}

/** Ties by rendezvous weight: when many models have no holder, each batcher's are some of all. */
function fewest(held: ReadonlyMap<ActorKey, readonly Holding[]>, modelNumber: number): ActorKey {
  let best: ActorKey | undefined;
  let bestCount = Infinity;
  let bestWeight = -1;
  for (const [key, { length }] of held) {
    if (length > bestCount) continue;
    const weight = scrambled(key ^ scrambled(modelNumber));
    if (length === bestCount && weight <= bestWeight) continue;
    best = key;
    bestCount = length;
    bestWeight = weight;
  }
  return best!;
}

function most(held: ReadonlyMap<ActorKey, readonly Holding[]>): ActorKey {
  let best: ActorKey | undefined;
  let bestCount = -1;
  for (const [key, { length }] of held) {
    if (length <= bestCount) continue;
    best = key;
    bestCount = length;
  }
  return best!;
}

/** Every bit depends on every other (murmur3's last step). */
function scrambled(value: number): number {
  let bits = Math.imul(value ^ (value >>> 16), 0x85ebca6b);
  bits = Math.imul(bits ^ (bits >>> 13), 0xc2b2ae35);
  return (bits ^ (bits >>> 16)) >>> 0;
}
