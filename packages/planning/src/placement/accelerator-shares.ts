/** The accelerators that each sub-cluster should have (docs/algorithms.md, E8). */
import { dealtInProportion } from "../sub-clusters/dealing.ts";
import { EVEN_SHARE, dealtByFullness, fullnessBy } from "../sub-clusters/fullness.ts";
import { type PlacementDraft, destinationOf } from "./placement-draft.ts";

/** The present numbers stay unless others make the fullest sub-cluster less full by this factor. */
const BETTER = 0.9;

/**
 * Numbers of accelerators by sub-cluster: those with which the fullest is least full; in proportion to the work where
 * nobody knows what they carry.
 *
 * @param count - of all accelerators
 * @param present - numbers of accelerators that sub-clusters have now
 */
export function acceleratorShares(
  draft: PlacementDraft,
  count: number,
  present: (subCluster: string) => number,
): ReadonlyMap<string, number> {
  const used = draft.problem.subClusters.filter((subCluster) => draft.hasModels(subCluster));
  const gpus = byFullness(draft, used, count, used.map(present)) ?? byWork(draft, used, count);
  return new Map(used.map((subCluster, i) => [subCluster, gpus[i]!]));
}

function byWork(draft: PlacementDraft, used: readonly string[], count: number): readonly number[] {
  const even = (EVEN_SHARE * count) / Math.max(1, used.length);
  const works = used.map((subCluster) => draft.of(subCluster).workThen + even);
  const total = works.reduce((sum, work) => sum + work, 0);
  return works.map((work) => (total > 0 ? (count * work) / total : count / used.length));
}

/** undefined: unknown of a sub-cluster whose models are asked for. */
function byFullness(
  draft: PlacementDraft,
  used: readonly string[],
  count: number,
  present: readonly number[],
): readonly number[] | undefined {
  const { carries } = draft.problem;
  if (carries === undefined || used.length < 2 || used.length > count) return undefined;
  const known = new Map<string, number | undefined>();
  const models = used.map((subCluster) =>
    draft.models.filter((entry) => destinationOf(entry) === subCluster).map(({ model }) => model.number),
  );
  const times = (part: number, gpus: number): number | undefined => {
    const key = `${part}:${gpus}`;
    if (!known.has(key)) known.set(key, carries(models[part]!, gpus));
    return known.get(key);
  };
  if (used.some((subCluster, part) => draft.of(subCluster).rateThen > 0 && times(part, 1) === undefined))
    return undefined;
  const fullnessOf = fullnessBy(count, used.length, times);
  const works = Float64Array.from(used, (subCluster) => draft.of(subCluster).workThen);
  const best = dealtByFullness(dealtInProportion(count, works), fullnessOf);
  const isDealt = present.every((own) => own > 0) && present.reduce((sum, own) => sum + own, 0) === count;
  const now = Math.max(...present.map((own, part) => fullnessOf(part, own)));
  return isDealt && best.fullness > BETTER * now ? present : best.gpus;
}
