import { gpuId, instant } from "@tutti/units";
import fc from "fast-check";
import { expect, test } from "vitest";
import { type PlanReport, REPORTED_MAX, isPlanReport } from "./plan-report.ts";

const report: PlanReport = {
  at: instant(1),
  epoch: 3,
  subClusters: [{ subCluster: "main", rate: 1.5, work: 0.2, memoryBytes: 100, gpus: 1, gpusIdeal: 1 }],
  models: [{ number: 7, name: "mlp", rate: 1.5, work: 0.2, memoryBytes: 100 }],
  executors: [{ gpus: [gpuId(0)], subCluster: "main", memoryBytes: 100, models: 1 }],
  waiting: [{ number: 7, to: "b" }],
  leftOut: [{ number: 8, text: "it needs 5 GB" }],
  reasons: [{ at: instant(1), about: "mlp", text: "is placed in main" }],
  advice: { gpus: 1, advice: -1, badRate: 0, idleShare: 0.9 },
};

test("a report is believed as the planner writes it", () => {
  expect(isPlanReport(JSON.parse(JSON.stringify(report)))).toBe(true);
});

test("a report with anything out of place is not believed", () => {
  const item = { number: 1, to: "b" };
  for (const bad of [
    ...[undefined, null, 1, [], {}],
    { ...report, at: -1 },
    { ...report, epoch: 1.5 },
    { ...report, subClusters: [{ ...report.subClusters[0]!, subCluster: "a.b" }] },
    { ...report, subClusters: [{ ...report.subClusters[0]!, rate: -1 }] },
    { ...report, models: [{ ...report.models[0]!, number: -1 }] },
    { ...report, models: [{ ...report.models[0]!, name: "m".repeat(65) }] },
    { ...report, executors: [{ ...report.executors[0]!, gpus: [70_000] }] },
    { ...report, executors: [{ ...report.executors[0]!, memoryBytesMax: "4GB" }] },
    { ...report, waiting: Array.from({ length: REPORTED_MAX + 1 }, () => item) },
    { ...report, leftOut: [null] },
    { ...report, reasons: [{ at: 1, about: "x", text: 1 }] },
    { ...report, advice: { ...report.advice, advice: NaN } },
  ])
    expect(isPlanReport(bad)).toBe(false);
});

test("whatever stands there, looking at it throws nothing", () => {
  fc.assert(fc.property(fc.anything(), (value) => typeof isPlanReport(value) === "boolean"));
  const keys = Object.keys(report) as (keyof PlanReport)[];
  fc.assert(
    fc.property(fc.constantFrom(...keys), fc.anything(), (key, value) => {
      expect(typeof isPlanReport({ ...report, [key]: value })).toBe("boolean");
    }),
  );
});
