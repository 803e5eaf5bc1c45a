/** The planner reports its steps: enough to explain where everything is placed, and without changing the plan. */
import fc from "fast-check";
import { expect, test } from "vitest";
import {
  type FractionModel,
  type PackingStep,
  type PartitionStep,
  type Stream,
  type SubClusterProblem,
  bestAssignment,
  nextBest,
  nextEpoch,
  pack,
  partition,
  partitionPortfolio,
  withModelAt,
} from "./index.ts";

const streams = fc
  .array(
    fc.record({
      slo: fc.integer({ min: 30, max: 400 }),
      rate: fc.double({ min: 0.001, max: 1, noNaN: true }),
      alpha: fc.double({ min: 0.05, max: 3, noNaN: true }),
      factor: fc.double({ min: 0.1, max: 3, noNaN: true }),
    }),
    { minLength: 1, maxLength: 8 },
  )
  .map((all) =>
    all.map(({ alpha, factor, ...stream }, id): { before: Stream; after: Stream } => {
      const batchSizes = Array.from({ length: 64 }, (_, i) => i + 1);
      const latency = { batchSizes, latency: (b: number) => (b > 64 ? Infinity : alpha * b + 5) };
      const before = { id, ...stream, latency, memory: 1 };
      return { before, after: { ...before, rate: stream.rate * factor } };
    }),
  );

test("of each share of a packing one step says why it is on its node, and listening changes nothing", () => {
  fc.assert(
    fc.property(streams, (given) => {
      const all = given.map(({ before }) => before);
      const steps: PackingStep[] = [];
      const plan = pack(all, { memory: 3, onStep: (step) => steps.push(step) });
      expect(plan).toEqual(pack(all, { memory: 3 }));
      const told = steps.flatMap((step) => {
        if (step.kind === "merged") return [`${step.stream.id} at ${step.after.id}`];
        return "node" in step && "stream" in step ? [`${step.stream.id} at ${step.node}`] : [];
      });
      const items = plan.nodes.flatMap(({ id, items: own }) => own.map(({ stream }) => `${stream.id} at ${id}`));
      expect(told.toSorted()).toEqual(items.toSorted());
      for (const step of steps)
        if (step.kind === "opened") expect(step.refusals.every(({ why }) => typeof why === "string")).toBe(true);
    }),
  );
});

test("of each load and unload of an epoch some step says why, and listening changes nothing", () => {
  fc.assert(
    fc.property(streams, (given) => {
      const before = pack(
        given.map((one) => one.before),
        { memory: 3 },
      );
      const after = given.map((one) => one.after);
      const steps: PackingStep[] = [];
      const plan = nextEpoch(before, after, { memory: 3, onStep: (step) => steps.push(step) });
      expect(plan).toEqual(nextEpoch(before, after, { memory: 3 }));
      for (const { stream, node } of plan.loads) {
        const own = steps.filter((step) => "stream" in step && step.stream.id === stream);
        const places = own.map((step) => (step.kind === "merged" ? step.after.id : "node" in step ? step.node : -1));
        expect(places).toContain(node);
      }
      for (const { stream, node } of plan.unloads) {
        const reasons = steps.filter(
          (step) =>
            (step.kind === "released" && step.node === node) ||
            ((step.kind === "evicted" || step.kind === "lowered") && step.stream.id === stream && step.node === node),
        );
        expect(reasons.length).toBeGreaterThan(0);
      }
    }),
  );
});

/** nas and mob of docs/algorithms.md, D6. */
const NAS = { id: 0, slo: 62, beta: 5, sigma: 0.05, cacheUse: 0.25, bandwidthUse: 0.35 };
const MOB = { id: 1, slo: 64, beta: 6, sigma: 0.06, cacheUse: 0.28, bandwidthUse: 0.4 };
const modelOf = ({ beta, sigma, ...model }: typeof NAS, perSecond: number): FractionModel => ({
  ...{ ...model, rate: perSecond / 1000, batchMax: 32 },
  latency: (b, size) => beta + (0.8 * b) / Math.min(size / 100, Math.min(1, sigma * b)),
});

test("steps of a partition serve every model in full, in the order of rate times SLO; the attempt that succeeded can be heard again", () => {
  const interference = [0.2, 0.5, 0.3, 0.2, 0.9] as const;
  let portfolios = 0;
  for (let rate = 20; rate <= 400; rate += 20) {
    const models = [modelOf(NAS, rate), modelOf(MOB, 200)];
    const options = { executors: 1, interference };
    const found = partitionPortfolio(models, options);
    const steps: PartitionStep[] = [];
    const again = partition(models, {
      ...options,
      ...found?.attempt,
      onStep: (step) => steps.push(step),
    });
    if (found === undefined) {
      expect(steps.at(-1)!.kind).toBe("failed");
      continue;
    }
    if (found.attempt.splits !== undefined) portfolios++;
    expect(again).toEqual(found);
    for (const model of models) {
      const own = steps.filter((step) => step.model === model);
      expect(own.reduce((sum, step) => sum + step.rate, 0)).toBeCloseTo(model.rate, 9);
      for (const step of own) {
        if (step.kind === "failed") throw new Error("it succeeded");
        const part = found.executors[step.executor]![step.place]!;
        expect(part.size).toBe(step.size);
        expect(part.plan!.items.some((item) => item.model === model)).toBe(true);
      }
    }
    const order = steps.map(({ model }) => model.rate * model.slo);
    expect(order).toEqual(order.toSorted((a, b) => a - b));
  }
  expect(portfolios).toBeGreaterThan(0);
});

test("no other place for one model alone is better than in the best plan, and a bound that it would break says so", () => {
  const problem: SubClusterProblem = {
    models: [3, 9, 4, 7, 5, 8].map((rate, i) => ({ rate, staticMemory: 1 + (i % 3), dynamicMemory: i % 2 })),
    ...{ clusters: 3, rateMax: 14, memoryMax: 8 },
  };
  const plan = bestAssignment(problem)!;
  for (let model = 0; model < 6; model++) {
    const other = nextBest(problem, plan, model)!;
    expect(other.cluster).not.toBe(plan.clusters[model]);
    if (other.plan.feasible) expect(other.plan.objective).toBeGreaterThanOrEqual(plan.objective - 1e-9);
    expect(withModelAt(problem, plan, model, plan.clusters[model]!).plan).toEqual(plan);
  }
  const [alone] = [nextBest({ ...problem, clusters: 1 }, { ...plan, clusters: new Int32Array(6) }, 0)];
  expect(alone).toBeUndefined();
});
