/**
 * Sub-clusters: each has a scheduler, models and accelerators of its own, and no knowledge of the others (Symphony v2,
 * §4.4; docs/algorithms.md, E).
 *
 *   SC1. Models are placed by packages/planning, so that sub-clusters have the same work; accelerators go with the
 *        work, at least one each.
 */
import { dealtInProportion, placeModels } from "@tutti/planning";
import { assert } from "@tutti/units";
import { modelWork } from "./model-work.ts";
import type { Scenario } from "./scenario.ts";
import { type SimClusterFactory, isElastic } from "./simulated-cluster.ts";
import { SteppedClusters, renumbered } from "./stepped-clusters.ts";

const PROPOSALS = 100_000;

export interface SubClusterSplit {
  /** Sub-cluster by model. */
  readonly clusterOf: ArrayLike<number>;
  /** Number of accelerators by sub-cluster. */
  readonly gpus: readonly number[];
}

/** @throws AssertionError for more sub-clusters than models or accelerators */
export function splitOf(scenario: Scenario, count: number): SubClusterSplit {
  const { models, gpus, seed } = scenario;
  assert(count >= 1 && count <= models.length && count <= gpus, `${count} sub-clusters`);
  const shares = meanShares(scenario);
  // A model without requests needs a place too.
  const work = models.map((model, i) => Math.max(shares[i]! * modelWork(model), 1e-12));
  const rated = work.map((rate) => ({ rate, staticMemory: 0, dynamicMemory: 0 }));
  const problem = { models: rated, clusters: count, rateMax: Infinity, memoryMax: Infinity };
  const { clusters } = placeModels(problem, { seed, proposals: PROPOSALS });
  const works = new Float64Array(count);
  for (const [i, rate] of work.entries()) works[clusters[i]!]! += rate;
  return { clusterOf: clusters, gpus: dealtInProportion(gpus, works) };
}

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

/** @throws Error for a policy that plans for the whole cluster */
export function inSubClusters({ clusterOf, gpus }: SubClusterSplit, create: SimClusterFactory): SimClusterFactory {
  return (options) => {
    const count = { batches: 0 };
    let firstGpu = 0;
    const clusters = gpus.map((ownGpus, own) => {
      const listener = renumbered(options.listener, firstGpu, count);
      firstGpu += ownGpus;
      // Each sub-cluster has a place for every model, so that models keep their numbers; only its own models get
      // requests.
      const shares = options.shares?.map((share, i) => (clusterOf[i] === own ? share : 0));
      const cluster = create({ ...options, ...(shares !== undefined && { shares }), gpus: ownGpus, listener });
      if (!isElastic(cluster)) throw new Error("sub-clusters are for Tutti's own policies");
      return cluster;
    });
    return new SteppedClusters(clusters, ({ model }) => clusterOf[model]!);
  };
}
