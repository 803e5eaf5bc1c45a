import type { BatchLatency } from "@tutti/planning/split";
import { micros } from "@tutti/units";
import fc from "fast-check";
import { expect, test } from "vitest";
import { type StageLoad, planBudgets } from "./budgets.ts";
import { type PipelineSpec, edgesOf } from "./pipeline-spec.ts";

const affine = (alpha: number, beta: number, most = 32): BatchLatency => ({
  batchSizes: Array.from({ length: most }, (_, i) => i + 1),
  latency: (b) => (b <= most ? alpha * b + beta : Infinity),
});
const spec = (sloMs: number, after: Readonly<Record<string, readonly string[]>>): PipelineSpec => ({
  name: "p",
  version: "1",
  slo: micros(sloMs * 1000),
  split: "planned",
  stages: Object.entries(after).map(([name, before]) => ({ name, model: name, after: before, before: "./f.ts#f" })),
  finish: "./f.ts#g",
});
const loads = (all: Readonly<Record<string, Partial<StageLoad>>>): Map<string, StageLoad> =>
  new Map(Object.entries(all).map(([name, one]) => [name, { latency: undefined, requests: 1, stepMs: 0, ...one }]));

test("without profiles, stages get equal parts, and the last has until the deadline", () => {
  const even = planBudgets(spec(300, { a: [], b: ["a"], c: ["b"] }), { stages: loads({}), finishMs: 0 });
  expect(even.split).toBe("even");
  expect([...even.ends.values()].map((end) => Math.round(end * 300))).toEqual([100, 200, 300]);
});

test("a stage that gets ten requests for each of the first has more of the time than with one tenth (C9.6's shape)", () => {
  const query = spec(100, { x: [], y: ["x"] });
  const at = (gamma: number): number =>
    planBudgets(query, {
      stages: loads({ x: { latency: affine(0.5, 8, 256) }, y: { latency: affine(0.5, 8, 256), requests: gamma } }),
      finishMs: 0,
    }).ends.get("x")!;
  expect(at(10)).toBeLessThan(at(1));
  expect(at(1)).toBeLessThan(at(0.1));
  expect(at(1)).toBeCloseTo(0.5, 1);
});

test("what the batches leave over of a long SLO is shared, and not the last stage's alone", () => {
  const { ends } = planBudgets(spec(5_000, { x: [], y: ["x"] }), {
    stages: loads({ x: { latency: affine(0.1, 1) }, y: { latency: affine(0.1, 1), requests: 3 } }),
    finishMs: 0,
  });
  expect(ends.get("x")!).toBeCloseTo(0.5, 5);
});

test("a stage that gains nothing to speak of by more time leaves it to the others, who wait for its batches", () => {
  const at = (alpha: number, beta: number): number =>
    planBudgets(spec(300, { x: [], y: ["x"] }), {
      stages: loads({ x: { latency: affine(alpha, beta) }, y: { latency: affine(2, 9), requests: 0.1 } }),
      finishMs: 0,
    }).ends.get("x")!;
  expect(at(24, 10)).toBeLessThan(0.8);
  expect(at(8, 39)).toBeGreaterThan(0.84);
});

test("the split of C9.6 has nothing left over, and stays as it is", () => {
  const table = (latencies: readonly (readonly [number, number])[]): BatchLatency => ({
    batchSizes: latencies.map(([b]) => b),
    latency: (b) => latencies.find(([size]) => size === b)?.[1] ?? Infinity,
  });
  // Throughputs of 200, 250 and 300, and of 300, 400 and 500 requests a second, at latencies of 40, 50 and 60 ms.
  const x = table([
    [8, 40],
    [12.5, 50],
    [18, 60],
  ]);
  const y = table([
    [12, 40],
    [20, 50],
    [30, 60],
  ]);
  for (const [requests, end] of [
    [0.1, 0.6],
    [1, 0.5],
    [10, 0.4],
  ] as const) {
    const stages = loads({ x: { latency: x }, y: { latency: y, requests } });
    expect(planBudgets(spec(100, { x: [], y: ["x"] }), { stages, finishMs: 0 }).ends.get("x")).toBeCloseTo(end, 9);
  }
});

test("functions have their own time: a stage ends before the next one's function and model, and finish comes last", () => {
  const { ends } = planBudgets(
    { ...spec(200, { a: [], b: ["a"] }), split: "even" },
    { stages: loads({ a: { stepMs: 10 }, b: { stepMs: 20 } }), finishMs: 10 },
  );
  // 200 - 40 of functions leave 80 for each model.
  expect(ends.get("a")! * 200).toBeCloseTo(90);
  expect(ends.get("b")! * 200).toBeCloseTo(190);
});

test("functions that took longer than the SLO in a bad second leave the models half of it", () => {
  const { ends, budgetMs } = planBudgets(spec(100, { a: [] }), {
    stages: loads({ a: { stepMs: 900 } }),
    finishMs: 100,
  });
  expect(budgetMs.get("a")).toBeCloseTo(50);
  expect(ends.get("a")! * 100).toBeCloseTo(95);
});

test("an SLO that no batch fits into twice is divided for one batch, and one that none fits into evenly", () => {
  const query = spec(100, { x: [], y: ["x"] });
  const at = (beta: number) =>
    planBudgets(query, {
      stages: loads({ x: { latency: affine(1, beta) }, y: { latency: affine(1, beta) } }),
      finishMs: 0,
    });
  expect(at(10).split).toBe("planned");
  expect(at(40).split).toBe("planned");
  expect(at(60).split).toBe("even");
});

test("on every path the budgets and functions fit into the SLO, and each stage has room for its own (C10)", () => {
  const graphs = [
    { a: [] },
    { a: [], b: ["a"], c: ["b"] },
    { a: [], b: ["a"], c: ["a"], d: ["c"] },
    { a: [], b: ["a"], c: ["a"], d: ["b", "c"], e: ["d"] },
  ];
  const figures = fc.record({
    alpha: fc.double({ min: 0.1, max: 5, noNaN: true }),
    beta: fc.double({ min: 0.1, max: 60, noNaN: true }),
    requests: fc.double({ min: 0, max: 20, noNaN: true }),
    stepMs: fc.double({ min: 0, max: 30, noNaN: true }),
  });
  fc.assert(
    fc.property(
      fc.constantFrom(...graphs),
      fc.array(figures, { minLength: 5, maxLength: 5 }),
      fc.double({ min: 0, max: 40, noNaN: true }),
      fc.constantFrom<"planned" | "even">("planned", "even"),
      (graph, all, finishMs, split) => {
        const query = { ...spec(300, graph), split };
        const measured = new Map(
          query.stages.map(({ name }, i) => [
            name,
            { latency: affine(all[i]!.alpha, all[i]!.beta), requests: all[i]!.requests, stepMs: all[i]!.stepMs },
          ]),
        );
        const { ends, budgetMs } = planBudgets(query, { stages: measured, finishMs });
        for (const { name, after } of query.stages) {
          const end = ends.get(name)! * 300;
          expect(end).toBeLessThanOrEqual(300 + 1e-6);
          const begin = Math.max(0, ...after.map((one) => ends.get(one)! * 300));
          expect(end - begin).toBeGreaterThanOrEqual(budgetMs.get(name)! - 1e-6);
        }
        for (const [from, to] of edgesOf(query)) expect(ends.get(from)!).toBeLessThan(ends.get(to)!);
      },
    ),
    { numRuns: 100 },
  );
});
