/**
 * Which models a batcher hands on so that the batchers of a cluster are evenly loaded. The processor time of a request
 * hardly depends on its model, so the load of a model is its requests a second, plus a constant for having it at all.
 * Each batcher decides on its own models alone, from its own measurements and the one number that every other batcher's
 * heartbeats carry: so the loads need not be seen alike by all, and a wrong view costs a move at worst, never a model.
 *
 *   BAL-1. A change of loads is answered by the most loaded batcher alone, with one move to the least loaded, and only
 *          if that pays: the one has more than a quarter more than the other, and after the move the greater of the two
 *          is lower by at least a twentieth (or the two are nearer and still in the same order).
 *   BAL-2. Constant loads come to rest: each move lowers the sum of the squares of loads.
 *   BAL-3. At rest the most loaded batcher has at most twice what the best assignment leaves it.
 *   BAL-4. A batcher that joins is given its part at once: each of the others hands it what it has above the average.
 *   BAL-5. A batcher that leaves hands on everything: the most loaded model first, each to whoever has the least by
 *          then.
 *
 * A batcher has no advantage from where it runs, such as in the process of the leading ranker.
 */
import type { ActorKey } from "@tutti/units";

/** What having a model costs, in requests a second: timers, heartbeats, reports. */
export const MODEL_LOAD = 10;
/** BAL-1. */
const EXCESS_SHARE = 0.25;
const GAIN_SHARE = 0.05;

export interface OwnedModel {
  readonly number: number;
  /** Requests a second and MODEL_LOAD. */
  readonly load: number;
}
export interface Loads {
  readonly self: ActorKey;
  readonly models: readonly OwnedModel[];
  /** Of the other batchers that take models. */
  readonly others: ReadonlyMap<ActorKey, number>;
}
export interface Move {
  readonly number: number;
  readonly to: ActorKey;
}

/**
 * BAL-1.
 *
 * @param mayMove - false: it moved a while ago, and stays
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
 * BAL-4.
 *
 * @param joined - who has joined since; some of `others`
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
    // It brings both nearer to the average than they were, or one and not the other.
    if (to === undefined || load >= 2 * (own - average) || to.load + load >= own) continue;
    shares.set(number, to.key);
    given.set(to.key, to.load + load);
    own -= load;
  }
  return shares;
}

/** BAL-5. */
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
