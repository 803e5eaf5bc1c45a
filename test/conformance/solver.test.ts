/** Exact solvers: HiGHS against trying everything, and the planner's local search against HiGHS. */
import {
  type SubClusterProblem,
  assignmentOf,
  bestAssignment,
  judge,
  linearForm,
  meansOf,
  placeModels,
} from "@tutti/planning";
import { drawnProblem } from "@tutti/planning/testing";
import { type LinearProgram, TryingSolver } from "@tutti/solver";
import { HighsSolver } from "@tutti/solver-highs";
import { Prng } from "@tutti/units";
import { expect, test } from "vitest";

const highs = new HighsSolver();
const SECONDS = 60;

function drawnProgram(seed: number): LinearProgram {
  const prng = new Prng(seed);
  const columns = Array.from({ length: 6 }, () => ({
    ...{ cost: prng.nextInt(21) - 10, lower: -prng.nextInt(2), upper: 1 + prng.nextInt(3), isInteger: true },
  }));
  const rows = Array.from({ length: 4 }, () => {
    const terms = columns.map((_, column) => [column, prng.nextInt(11) - 5] as const);
    const lower = prng.nextInt(20) - 12;
    return { lower, upper: lower + prng.nextInt(12), terms: terms.filter(([, coefficient]) => coefficient !== 0) };
  });
  return { columns, rows };
}

test("HiGHS finds what trying everything finds, also that there is nothing", async () => {
  const trying = new TryingSolver();
  const seen = { optimal: 0, infeasible: 0, stopped: 0 };
  for (let seed = 1; seed <= 12; seed++) {
    const program = drawnProgram(seed);
    const [expected, found] = [await trying.solve(program), await highs.solve(program, { secondsMax: SECONDS })];
    seen[expected.status]++;
    expect([seed, found.status]).toEqual([seed, expected.status]);
    if (expected.status === "optimal" && found.status === "optimal")
      expect(found.objective).toBeCloseTo(expected.objective, 6);
  }
  expect(Math.min(seen.optimal, seen.infeasible)).toBeGreaterThan(1);
});

test("what HiGHS can't take is an error that says so", async () => {
  const endless = { columns: [{ cost: -1, lower: 0, upper: Infinity, isInteger: false }], rows: [] };
  await expect(highs.solve(endless, { secondsMax: 1 })).rejects.toThrow(/HiGHS: it ended with model status/);
});

/** With a budget for every other seed. */
function smallProblem(seed: number): SubClusterProblem {
  const [count, clusters] = [8 + (seed % 5), 2 + (seed % 2)];
  const drawn = { ...drawnProblem(count, clusters, seed) };
  const wide = { ...drawn, rateMax: 1.5 * drawn.rateMax };
  if (seed % 2 === 0) return wide;
  const prng = new Prng(seed);
  const previous = wide.models.map(() => prng.nextInt(clusters));
  const moveCost = wide.models.map(({ staticMemory }) => staticMemory);
  return { ...wide, disruption: { previous, moveCost, costMax: moveCost.reduce((sum, cost) => sum + cost, 0) } };
}

test("on up to 12 models over 3 sub-clusters the local search finds the exact optimum, to 1e-6 of the mean rate", async () => {
  const seen = { optimal: 0, infeasible: 0, stopped: 0 };
  for (let seed = 1; seed <= 10; seed++) {
    const problem = smallProblem(seed);
    const answer = await highs.solve(linearForm(problem), { secondsMax: SECONDS });
    seen[answer.status]++;
    const searched = placeModels(problem, { seed, proposals: 1_000_000, enumerateMax: 0 });
    expect([seed, searched.feasible]).toEqual([seed, answer.status === "optimal"]);
    if (answer.status !== "optimal") continue;
    const exact = judge(problem, assignmentOf(problem, answer.values));
    expect(exact.feasible).toBe(true);
    const tolerance = 1e-6 * meansOf(problem).rate;
    expect(Math.abs(exact.objective - answer.objective)).toBeLessThan(tolerance);
    expect(exact.objective).toBeLessThanOrEqual(bestAssignment(problem)!.objective + tolerance);
    expect([seed, searched.objective <= exact.objective + tolerance]).toEqual([seed, true]);
  }
  expect(seen.optimal).toBeGreaterThan(6);
});
