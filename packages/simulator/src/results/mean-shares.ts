import type { Scenario } from "../scenario/scenario.ts";

/** Share by model, summed over the phases; not normalised. */
export function meanShares({ models, phases, duration }: Scenario): readonly number[] {
  if (phases.length === 0) return models.map(({ share }) => share);
  const means = new Float64Array(models.length);
  const all = phases[0]!.from === 0 ? phases : [{ from: 0, factor: 1 }, ...phases];
  for (const [i, phase] of all.entries()) {
    const time = Math.max(0, Math.min(all[i + 1]?.from ?? duration, duration) - phase.from);
    const shares = "shares" in phase ? phase.shares : undefined;
    for (const [m, { share }] of models.entries()) means[m]! += time * phase.factor * (shares?.[m] ?? share);
  }
  return [...means];
}
