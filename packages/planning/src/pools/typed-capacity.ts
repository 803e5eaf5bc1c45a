/**
 * The largest rate of a mix that a pool of unlike accelerators carries (docs/algorithms.md, D9): each type by itself,
 * with requests dealt to the types so that all are full at the same rate. A pool that shares requests does as well
 * within some percent, and needs no plan for it.
 */
import { type PoolCapacity, type PooledModel, poolCapacity, slackOf } from "./pool-capacity.ts";

export interface TypedPoolModel extends Omit<PooledModel, "profile"> {
  /** By type; undefined: this type doesn't serve it. */
  readonly profiles: readonly (PooledModel["profile"] | undefined)[];
}

export interface TypedCapacity extends PoolCapacity {
  /** By model: the shares of its requests that each type gets. */
  readonly split: readonly (readonly number[])[];
}

/** Each halves the difference of rates on a logarithmic scale. */
const STEPS = 12;

/** Capacities of pools of one type that `typedCapacity` takes for each of so many types. */
export const capacitiesFor = (types: number): number => (types > 1 ? STEPS + 1 : 1);

/** @param counts - of accelerators, by type */
export function typedCapacity(models: readonly TypedPoolModel[], counts: readonly number[]): TypedCapacity {
  const split = models.map(({ slo, dispersion, profiles }) =>
    counts.map((count, type): number => {
      const profile = profiles[type];
      return count > 0 && profile !== undefined && slackOf({ slo, dispersion, profile }) >= 0 ? 1 : 0;
    }),
  );
  let least: PoolCapacity = { carried: 0, waits: undefined };
  // Accelerators of one type have all requests from the first step on.
  const steps = capacitiesFor(counts.length);
  for (let step = 1; step <= steps; step++) {
    for (const own of split) normalise(own);
    least = { carried: Infinity, waits: undefined };
    const factors = counts.map((count, type) => {
      const full = fullAt(models, split, type, count);
      if (full.carried < least.carried) least = full;
      return Math.sqrt(full.carried);
    });
    if (step < steps)
      for (const [i, own] of split.entries())
        if (models[i]!.share > 0)
          for (const [type, factor] of factors.entries()) if (own[type]! > 0) own[type]! *= factor;
  }
  const isServed = models.every(({ share }, i) => share === 0 || split[i]!.some((part) => part > 0));
  return isServed && least.carried < Infinity ? { ...least, split } : { carried: 0, waits: undefined, split };
}

/** The rate of all models together at which this type is full; Infinity: it gets none of them. */
function fullAt(
  models: readonly TypedPoolModel[],
  split: readonly (readonly number[])[],
  type: number,
  count: number,
): PoolCapacity {
  const places: number[] = [];
  const pool = models.flatMap(({ share, slo, dispersion, profiles }, i): PooledModel[] => {
    const part = share * split[i]![type]!;
    if (part === 0) return [];
    places.push(i);
    return [{ share: part, slo, dispersion, profile: profiles[type]! }];
  });
  if (pool.length === 0) return { carried: Infinity, waits: undefined };
  const { carried, waits } = poolCapacity(pool, count);
  const all = models.reduce((sum, { share }) => sum + share, 0);
  const own = pool.reduce((sum, { share }) => sum + share, 0);
  return { carried: (carried * all) / own, waits: waits === undefined ? undefined : places[waits]! };
}

function normalise(weights: number[]): void {
  const sum = weights.reduce((total, weight) => total + weight, 0);
  if (sum > 0) for (let i = 0; i < weights.length; i++) weights[i]! /= sum;
}
