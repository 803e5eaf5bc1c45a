import { type PooledModel, type TypedPoolModel, poolCapacity } from "@tutti/planning";

/** Each halves the difference of rates on a logarithmic scale. */
const STEPS = 12;

/**
 * The shares of each model's requests that pools of one type each get, so that all are expected to be full at the same
 * rate (docs/algorithms.md, D9).
 *
 * @param counts - of accelerators, by type
 */
export function splitOverPools(
  models: readonly TypedPoolModel[],
  counts: readonly number[],
): readonly (readonly number[])[] {
  const split = models.map(({ slo, profiles }) =>
    normalised(counts.map((count, type) => Number(count > 0 && (profiles[type]?.byBatchSize[1] ?? Infinity) <= slo))),
  );
  for (let step = 0; step < STEPS; step++) {
    const factors = counts.map((count, type) => Math.sqrt(fullAt(models, split, type, count)));
    for (const [i, own] of split.entries())
      if (models[i]!.share > 0) split[i] = normalised(own.map((part, type) => (part > 0 ? part * factors[type]! : 0)));
  }
  return split;
}

/** The rate of all models together at which this type is full. */
function fullAt(
  models: readonly TypedPoolModel[],
  split: readonly (readonly number[])[],
  type: number,
  count: number,
): number {
  const pool = models.flatMap(({ share, slo, dispersion, profiles }, i): PooledModel[] => {
    const part = share * split[i]![type]!;
    return part > 0 ? [{ share: part, slo, dispersion, profile: profiles[type]! }] : [];
  });
  const sumOf = (some: readonly { readonly share: number }[]): number => some.reduce((sum, one) => sum + one.share, 0);
  return pool.length === 0 ? 0 : (poolCapacity(pool, count).carried * sumOf(models)) / sumOf(pool);
}

function normalised(weights: readonly number[]): number[] {
  const sum = weights.reduce((total, weight) => total + weight, 0);
  return weights.map((weight) => (sum > 0 ? weight / sum : 0));
}
