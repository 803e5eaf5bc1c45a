/**
 * Sub-clusters: each has a scheduler, models and accelerators of its own, and no knowledge of the others (Symphony v2,
 * §4.4; docs/algorithms.md, E).
 *
 *   SC1. Models are placed by packages/planning, so that sub-clusters have the same work; accelerators so that the
 *        fullest is least full, at least one each (E8).
 */
import { type Carries, Divisions, placeModels } from "@tutti/planning";
import { assert } from "@tutti/units";
import { meanShares } from "../results/mean-shares.ts";
import { modelWork } from "../scenario/model-work.ts";
import { expectedOfPool } from "../parts/halves.ts";
import type { Scenario } from "../scenario/scenario.ts";
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
  const divisions = new Divisions(problem, gpus, carriesOf(scenario, shares));
  return { clusterOf: clusters, gpus: divisions.dealt(clusters).gpus };
}

/** How many times the rates that all accelerators would carry together some of them carry of some models. */
function carriesOf(scenario: Scenario, shares: readonly number[]): Carries {
  const perShare = (gpus: number, own: readonly number[]): number | undefined => {
    const carried = expectedOfPool(scenario, gpus, own);
    return carried === undefined ? undefined : carried / own.reduce((sum, share) => sum + share, 0);
  };
  const undivided = perShare(scenario.gpus, shares);
  return (models, gpus) => {
    const asked = new Set(models);
    const own = shares.map((share, i) => (asked.has(i) ? share : 0));
    const carried = own.every((share) => share === 0) ? undefined : perShare(gpus, own);
    return carried === undefined || undivided === undefined ? undefined : carried / undivided;
  };
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
