/** Divisions of models and accelerators into sub-clusters where an accelerator holds a part of the models only. */
import { Divisions, type SubClusterProblem, dealtInProportion, placeModels } from "@tutti/planning";
import { type Scenario, type SubClusterSplit, expectedOfPool, modelWork } from "@tutti/simulator";

export interface Memory {
  /** Models that one accelerator holds; all take as much memory. */
  readonly held: number;
  readonly subClusters: number;
}

/** @param parts - 2: an accelerator holds a half of the models */
export function memoryFor(models: number, parts: number): Memory {
  const held = Math.ceil(models / parts);
  return { held, subClusters: Math.ceil(models / held) };
}

const worksOf = ({ models }: Scenario): readonly number[] => models.map((model) => model.share * modelWork(model));

function gpusFor(scenario: Scenario, clusterOf: ArrayLike<number>, count: number): number[] {
  const works = new Float64Array(count);
  for (const [i, work] of worksOf(scenario).entries()) works[clusterOf[i]!]! += work;
  return dealtInProportion(scenario.gpus, works);
}

/** Even rates and memory (docs/algorithms.md, E4), and accelerators in proportion to the work. */
export const byRate = (scenario: Scenario, memory: Memory): SubClusterSplit =>
  evenly(
    scenario,
    memory,
    scenario.models.map(({ share }) => share),
  );

/** Even work and memory, and accelerators in proportion to the work. */
export const byWork = (scenario: Scenario, memory: Memory): SubClusterSplit =>
  evenly(scenario, memory, worksOf(scenario));

function evenly(scenario: Scenario, { held, subClusters }: Memory, rates: readonly number[]): SubClusterSplit {
  const { clusters } = placeModels(problemOf(rates, { held, subClusters }), {
    seed: scenario.seed,
    proposals: PROPOSALS,
  });
  return { clusterOf: clusters, gpus: gpusFor(scenario, clusters, subClusters) };
}
const PROPOSALS = 100_000;

function problemOf(rates: readonly number[], { held, subClusters }: Memory): SubClusterProblem {
  const models = rates.map((rate) => ({ rate, staticMemory: 1, dynamicMemory: 0 }));
  return { models, clusters: subClusters, rateMax: Infinity, memoryMax: held };
}

/** As the planner divides, at the rates that all accelerators are expected to carry (docs/algorithms.md, E8). */
export function asPlanned(scenario: Scenario, memory: Memory): SubClusterSplit {
  const shares = scenario.models.map(({ share }) => share);
  const carriedOf = (gpus: number, own: readonly number[]): number =>
    (expectedOfPool(scenario, gpus, own) ?? 0) / own.reduce((sum, share) => sum + share, 0);
  const all = carriedOf(scenario.gpus, shares);
  const divisions = new Divisions(problemOf(worksOf(scenario), memory), scenario.gpus, (models, gpus) => {
    const own = new Set(models);
    return (
      carriedOf(
        gpus,
        shares.map((share, i) => (own.has(i) ? share : 0)),
      ) / all
    );
  });
  const { clusters, gpus } = divisions.best(byWork(scenario, memory).clusterOf, scenario.seed);
  return { clusterOf: clusters, gpus };
}

/** Divisions that are improved by moving accelerators one by one. */
const IMPROVED = 20;

/** The division that is expected to carry most (D9), of all that fit. */
export function byEstimate(scenario: Scenario, { held, subClusters }: Memory): SubClusterSplit {
  const found: { clusterOf: readonly number[]; gpus: number[]; carried: number }[] = [];
  for (const clusterOf of assignments(scenario.models.length, held, subClusters)) {
    const gpus = gpusFor(scenario, clusterOf, subClusters);
    found.push({ clusterOf, gpus, carried: carriedBy(scenario, clusterOf, gpus) });
  }
  const best = found.sort((a, b) => b.carried - a.carried).slice(0, IMPROVED);
  for (const one of best) {
    for (let gpus = next(one); gpus !== undefined; gpus = next(one)) {
      one.gpus = gpus;
      one.carried = carriedBy(scenario, one.clusterOf, gpus);
    }
  }
  return best.sort((a, b) => b.carried - a.carried)[0]!;

  function next({ clusterOf, gpus, carried }: (typeof found)[number]): number[] | undefined {
    const moves = gpus.flatMap((own, from) => (own > 1 ? gpus.map((_, to) => moved(gpus, from, to)) : []));
    return moves.find((one) => carriedBy(scenario, clusterOf, one) > carried);
  }
}

const moved = (gpus: readonly number[], from: number, to: number): number[] =>
  gpus.map((own, i) => own + (i === to ? 1 : 0) - (i === from ? 1 : 0));

/** The sub-cluster that is fullest limits the others. */
function carriedBy(scenario: Scenario, clusterOf: readonly number[], gpus: readonly number[]): number {
  const carried = gpus.map((own, cluster) => {
    const shares = scenario.models.map(({ share }, i) => (clusterOf[i] === cluster ? share : 0));
    return (expectedOfPool(scenario, own, shares) ?? 0) / shares.reduce((sum, share) => sum + share, 0);
  });
  return Math.min(...carried);
}

/** Every way to put models into sub-clusters that hold at most so many each and are all used, but for their order. */
function* assignments(models: number, held: number, count: number, before: number[] = []): Generator<number[]> {
  const used = Math.max(-1, ...before) + 1;
  if (before.length === models) {
    if (used === count) yield before;
    return;
  }
  for (let cluster = 0; cluster < Math.min(used + 1, count); cluster++) {
    const own = before.filter((one) => one === cluster).length;
    if (own < held) yield* assignments(models, held, count, [...before, cluster]);
  }
}
