import { LatencyTable } from "@tutti/profile";
import { Prng } from "@tutti/units";
import fc from "fast-check";
import { expect, test } from "vitest";
import { poolCapacity } from "../pools/pool-capacity.ts";
import { type Carries, Divisions, dealtByFullness, fullnessBy } from "./fullness.ts";
import { placeModels } from "./local-search.ts";
import { type SubClusterProblem, judge } from "./problem.ts";

interface Asked {
  /** Requests per ms. */
  readonly rate: number;
  readonly slo: number;
  readonly alpha: number;
  readonly beta: number;
}

/** Models of which a sub-cluster holds `held`. */
function given(
  asked: readonly Asked[],
  clusters: number,
  held: number,
): { problem: SubClusterProblem; carries: Carries } {
  const pooled = asked.map(({ rate, slo, alpha, beta }) => {
    const profile = LatencyTable.affine({ alpha, beta, batchSizeMax: 16 });
    return { share: rate, slo, dispersion: 1, profile };
  });
  const models = asked.map(({ rate, alpha, beta }) => {
    return { rate, work: rate * (alpha + beta / 4), staticMemory: 1, dynamicMemory: 0 };
  });
  const carries: Carries = (own, gpus) => {
    const some = own.map((i) => pooled[i]!);
    return poolCapacity(some, gpus).carried / some.reduce((sum, { share }) => sum + share, 0);
  };
  return { problem: { models, clusters, rateMax: Infinity, memoryMax: held }, carries };
}
const evenOf = (problem: SubClusterProblem): Int32Array =>
  placeModels(problem, { seed: 1, proposals: 1_000, enumerateMax: 20_000 }).clusters;

/** Two models of short SLOs, asked for 100 times a second each, and two of long runs, 20 times a second. */
const HASTY = { rate: 0.1, slo: 12, alpha: 1, beta: 4 };
const SLOW = { rate: 0.02, slo: 400, alpha: 5, beta: 75 };

test("worked, E8: even work puts models of short SLOs beside long runs; apart, five accelerators carry five times as much", () => {
  const { problem, carries } = given([HASTY, HASTY, SLOW, SLOW], 2, 2);
  const divisions = new Divisions(problem, 5, carries);
  const even = evenOf(problem);
  expect(even[0]).not.toBe(even[1]);
  expect(divisions.dealt(even).times).toBeCloseTo(0.361, 3);
  const { clusters, gpus, times } = divisions.best(even, 1);
  expect([clusters[0] === clusters[1], clusters[2] === clusters[3]]).toEqual([true, true]);
  expect([gpus[clusters[0]!], gpus[clusters[2]!]]).toEqual([3, 2]);
  expect(times).toBeCloseTo(2.586, 3);
  expect([carries([0, 1], 4), carries([2, 3], 1), carries([2, 3], 2)].map((one) => one!.toFixed(3))).toEqual([
    "5.161",
    "0.882",
    "3.999",
  ]);
});

test("accelerators go to the part that is fullest until that helps no more, and each part keeps one", () => {
  // Parts that are asked for 6, 1 and 0 accelerators, one of which serves a third of what each further one does.
  const times = (part: number, gpus: number): number | undefined =>
    part === 2 ? undefined : (gpus - 2 / 3) / [6, 1][part]!;
  expect(dealtByFullness([3, 3, 3], fullnessBy(9, 3, times)).gpus).toEqual([6, 2, 1]);
  // Without requests a twentieth of the accelerators counts as asked for evenly.
  expect(
    dealtByFullness(
      [7, 1, 1],
      fullnessBy(9, 3, () => undefined),
    ).gpus,
  ).toEqual([3, 3, 3]);
});

test("where one sub-cluster holds all models, work stays even", () => {
  const { problem, carries } = given([HASTY, HASTY, SLOW, SLOW], 2, 4);
  const even = evenOf(problem);
  expect(new Divisions(problem, 8, carries).best(even, 1).clusters).toEqual(even);
});

test("a sub-cluster that can't serve a model at all, and capacities that nobody knows, leave work even", () => {
  const impossible = given([HASTY, { ...HASTY, slo: 4 }, SLOW, SLOW], 2, 2);
  const even = evenOf(impossible.problem);
  expect(new Divisions(impossible.problem, 8, impossible.carries).best(even, 1)).toMatchObject({
    clusters: even,
    times: 0,
  });
  const unknown = new Divisions(impossible.problem, 8, () => undefined).best(even, 1);
  expect(unknown).toMatchObject({ clusters: even, times: undefined });
});

test("no division is judged fuller than the one of even work, and all keep memory, rates and the budget of moves (FULL-1)", () => {
  let better = 0;
  fc.assert(
    fc.property(fc.nat(2 ** 31), (seed) => {
      const prng = new Prng(seed);
      const clusters = 2 + prng.nextInt(2);
      const asked = Array.from({ length: clusters + 2 + prng.nextInt(5) }, () => {
        const [alpha, beta] = [0.5 + 5 * prng.nextFloat(), 2 + 40 * prng.nextFloat()];
        return {
          rate: 0.02 * prng.nextExponential(1),
          slo: (alpha + beta) * (1.2 + 4 * prng.nextFloat()),
          alpha,
          beta,
        };
      });
      const { problem, carries } = given(asked, clusters, Math.ceil(asked.length / clusters) + prng.nextInt(2));
      const previous = asked.map((_, i) => i % clusters);
      const rateMax = 0.7 * asked.reduce((sum, { rate }) => sum + rate, 0);
      const disruption = { previous, moveCost: asked.map(() => 1), costMax: 4 };
      const bounded = { ...problem, rateMax, disruption };
      const even = placeModels(bounded, { seed: 1, proposals: 2_000, enumerateMax: 2_000 });
      if (!even.feasible) return;
      const divisions = new Divisions(bounded, clusters + 6, carries);
      const found = divisions.best(even.clusters, 1, ...(judge(bounded, previous).feasible ? [previous] : []));
      expect(judge(bounded, found.clusters).feasible).toBe(true);
      expect(found.gpus.reduce((sum, own) => sum + own, 0)).toBe(clusters + 6);
      expect(found.fullness).toBeLessThanOrEqual(divisions.dealt(even.clusters).fullness);
      if (found.fullness < 0.9 * divisions.dealt(even.clusters).fullness) better++;
    }),
    { numRuns: 100 },
  );
  expect(better).toBeGreaterThan(20);
});

test("64 models are divided over 64 accelerators within a second (FULL-2)", () => {
  const prng = new Prng(1);
  const asked = Array.from({ length: 64 }, () => {
    const [alpha, beta] = [0.5 + 5 * prng.nextFloat(), 2 + 40 * prng.nextFloat()];
    return { rate: 0.05 * prng.nextExponential(1), slo: (alpha + beta) * (1.2 + 4 * prng.nextFloat()), alpha, beta };
  });
  for (const clusters of [2, 8]) {
    const { problem, carries } = given(asked, clusters, 64 / clusters + 2);
    let models = 0;
    const counted: Carries = (own, gpus) => {
      models += own.length;
      return carries(own, gpus);
    };
    const divisions = new Divisions(problem, 64, counted);
    const even = evenOf(problem);
    const begin = performance.now();
    const found = divisions.best(even, 1);
    expect(performance.now() - begin).toBeLessThan(1_000);
    expect(found.fullness).toBeLessThanOrEqual(divisions.dealt(even).fullness);
    // The last division that is looked at is looked at to its end.
    expect(models).toBeLessThan(4_000);
    models = 0;
    const costly = new Divisions(problem, 64, counted, 13);
    expect(costly.best(even, 1).fullness).toBeLessThanOrEqual(divisions.dealt(even).fullness);
    expect(models).toBeLessThan(1_000);
  }
});
