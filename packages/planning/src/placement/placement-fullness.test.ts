/** Live placements by what accelerators are expected to carry (docs/algorithms.md, E8). */
import { LatencyTable } from "@tutti/profile";
import { Prng, gpuId } from "@tutti/units";
import { expect, test } from "vitest";
import { poolCapacity } from "../pools/pool-capacity.ts";
import { planPlacement } from "./plan-placement.ts";
import type { ExecutorToPlace, ModelToPlace, PlacementPlan, PlacementProblem } from "./placement-problem.ts";

const GB = 1e9;

/** Two models of short SLOs, asked for 100 times a second each, and two of long runs, 20 times: those of E8. */
const SHAPES = [
  { rate: 100, slo: 12, alpha: 1, beta: 4, work: 0.2 },
  { rate: 20, slo: 400, alpha: 5, beta: 75, work: 0.48 },
  { rate: 100, slo: 12, alpha: 1, beta: 4, work: 0.2 },
  { rate: 20, slo: 400, alpha: 5, beta: 75, work: 0.48 },
].map((shape) => ({ ...shape, profile: LatencyTable.affine({ ...shape, batchSizeMax: 16 }) }));

/** @param factors - on the rates by model */
function at(factors: readonly number[]): Pick<PlacementProblem, "models" | "carries"> {
  const models = SHAPES.map(({ rate, work }, i): ModelToPlace => {
    const number = i + 1;
    return { number, name: `m${number}`, rate: rate * factors[i]!, work: work * factors[i]!, memoryBytes: GB };
  });
  const carries: PlacementProblem["carries"] = (numbers, gpus) => {
    const own = numbers.map((number) => {
      return { share: models[number - 1]!.rate / 1e3, dispersion: 1, ...SHAPES[number - 1]! };
    });
    return poolCapacity(own, gpus).carried / own.reduce((sum, { share }) => sum + share, 0);
  };
  return { models, carries };
}

/** Executors that have followed a plan and loaded what it says. */
const followed = ({ models, gpus }: Pick<PlacementPlan, "models" | "gpus">, held: number): ExecutorToPlace[] =>
  gpus.map(({ gpu, subCluster }) => {
    const own = models.filter((one) => one.subCluster === subCluster || one.next === subCluster);
    const loaded = new Set(own.map(({ number }) => number));
    return { key: gpu + 1, gpus: [gpu], memoryBytesMax: held * GB, subCluster, loaded };
  });

const START = {
  models: ["main", "main", "b", "b"].map((subCluster, i) => ({ number: i + 1, subCluster })),
  gpus: ["main", "main", "main", "b", "b"].map((subCluster, gpu) => ({ gpu: gpuId(gpu), subCluster })),
};

/** Plans one after the other, each followed by the executors; each with other rates. */
function plans(rounds: number, held: number, factors: () => readonly number[]): PlacementPlan[] {
  let before: Pick<PlacementPlan, "models" | "gpus"> = START;
  return Array.from({ length: rounds }, () => {
    const plan = planPlacement({
      ...{ subClusters: ["main", "b"], before, awaited: new Set(), costMax: 100 * GB, mayBalance: true, seed: 1 },
      ...at(factors()),
      executors: followed(before, held),
    });
    before = plan;
    return plan;
  });
}
const homes = ({ models }: Pick<PlacementPlan, "models">): string => models.map(({ subCluster }) => subCluster).join();

test("where memory divides, models that spoil each other's runs part in two steps, and the report says why", () => {
  const [first, second] = plans(2, 3, () => [1, 1, 1, 1]);
  expect(first!.modelMoves.map(({ number, isForced }) => [number, isForced])).toEqual([
    [1, false],
    [4, false],
  ]);
  expect(first!.reasons[0]!.text).toMatch(/the fullest sub-cluster is full to 43 % then, as it is to 283 %/);
  expect(homes(second!)).toBe("b,main,b,main");
  expect(second!.loads.map(({ gpusIdeal }) => gpusIdeal)).toEqual([2, 3]);
});

test("where one sub-cluster could hold all, models stay: its ranker is why there are two", () => {
  const calm = plans(3, 4, () => [1, 1, 1, 1]);
  expect(calm.flatMap(({ modelMoves }) => modelMoves)).toEqual([]);
});

test("rates that vary by a tenth move neither models nor accelerators, once they are where they should be", () => {
  const prng = new Prng(7);
  const made = plans(100, 3, () => SHAPES.map(() => 0.9 + 0.2 * prng.nextFloat()));
  expect(homes(made[0]!)).toBe(homes(START));
  const settled = made.slice(5);
  expect(new Set(settled.map(homes)).size).toBe(1);
  expect(homes(settled[0]!)).not.toBe(homes(START));
  expect(settled.flatMap(({ executorMoves }) => executorMoves)).toEqual([]);
});

test("a capacity that nobody knows leaves accelerators in proportion to the work", () => {
  const [plan] = [
    planPlacement({
      ...{ subClusters: ["main", "b"], before: START, awaited: new Set(), costMax: 0, mayBalance: true, seed: 1 },
      ...at([1, 1, 1, 1]),
      carries: () => undefined,
      executors: followed(START, 3),
    }),
  ];
  expect(plan.loads.map(({ gpusIdeal }) => gpusIdeal)).toEqual([2.5, 2.5]);
});
