import fc from "fast-check";
import { type Instant, Prng, seconds } from "@tutti/units";
import { expect, test } from "vitest";
import { type RunListener, simulate } from "../run.ts";
import type { Scenario } from "../scenario/scenario.ts";
import type { SimBatch, SimRequest } from "./simulated-cluster.ts";
import { subClusterChoice } from "./sub-cluster-choice.ts";
import { splitOf } from "./sub-clusters.ts";
import { model, smallScenario } from "../testing/small-scenario.ts";

const many = (count: number, share: (i: number) => number = () => 1 / count) =>
  Array.from({ length: count }, (_, i) => model(`m${i}`, share(i)));

test("models are split so that sub-clusters have the same work, and the fullest is least full (SC1)", () => {
  const even = splitOf(smallScenario({ gpus: 16, models: many(8) }), 4);
  expect(even.gpus).toEqual([4, 4, 4, 4]);
  // One model with half of the requests and its cluster have half of the accelerators.
  const uneven = splitOf(smallScenario({ gpus: 16, models: many(5, (i) => (i === 0 ? 0.5 : 0.125)) }), 2);
  const own = uneven.clusterOf[0]!;
  expect([1, 2, 3, 4].map((i) => uneven.clusterOf[i])).toEqual([1 - own, 1 - own, 1 - own, 1 - own]);
  expect(uneven.gpus).toEqual([8, 8]);
});

test("every accelerator is dealt out once, at least one to each, whatever the shares (SC1)", () => {
  fc.assert(
    fc.property(fc.nat(2 ** 31), (seed) => {
      const prng = new Prng(seed);
      const count = 1 + prng.nextInt(8);
      const weights = Array.from({ length: count + prng.nextInt(6) }, () => prng.nextFloat() ** 6 + 1e-9);
      const total = weights.reduce((sum, weight) => sum + weight, 0);
      const gpus = count + prng.nextInt(20);
      const scenario = smallScenario({ gpus, models: many(weights.length, (i) => weights[i]! / total) });
      const split = splitOf(scenario, count);
      expect(split.gpus.reduce((sum, one) => sum + one, 0)).toBe(gpus);
      expect(Math.min(...split.gpus)).toBeGreaterThanOrEqual(1);
      expect(new Set(Array.from(split.clusterOf)).size).toBeLessThanOrEqual(count);
    }),
    { numRuns: 40 },
  );
});

test("phases count as long as they last", () => {
  const shares = [0.9, 0.05, 0.05];
  const phases = [{ from: seconds(1.2), factor: 1, shares }];
  const split = splitOf(smallScenario({ gpus: 12, duration: seconds(12), phases, models: many(3) }), 3);
  const [first, ...others] = [0, 1, 2].map((i) => split.gpus[split.clusterOf[i]!]);
  // The others share a sub-cluster. Their work is worth two accelerators, which leave little for swings.
  expect(first).toBe(8);
  expect(others).toEqual([3, 3]);
});

/** Every event in order, every accelerator for the models of its sub-cluster alone. */
class Auditor implements RunListener {
  readonly ends = new Map<number, number>();
  readonly modelsOn = new Map<number, Set<number>>();
  readonly batches = new Set<number>();
  #now = 0;
  arrived({ id }: SimRequest): void {
    this.ends.set(id, 0);
  }
  dispatched({ id, gpu, model: own }: SimBatch, at: Instant): void {
    this.#passes(at);
    expect(this.batches.has(id)).toBe(false);
    this.batches.add(id);
    this.modelsOn.set(gpu, (this.modelsOn.get(gpu) ?? new Set()).add(own));
  }
  refused({ id }: SimRequest, _cause: string, at: Instant): void {
    this.#passes(at);
    this.ends.set(id, this.ends.get(id)! + 1);
  }
  finished({ requests }: SimBatch, _begin: Instant, end: Instant): void {
    this.#passes(end);
    for (const { id } of requests) this.ends.set(id, this.ends.get(id)! + 1);
  }
  #passes(at: number): void {
    expect(at).toBeGreaterThanOrEqual(this.#now); // SC2
    this.#now = at;
  }
}

test.for([1, 2, 3, 5])(
  "in %i sub-clusters requests end once, in order, on accelerators of their own (SC2)",
  (subClusters) => {
    const scenario: Scenario = smallScenario({
      gpus: 11,
      rate: 9000,
      models: many(7),
      subClusters,
      subClustersMin: subClusters,
      policy: "default",
    });
    const auditor = new Auditor();
    simulate(scenario, { listener: auditor });
    expect([...auditor.ends.values()].filter((times) => times !== 1)).toEqual([]);
    expect(auditor.ends.size).toBeGreaterThan(10_000);
    const { clusterOf, gpus } = splitOf(scenario, subClusters);
    const clusterOfGpu = gpus.flatMap((count, cluster) => new Array<number>(count).fill(cluster));
    for (const [gpu, models] of auditor.modelsOn) {
      for (const own of models) expect(clusterOf[own]).toBe(clusterOfGpu[gpu]);
    }
  },
);

test("one sub-cluster is the cluster, and more of them never carry more", () => {
  const scenario = smallScenario({ gpus: 12, rate: 7600, models: many(12), policy: "default" });
  const whole = simulate(scenario);
  expect(simulate({ ...scenario, subClusters: 1 })).toEqual(whole);
  const bad = [2, 4, 12].map(
    (subClusters) => simulate({ ...scenario, subClusters, subClustersMin: subClusters }).badRate,
  );
  expect(bad[0]).toBeGreaterThanOrEqual(whole.badRate);
  expect(bad[2]).toBeGreaterThan(bad[0]!);
});

test("a policy that plans for the whole cluster is refused in sub-clusters", () => {
  expect(() => simulate(smallScenario({ models: many(4), subClusters: 2, policy: "nexus" }))).toThrow("Tutti's own");
});

test("a division that is expected to carry less than nine tenths is refused, and the result has the rates", () => {
  const scenario = smallScenario({ gpus: 12, rate: 7600, models: many(12), policy: "default" });
  const { subClusters, ...refused } = simulate({ ...scenario, subClusters: 12 });
  expect(subClusters).toMatchObject({ asked: 12, used: 1 });
  expect(subClusters!.dividedRps!).toBeLessThan(0.9 * subClusters!.undividedRps!);
  expect(refused).toEqual(simulate(scenario));
  const made = simulate({ ...scenario, subClusters: 12, subClustersMin: 12 });
  expect(made.subClusters).toEqual({ ...subClusters, used: 12 });
  expect(made.badRate).toBeGreaterThan(refused.badRate);
  // With many more accelerators it costs little.
  const large = { ...scenario, gpus: 200, subClusters: 2 };
  expect(simulate(large).subClusters).toMatchObject({ asked: 2, used: 2 });
});

test("the mix that a division suits least counts, since models and accelerators stay where they are", () => {
  const calm = smallScenario({ gpus: 60, rate: 7600, models: many(4), policy: "default", subClusters: 2 });
  expect(subClusterChoice(calm)).toMatchObject({ used: 2 });
  const phases = [
    { from: seconds(0), factor: 1, shares: [0.4, 0.4, 0.1, 0.1] },
    { from: seconds(1), factor: 1, shares: [0.1, 0.1, 0.4, 0.4] },
    { from: seconds(2), factor: 1, shares: [0.4, 0.1, 0.4, 0.1] },
    { from: seconds(3), factor: 1, shares: [0.1, 0.4, 0.1, 0.4] },
  ];
  const moving = { ...calm, phases };
  expect(subClusterChoice(moving)).toMatchObject({ asked: 2, used: 1 });
  expect(subClusterChoice({ ...moving, subClusters: 1 })).toBeUndefined();
});
