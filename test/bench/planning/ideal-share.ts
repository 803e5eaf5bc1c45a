/** The share of gpulet's 19,682 scenarios that the planner fits, relative to an exhaustive search (its Figure 15). */
import { partition, partitionPortfolio, partitionThoroughly } from "@tutti/planning";
import { D6_INTERFERENCE, D6_PROFILES, PartitionOracle, d6Model } from "@tutti/planning/testing";
import { SCENARIOS, scenario } from "./d6.ts";

export interface IdealShare {
  readonly executors: number;
  readonly scenarios: number;
  /** Scenarios that fit, with interference: by exhaustive search, and by the planner's three searches. */
  readonly ideal: number;
  readonly elastic: number;
  readonly portfolio: number;
  readonly thorough: number;
  /**
   * Scenarios that the planner fits and the exhaustive search misses: the latter cuts models into shares of 100 r/s.
   */
  readonly beyond: number;
  readonly cpuS: number;
}

/** Requests per second of a share: rates of scenarios are multiples of it. */
const SHARE = 100;

export function idealShare({ executors, every }: { executors: number; every: number }): IdealShare {
  const start = process.cpuUsage();
  const options = { executors, interference: D6_INTERFERENCE };
  const shares = D6_PROFILES.map((_, id) => d6Model(id, SHARE));
  const oracle = new PartitionOracle(shares, { shares: 2, executorsMax: executors, interference: D6_INTERFERENCE });
  const counts = { scenarios: 0, ideal: 0, elastic: 0, portfolio: 0, thorough: 0, beyond: 0 };
  for (let number = every; number <= SCENARIOS; number += every) {
    const models = scenario(number);
    const digits = D6_PROFILES.map((_, i) => Math.floor(number / 3 ** i) % 3);
    const isIdeal = oracle.fewest(digits) <= executors;
    const isElastic = partition(models, options) !== undefined;
    const isPortfolio = isElastic || partitionPortfolio(models, options) !== undefined;
    const isThorough = isPortfolio || partitionThoroughly(models, options) !== undefined;
    counts.scenarios++;
    counts.ideal += Number(isIdeal);
    counts.elastic += Number(isElastic);
    counts.portfolio += Number(isPortfolio);
    counts.thorough += Number(isThorough);
    counts.beyond += Number(isThorough && !isIdeal);
  }
  const { user, system } = process.cpuUsage(start);
  return { executors, ...counts, cpuS: (user + system) / 1e6 };
}
