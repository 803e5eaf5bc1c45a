/**
 * The measurements of `npm run bench:planning`. Times are processor seconds of this thread, so that other load on the
 * machine doesn't count.
 */
import {
  type FractionModel,
  type Stream,
  type SubClusterPlan,
  type SubClusterProblem,
  greedyAssignment,
  greedyBestFit,
  imbalanceOf,
  judge,
  meansOf,
  nextEpoch,
  pack,
  partition,
  partitionPortfolio,
  placeModels,
  randomAssignment,
  saturated,
} from "@tutti/planning";
import { D6_INTERFERENCE, RATE_SLACK, drawnProblem } from "@tutti/planning/testing";
import { Prng } from "@tutti/units";
import { SCENARIOS, scenario, streamsOf } from "./d6.ts";

function timed<Value>(work: () => Value): { readonly value: Value; readonly cpuS: number } {
  const start = process.cpuUsage();
  const value = work();
  const { user, system } = process.cpuUsage(start);
  return { value, cpuS: (user + system) / 1e6 };
}
const forSeconds = (seconds: number): (() => boolean) => {
  const start = process.cpuUsage();
  return () => {
    const { user, system } = process.cpuUsage(start);
    return user + system >= 1e6 * seconds;
  };
};

/** The problem after a drift: rates times lognormal(0.5), and a budget for moves that follow them. */
function drifted(before: SubClusterProblem, previous: ArrayLike<number>, share: number): SubClusterProblem {
  const prng = new Prng(11);
  const models = before.models.map((model) => ({ ...model, rate: model.rate * Math.exp(0.5 * prng.nextNormal()) }));
  const rate = models.reduce((sum, model) => sum + model.rate, 0) / before.clusters;
  const moveCost = models.map(({ staticMemory }) => staticMemory);
  const costMax = share * 2 * moveCost.reduce((sum, cost) => sum + cost, 0);
  return { ...before, models, rateMax: RATE_SLACK * rate, disruption: { previous, moveCost, costMax } };
}

const SIZES = [
  [100, 4],
  [400, 4],
  [800, 20],
] as const;
const BUDGETS = [0.01, 0.05, 0.2];
const TRIES = 2_000;

export interface Placed {
  readonly models: number;
  readonly subClusters: number;
  /** Objective over mean rate; null: nothing feasible. */
  readonly random: number | null;
  readonly greedy: number | null;
  readonly search: number | null;
  readonly cpuS: number;
}
export interface Followed {
  readonly budgetShare: number;
  readonly before: number;
  readonly search: number | null;
  readonly moved: number;
  /** Share of the budget that was spent. */
  readonly spent: number;
  readonly cpuS: number;
}
/** (max − min)/mean of the sub-clusters, of every draw, ascending: a CDF. */
export interface Imbalance {
  readonly plan: "random" | "greedy" | "search";
  readonly rate: readonly number[];
  readonly memory: readonly number[];
}
export interface Placing {
  readonly first: readonly Placed[];
  readonly afterDrift: readonly Followed[];
  readonly imbalance: readonly Imbalance[];
}

export function placing({ seconds, draws }: { seconds: number; draws: number }): Placing {
  const worth = (problem: SubClusterProblem, plan: SubClusterPlan | undefined): number | null =>
    plan?.feasible === true ? plan.objective / meansOf(problem).rate : null;
  const search = (problem: SubClusterProblem) =>
    timed(() => placeModels(problem, { seed: 3, proposals: Number.MAX_SAFE_INTEGER, isOver: forSeconds(seconds) }));
  const first = SIZES.map(([models, subClusters]): Placed => {
    const problem = drawnProblem(models, subClusters, 7);
    const { value: plan, cpuS } = search(problem);
    return {
      ...{ models, subClusters, cpuS },
      random: worth(problem, randomAssignment(problem, TRIES, 5)),
      greedy: worth(problem, judge(problem, greedyAssignment(problem))),
      search: worth(problem, plan),
    };
  });
  const start = drawnProblem(800, 20, 7);
  const { clusters: previous } = search(start).value;
  const afterDrift = BUDGETS.map((budgetShare): Followed => {
    const problem = drifted(start, previous, budgetShare);
    const { value: plan, cpuS } = search(problem);
    const before = judge(problem, previous).objective / meansOf(problem).rate;
    const spent = plan.moveCost / problem.disruption!.costMax;
    return { budgetShare, before, search: worth(problem, plan), moved: plan.moved, spent, cpuS };
  });
  return { first, afterDrift, imbalance: imbalances(draws) };
}

/** Proposals of each search, some 0.4 s. The number is fixed, so that figures don't depend on the machine. */
const IMBALANCE_PROPOSALS = 4_000_000;

function imbalances(draws: number): Imbalance[] {
  const searched = (problem: SubClusterProblem): ArrayLike<number> =>
    placeModels(problem, { seed: 3, proposals: IMBALANCE_PROPOSALS }).clusters;
  const problems = Array.from({ length: draws }, (_, i) => drawnProblem(800, 20, 100 + i));
  const uniform = (problem: SubClusterProblem, seed: number): number[] => {
    const prng = new Prng(seed);
    return problem.models.map(() => prng.nextInt(problem.clusters));
  };
  const of = (
    plan: Imbalance["plan"],
    place: (problem: SubClusterProblem, i: number) => ArrayLike<number>,
  ): Imbalance => {
    const factors = problems.map((problem, i) => imbalanceOf(problem, place(problem, i)));
    const ascending = (values: number[]): number[] => values.sort((a, b) => a - b);
    return {
      plan,
      rate: ascending(factors.map(({ rate }) => rate)),
      memory: ascending(factors.map(({ memory }) => memory)),
    };
  };
  return [of("random", uniform), of("greedy", greedyAssignment), of("search", searched)];
}

export interface Packing {
  readonly streams: number;
  readonly nodes: number;
  /** Lower bound on the nodes of any plan: Σ R/T. */
  readonly work: number;
  readonly cpuS: number;
  readonly epoch: { readonly nodes: number; readonly loads: number; readonly unloads: number; readonly cpuS: number };
  /** Loads of a plan made anew at the same rates, which keeps no model where it was. */
  readonly loadsAnew: number;
}

const STREAMS = 1_000;
const NODE_MEMORY = 64;

export function packing(): Packing {
  const before = Array.from({ length: STREAMS }, (_, id): Stream => {
    const [alpha, beta] = [0.5 + (id % 5) * 0.2, 2 + (id % 7)];
    return {
      ...{ id, slo: 50 + (id % 17) * 10, rate: 0.01 + (id % 23) * 0.01, memory: 1 },
      latency: {
        batchSizes: Array.from({ length: 64 }, (_, i) => i + 1),
        latency: (b) => (b > 64 ? Infinity : alpha * b + beta),
      },
    };
  });
  const options = { memory: NODE_MEMORY };
  const { value: plan, cpuS } = timed(() => pack(before, options));
  const prng = new Prng(5);
  const after = before.map((stream) => ({ ...stream, rate: stream.rate * Math.exp(0.2 * prng.nextNormal()) }));
  const next = timed(() => nextEpoch(plan, after, options));
  const places = new Set(plan.nodes.flatMap(({ id, items }) => items.map(({ stream }) => `${id}/${stream.id}`)));
  const anew = pack(after, options).nodes.flatMap(({ id, items }) => items.map(({ stream }) => `${id}/${stream.id}`));
  const { nodes, loads, unloads } = next.value;
  const work = before.reduce((sum, stream) => sum + stream.rate / saturated(stream)!.rate, 0);
  return {
    ...{ streams: STREAMS, nodes: plan.nodes.length, work, cpuS },
    epoch: { nodes: nodes.length, loads: loads.length, unloads: unloads.length, cpuS: next.cpuS },
    loadsAnew: anew.filter((place) => !places.has(place)).length,
  };
}

export interface Partitioned {
  readonly executors: number;
  /** Scenarios that fit, by way. */
  readonly fits: Readonly<Record<WayName, number>>;
  readonly cpuS: Readonly<Record<WayName, number>>;
}
export interface Partitioning {
  readonly scenarios: number;
  readonly byExecutors: readonly Partitioned[];
}

type Way = (models: readonly FractionModel[], executors: number) => boolean;
export const WAYS = {
  whole: (models, executors) => pack(streamsOf(models, 100)).nodes.length <= executors,
  halves: (models, executors) => {
    const { nodes, unplaced } = pack(streamsOf(models, 50));
    return unplaced.length === 0 && nodes.length <= 2 * executors;
  },
  greedy: (models, executors) => (greedyBestFit(models)?.length ?? Infinity) <= executors,
  elastic: (models, executors) => partition(models, { executors }) !== undefined,
  elasticBeside: (models, executors) => partition(models, { executors, interference: D6_INTERFERENCE }) !== undefined,
  portfolio: (models, executors) => partitionPortfolio(models, { executors }) !== undefined,
  portfolioBeside: (models, executors) =>
    partitionPortfolio(models, { executors, interference: D6_INTERFERENCE }) !== undefined,
} satisfies Record<string, Way>;
export type WayName = keyof typeof WAYS;

export function partitioning({ executors: most, every }: { executors: number; every: number }): Partitioning {
  const scenarios = Array.from({ length: Math.floor(SCENARIOS / every) }, (_, i) => scenario((i + 1) * every));
  const names = Object.keys(WAYS) as WayName[];
  const byExecutors = Array.from({ length: most }, (_, i): Partitioned => {
    const runs = names.map((name) => [name, timed(() => count(scenarios, WAYS[name], i + 1))] as const);
    const table = (cell: (run: (typeof runs)[number][1]) => number) =>
      Object.fromEntries(runs.map(([name, run]) => [name, cell(run)])) as Record<WayName, number>;
    return { executors: i + 1, fits: table(({ value }) => value), cpuS: table(({ cpuS }) => cpuS) };
  });
  return { scenarios: scenarios.length, byExecutors };
}

const count = (scenarios: readonly FractionModel[][], fits: Way, executors: number): number =>
  scenarios.filter((models) => fits(models, executors)).length;
