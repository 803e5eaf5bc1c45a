import { type DivisionEstimate, countOfSubClusters } from "@tutti/planning";
import { meanShares } from "../results/mean-shares.ts";
import { expectedOfPool } from "../parts/halves.ts";
import type { SubClusterResult } from "../results/result.ts";
import type { Scenario } from "../scenario/scenario.ts";
import { type SubClusterSplit, splitOf } from "./sub-clusters.ts";

/**
 * The number of sub-clusters that a scenario runs in, of those that it asks for, by the rule of a running cluster's
 * planner (docs/algorithms.md, E7). Decisions take no time here, so rankers never need a division.
 */
export function subClusterChoice(scenario: Scenario): SubClusterResult | undefined {
  const { subClusters: asked = 1, subClustersMin = 1 } = scenario;
  if (asked === 1) return undefined;
  const estimate = estimateOf(scenario, asked);
  if (estimate === undefined) return { asked, used: asked };
  const seen = { asked, busy: undefined, byMemory: 1, estimate };
  return { asked, used: countOfSubClusters(seen, 1, subClustersMin).count, ...estimate };
}

/** The mix that a division suits least, of those that come one after the other: models and accelerators stay. */
function estimateOf(scenario: Scenario, asked: number): DivisionEstimate | undefined {
  const split = splitOf(scenario, asked);
  let least: DivisionEstimate | undefined;
  for (const shares of mixesOf(scenario)) {
    const estimate = estimateOfMix(scenario, split, shares);
    if (estimate === undefined) return undefined;
    if (least === undefined || kept(estimate) < kept(least)) least = estimate;
  }
  return least;
}

const kept = ({ dividedRps, undividedRps }: DivisionEstimate): number => dividedRps / undividedRps;

function mixesOf(scenario: Scenario): readonly (readonly number[])[] {
  const mixes = scenario.phases.flatMap(({ shares }) => (shares === undefined ? [] : [shares]));
  return mixes.length === 0 ? [meanShares(scenario)] : mixes;
}

/** The sub-cluster that is fullest limits the others. */
function estimateOfMix(
  scenario: Scenario,
  { clusterOf, gpus }: SubClusterSplit,
  shares: readonly number[],
): DivisionEstimate | undefined {
  const total = shares.reduce((sum, share) => sum + share, 0);
  const undivided = expectedOfPool(scenario, scenario.gpus, shares);
  if (undivided === undefined || total === 0) return undefined;
  const carried = gpus.map((own, cluster) => {
    const ownShares = shares.map((share, i) => (clusterOf[i] === cluster ? share : 0));
    const share = ownShares.reduce((sum, one) => sum + one, 0) / total;
    return share === 0 ? Infinity : (expectedOfPool(scenario, own, ownShares) ?? 0) / share;
  });
  return { dividedRps: perSecond(Math.min(...carried)), undividedRps: perSecond(undivided) };
}

const perSecond = (perMicro: number): number => 1e6 * perMicro;
