/**
 * The next placement of a cluster, from what is measured and what stands; docs/algorithms.md, E, and PL1 to PL4 of the
 * protocol's placement.
 */
import { PlacementDraft } from "./placement-draft.ts";
import { placeExecutorsOf } from "./executor-places.ts";
import { placeModelsOf } from "./model-places.ts";
import type { PlacementPlan, PlacementProblem } from "./placement-problem.ts";

/** Deterministic: equal problems, equal plans. */
export function planPlacement(problem: PlacementProblem): PlacementPlan {
  const draft = new PlacementDraft(problem);
  const models = placeModelsOf(draft);
  const executors = placeExecutorsOf(draft);
  const living = new Set(problem.executors.flatMap(({ gpus }) => gpus));
  const owned = problem.executors.flatMap(({ key, gpus }) => {
    const subCluster = draft.places.get(key);
    return subCluster === undefined ? [] : gpus.map((gpu) => ({ gpu, subCluster }));
  });
  const awaited = (problem.before?.gpus ?? []).filter(({ gpu }) => problem.awaited.has(gpu) && !living.has(gpu));
  return {
    models: draft.models.flatMap(({ model: { number }, home, next }) =>
      home === undefined ? [] : [{ number, subCluster: home, ...(next !== undefined && { next }) }],
    ),
    gpus: [...owned, ...awaited].sort((a, b) => a.gpu - b.gpu),
    modelMoves: models.moves,
    executorMoves: executors.moves,
    arrived: models.arrived,
    waiting: models.waiting,
    leftOut: models.leftOut,
    unused: executors.unused.flatMap(({ gpus }) => gpus),
    loads: executors.loads,
    reasons: draft.reasons,
  };
}

/** Whether both say the same, in whatever order. */
export function isSamePlace(
  a: Pick<PlacementPlan, "models" | "gpus"> | undefined,
  b: Pick<PlacementPlan, "models" | "gpus">,
): boolean {
  if (a === undefined || a.models.length !== b.models.length || a.gpus.length !== b.gpus.length) return false;
  const models = new Map(a.models.map(({ number, subCluster, next }) => [number, `${subCluster}>${next ?? ""}`]));
  const gpus = new Map<number, string>(a.gpus.map(({ gpu, subCluster }) => [gpu, subCluster]));
  return (
    b.models.every(({ number, subCluster, next }) => models.get(number) === `${subCluster}>${next ?? ""}`) &&
    b.gpus.every(({ gpu, subCluster }) => gpus.get(gpu) === subCluster)
  );
}
