import fc from "fast-check";
import { Prng } from "@tutti/units";
import { expect, test } from "vitest";
import {
  type TwoLevelProblem,
  flatProblem,
  greedyAssignment,
  judge,
  meansOf,
  placeModels,
  placeOnTwoLevels,
} from "../index.ts";
import { drawnProblem } from "../testing/index.ts";
import { over } from "./problem.ts";

/** A problem from `drawnProblem`, whose bounds are those of a flat plan. */
function drawn(count: number, clusters: number, subClusters: number, seed: number): TwoLevelProblem {
  return { ...drawnProblem(count, clusters * subClusters, seed), clusters, subClusters };
}
const gapOf = (problem: TwoLevelProblem, objective: number): number => objective / meansOf(flatProblem(problem)).rate;

test(
  "1,600 models over 4 clusters of 10 sub-clusters: every bound of both levels holds, and gaps are below 3e-3, where greedy leaves ten times as much",
  { timeout: 60_000 },
  () => {
    const problem = drawn(1_600, 4, 10, 5);
    const plan = placeOnTwoLevels(problem, { seed: 1, proposals: 1_000_000 });
    expect(plan.feasible).toBe(true);
    expect(plan.first.feasible).toBe(true);
    expect([...plan.clusters].map((number) => Math.floor(number / 10))).toEqual([...plan.first.clusters]);
    expect(gapOf(problem, plan.objective)).toBeLessThan(3e-3);
    const flat = flatProblem(problem);
    expect(judge(flat, greedyAssignment(flat)).objective).toBeGreaterThan(10 * plan.objective);
  },
);

const problems = fc
  .record({
    seed: fc.nat(1e6),
    count: fc.integer({ min: 6, max: 40 }),
    clusters: fc.integer({ min: 1, max: 3 }),
    subClusters: fc.integer({ min: 1, max: 3 }),
    share: fc.option(fc.double({ min: 0, max: 1, noNaN: true }), { nil: undefined }),
    scheduler: fc.option(fc.double({ min: 1, max: 1.5, noNaN: true }), { nil: undefined }),
  })
  .map(({ seed, count, clusters, subClusters, share, scheduler }) => {
    const problem = drawn(count, clusters, subClusters, seed);
    const prng = new Prng(seed);
    const { rate } = meansOf(flatProblem(problem));
    const moveCost = problem.models.map(({ staticMemory }) => staticMemory);
    const all = 2 * moveCost.reduce((sum, cost) => sum + cost, 0);
    // In half of the problems a model is new now and then.
    const hasNew = seed % 2;
    const previous = problem.models.map(() => prng.nextInt(clusters * subClusters + hasNew) - hasNew);
    const bounded: TwoLevelProblem = {
      ...problem,
      rateMax: 2 * problem.rateMax,
      ...(scheduler !== undefined && { clusterRateMax: scheduler * subClusters * rate }),
      ...(share !== undefined && { disruption: { previous, moveCost, costMax: share * all } }),
    };
    return { problem: bounded, seed };
  });

test("each model has one sub-cluster, of its cluster; bounds of both levels and the one budget hold; and no plan is worse than a feasible one before (TL1, TL2)", () => {
  const seen = { feasible: 0, infeasible: 0, followed: 0 };
  fc.assert(
    fc.property(problems, ({ problem, seed }) => {
      const { subClusters, clusters, clusterRateMax, disruption, models } = problem;
      const plan = placeOnTwoLevels(problem, { seed, proposals: 3_000, enumerateMax: 2_000 });
      seen[plan.feasible ? "feasible" : "infeasible"]++;
      const judged = judge(flatProblem(problem), plan.clusters); // asserts that each number is a sub-cluster's
      expect(plan).toMatchObject({ ...judged, feasible: plan.feasible });
      expect(plan.moveCost).toBeLessThanOrEqual(over(disruption?.costMax ?? Infinity));
      const rates = Array.from({ length: clusters }, (_, cluster) =>
        models.reduce(
          (sum, { rate }, i) => sum + (Math.floor(plan.clusters[i]! / subClusters) === cluster ? rate : 0),
          0,
        ),
      );
      if (plan.feasible) {
        expect(judged.feasible).toBe(true);
        expect(Math.max(...rates)).toBeLessThanOrEqual((clusterRateMax ?? Infinity) * (1 + 1e-9));
      }
      if (disruption?.previous.length === undefined || Array.from(disruption.previous).includes(-1)) return;
      const before = judge(flatProblem(problem), disruption.previous);
      const upper = Array.from({ length: clusters }, (_, cluster) =>
        models.reduce(
          (sum, { rate }, i) => sum + (Math.floor(disruption.previous[i]! / subClusters) === cluster ? rate : 0),
          0,
        ),
      );
      if (!before.feasible || upper.some((rate) => rate > (clusterRateMax ?? Infinity))) return;
      seen.followed++;
      expect([plan.feasible, plan.objective <= before.objective]).toEqual([true, true]);
    }),
    { numRuns: 150 },
  );
  expect(Math.min(...Object.values(seen))).toBeGreaterThan(5);
});

test("with one cluster, or with one sub-cluster in each, it is the plan of a single level", () => {
  const options = { seed: 3, proposals: 20_000 };
  for (const [clusters, subClusters] of [
    [1, 4],
    [4, 1],
  ] as const) {
    const problem = drawn(60, clusters, subClusters, 8);
    const plan = placeOnTwoLevels(problem, options);
    expect(plan.clusters).toEqual(placeModels(flatProblem(problem), options).clusters);
  }
});

test(
  "after a drift a twentieth of all moves makes both levels even again, and equal seeds make equal plans",
  { timeout: 60_000 },
  () => {
    const before = drawn(400, 4, 5, 7);
    const { clusters: previous } = placeOnTwoLevels(before, { seed: 3, proposals: 200_000 });
    const prng = new Prng(11);
    const models = before.models.map((model) => ({ ...model, rate: model.rate * Math.exp(0.5 * prng.nextNormal()) }));
    const rate = models.reduce((sum, model) => sum + model.rate, 0) / 20;
    const moveCost = models.map(({ staticMemory }) => staticMemory);
    const costMax = 0.05 * 2 * moveCost.reduce((sum, cost) => sum + cost, 0);
    const problem = { ...before, models, rateMax: 1.15 * rate, disruption: { previous, moveCost, costMax } };
    const unfollowed = judge(flatProblem(problem), previous);
    const plans = [1, 2].map(() => placeOnTwoLevels(problem, { seed: 4, proposals: 200_000 }));
    expect(unfollowed.feasible).toBe(false);
    expect(plans[0]!.feasible).toBe(true);
    expect(plans[0]!.moveCost).toBeLessThanOrEqual(costMax);
    expect(plans[0]!.objective).toBeLessThan(unfollowed.objective / 5);
    expect(plans[0]).toEqual(plans[1]);
  },
);

test("a model that is new costs nothing wherever it goes, and one that is there keeps its place where moving isn't worth it", () => {
  const problem: TwoLevelProblem = {
    ...{ clusters: 2, subClusters: 2, rateMax: 100, memoryMax: 100, weight: 0 },
    models: [40, 40, 40, 40].map((rate) => ({ rate, staticMemory: 1, dynamicMemory: 0 })),
    disruption: { previous: [0, 1, 2, -1], moveCost: [1, 1, 1, 1], costMax: 0 },
  };
  const plan = placeOnTwoLevels(problem, { seed: 1, proposals: 1_000 });
  expect(plan).toMatchObject({ feasible: true, objective: 0, moved: 0, moveCost: 0 });
  expect([...plan.clusters]).toEqual([0, 1, 2, 3]);
});

test("each level is told what share of the time may have passed", () => {
  const shares: number[] = [];
  const isOver = (share: number) => {
    shares.push(share);
    return true;
  };
  placeOnTwoLevels(drawn(200, 2, 5, 1), { seed: 1, proposals: 1e9, isOver });
  expect(shares.map((share) => share.toFixed(2))).toEqual(["0.30", "0.65", "1.00"]);
});
