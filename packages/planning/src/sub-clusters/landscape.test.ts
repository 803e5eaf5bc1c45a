import { Prng } from "@tutti/units";
import { expect, test } from "vitest";
import { drawnProblem } from "../testing/index.ts";
import { Landscape } from "./landscape.ts";
import { type SubClusterProblem, judge, meansOf, workOf } from "./problem.ts";

const CLUSTERS = 4;

function surrogate(problem: SubClusterProblem, clusters: ArrayLike<number>): number {
  const { rate, memory } = meansOf(problem);
  let sum = 0;
  for (let j = 0; j < CLUSTERS; j++) {
    const own = problem.models.filter((_, i) => clusters[i] === j);
    const total = (value: (model: (typeof own)[number]) => number) => own.reduce((all, model) => all + value(model), 0);
    sum += (total(workOf) / rate - 1) ** 2 + (total((model) => model.staticMemory) / memory - 1) ** 2;
  }
  return sum;
}

test.for([false, true])(
  "whatever is proposed, accepted and undone: change, objective, misfits, cost and who is away are those of the assignment, work apart from rates: %s (LANDSCAPE-1, LANDSCAPE-2)",
  (isWorked) => {
    const prng = new Prng(1);
    const given = drawnProblem(30, CLUSTERS, 3);
    const drawn = isWorked
      ? { ...given, models: given.models.map((model) => ({ ...model, work: prng.nextExponential(1) })) }
      : given;
    const anyModel = () => prng.nextInt(30);
    const anyCluster = () => prng.nextInt(CLUSTERS);
    const previous = drawn.models.map(anyCluster);
    const moveCost = drawn.models.map(({ staticMemory }) => staticMemory);
    const costMax = 0.5 * moveCost.reduce((sum, cost) => sum + cost, 0);
    // So wide that a random walk keeps the bounds about as often as it breaks them.
    const bounds = { rateMax: 1.5 * drawn.rateMax, memoryMax: 1.2 * drawn.memoryMax };
    const problem: SubClusterProblem = { ...drawn, ...bounds, disruption: { previous, moveCost, costMax } };
    const land = new Landscape(problem, Int32Array.from(previous));
    const seen = { within: 0, beyond: 0, fitting: 0, misfitting: 0 };
    for (let round = 0; round < 3_000; round++) {
      const before = Int32Array.from(land.clusters);
      const [a, b] = [anyModel(), anyModel()];
      const kind = a === b ? 0 : prng.nextInt(3);
      if (kind === 0) land.proposeMove(a, anyCluster());
      else if (kind === 1) land.proposeSwap(a, b);
      else land.proposeBoth(a, previous[a]!, b, anyCluster());
      const { change, isWithinBudget } = land;
      land.accept();
      const now = judge(problem, land.clusters);
      expect(change).toBeCloseTo(surrogate(problem, land.clusters) - surrogate(problem, before), 9);
      expect(land.objective()).toBeCloseTo(now.objective, 6);
      expect(isWithinBudget).toBe(now.moveCost <= costMax + 1e-9);
      expect(land.misfits === 0 && isWithinBudget).toBe(now.feasible);
      const away = Array.from({ length: land.awayCount }, (_, i) => land.awayModel(i)).toSorted((x, y) => x - y);
      expect(away).toEqual(previous.flatMap((cluster, i) => (cluster === land.clusters[i] ? [] : [i])));
      seen[isWithinBudget ? "within" : "beyond"]++;
      seen[land.misfits === 0 ? "fitting" : "misfitting"]++;
      if (prng.nextFloat() < 0.5) continue;
      land.undo();
      expect(land.clusters).toEqual(before);
      expect(land.objective()).toBeCloseTo(judge(problem, before).objective, 6);
    }
    expect(Math.min(...Object.values(seen))).toBeGreaterThan(30);
  },
);
