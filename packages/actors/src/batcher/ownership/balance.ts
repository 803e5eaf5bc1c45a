/**
 * Decides which models a batcher hands on so that the batchers of a cluster are evenly loaded. The processor time of a
 * request hardly depends on its model, so the load of a model is its requests a second plus a constant per model. Each
 * batcher decides on its own models alone, from its own measurements and the load in the heartbeats of every other
 * batcher. Views of the loads may differ: a wrong view costs a move at worst, never a model.
 *
 *   BAL-1. Only the most loaded batcher answers a change of loads, with one move to the least loaded. It moves a model
 *          only if its load exceeds the other's by more than a quarter, and if the move lowers the greater of the two
 *          loads by at least a twentieth (or brings the two nearer and keeps their order).
 *   BAL-2. Constant loads come to rest: each move lowers the sum of the squares of loads.
 *   BAL-3. At rest the most loaded batcher has at most twice its load under the best assignment.
 *   BAL-4. A batcher that joins gets its part at once: each of the others hands it the load that it has above the
 *          average.
 *   BAL-5. A batcher that leaves hands on everything: the most loaded model first, each to the batcher that has the
 *          least load by then.
 *
 * The place where a batcher runs, such as the process of the leading ranker, gives it no advantage.
 */
import type { ActorKey } from "@tutti/units";

/** Fixed load of one model, in requests a second: timers, heartbeats, reports. */
export const MODEL_LOAD = 10;
/** BAL-1. */
const EXCESS_SHARE = 0.25;
const GAIN_SHARE = 0.05;

export interface OwnedModel {
  readonly number: number;
  /** Requests a second plus MODEL_LOAD. */
  readonly load: number;
}
export interface Loads {
  readonly self: ActorKey;
  readonly models: readonly OwnedModel[];
  /** Loads of the other batchers that take models. */
  readonly others: ReadonlyMap<ActorKey, number>;
}
export interface Move {
  readonly number: number;
  readonly to: ActorKey;
}

/**
 * Returns the one move of BAL-1, if any pays.
 *
 * @param mayMove - false for a model that moved a while ago, and stays
 */
export function moveThatPays(
  { self, models, others }: Loads,
  mayMove: (modelNumber: number) => boolean,
): Move | undefined {
  const own = sumOf(models);
  for (const [key, load] of others) if (load > own || (load === own && key < self)) return undefined;
  const to = lightest(others);
  if (to === undefined || own <= (1 + EXCESS_SHARE) * to.load) return undefined;
  const excess = own - to.load;
  let best: OwnedModel | undefined;
  let bestDistance = Infinity;
  for (const model of models) {
    const pays = model.load <= excess / 2 || excess - model.load >= GAIN_SHARE * own;
    const distance = Math.abs(excess / 2 - model.load);
    if (!pays || distance >= bestDistance || !mayMove(model.number)) continue;
    best = model;
    bestDistance = distance;
  }
  return best && { number: best.number, to: to.key };
}

/**
 * Returns the models for batchers that have joined, per BAL-4.
 *
 * @param joined - batchers that have joined since, a subset of `others`
 */
export function sharesOf({ models, others }: Loads, joined: ReadonlySet<ActorKey>): ReadonlyMap<number, ActorKey> {
  const shares = new Map<number, ActorKey>();
  let own = sumOf(models);
  let all = own;
  const given = new Map<ActorKey, number>();
  for (const [key, load] of others) {
    all += load;
    if (joined.has(key)) given.set(key, load);
  }
  const average = all / (1 + others.size);
  for (const { number, load } of byLoad(models)) {
    const to = lightest(given);
    // The move brings both batchers nearer to the average, or at least one of them.
    if (to === undefined || load >= 2 * (own - average) || to.load + load >= own) continue;
    shares.set(number, to.key);
    given.set(to.key, to.load + load);
    own -= load;
  }
  return shares;
}

/** Returns a new owner for every model of a batcher that leaves, per BAL-5. */
export function legaciesOf({ models, others }: Omit<Loads, "self">): ReadonlyMap<number, ActorKey> {
  const legacies = new Map<number, ActorKey>();
  const given = new Map(others);
  for (const { number, load } of byLoad(models)) {
    const to = lightest(given);
    if (to === undefined) break;
    legacies.set(number, to.key);
    given.set(to.key, to.load + load);
  }
  return legacies;
}

const sumOf = (models: readonly OwnedModel[]): number => models.reduce((sum, { load }) => sum + load, 0);
const byLoad = (models: readonly OwnedModel[]): OwnedModel[] =>
  [...models].sort((a, b) => b.load - a.load || a.number - b.number);

function lightest(loads: ReadonlyMap<ActorKey, number>): { readonly key: ActorKey; readonly load: number } | undefined {
  let best: { readonly key: ActorKey; readonly load: number } | undefined;
  for (const [key, load] of loads)
    if (best === undefined || load < best.load || (load === best.load && key < best.key)) best = { key, load };
  return best;
}
