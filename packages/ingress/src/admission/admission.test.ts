import type { Delivery } from "@tutti/ports/bus";
import { type BucketRunTimes, HEADER, type ModelStatus } from "@tutti/protocol";
import { type Instant, after, instant, micros, millis } from "@tutti/units";
import { expect, test } from "vitest";
import type { CatalogModel } from "@tutti/actors/runtime";
import {
  checkFeasible,
  checkNames,
  checkWanted,
  readForm,
  readPriority,
  readSizeHint,
  readTiming,
} from "./admission.ts";
import { readIsJob } from "./job-admission.ts";
import type { TermsError } from "../requests/terms-error.ts";

const AT = instant(1_000_000_000);

/**
 * Checks a model whose l(1) is planned with 100 ms, while its shortest requests took 7 ms.
 *
 * @returns the error's code and what would have been feasible, ms
 */
function refusalOf(
  kind: BucketRunTimes["kind"],
  slo: number,
  more: Partial<ModelStatus> = {},
  deadline: Instant = after(AT, millis(slo)),
): readonly [string | undefined, number] {
  const pool = { app: 0, name: "", share: 0, samples: 50, mean: 50_000, p50: 60_000, p99: 100_000 };
  const times = { kind, apps: [], pool: { ...pool, edges: [7_000, 100_000], masses: [1] }, costs: [], costSamples: 0 };
  const model = {
    spec: { name: "m", axes: {} },
    status: { profiles: [[{ batchSize: 1, latency: millis(100) }]], ...more },
    times: { buckets: [times] },
  } as unknown as CatalogModel;
  const request = { model, lastDeadline: deadline, lastSlo: millis(slo), feasible: micros(0) };
  try {
    checkFeasible(request, { bucket: 0, units: 0 }, AT, micros(500));
    return [undefined, request.feasible];
  } catch (error) {
    return [(error as { code: string }).code, request.feasible / 1_000];
  }
}

test("a deadline that had passed on arrival is told apart, and the time that would be feasible isn't counted from it", () => {
  expect(refusalOf("static", 0, {}, instant(1))).toEqual(["TUTTI_DEADLINE_INFEASIBLE", 100.5]);
});

test("a deadline that the shortest requests can meet is no reason to refuse where times vary (T3)", () => {
  expect(refusalOf("dynamic", 40)).toEqual([undefined, 0]);
  expect(refusalOf("dynamic", 7)).toEqual(["TUTTI_DEADLINE_INFEASIBLE", 7.5]);
});

test("where they hardly vary, what is planned with counts", () => {
  expect(refusalOf("static", 40)).toEqual(["TUTTI_DEADLINE_INFEASIBLE", 100.5]);
  expect(refusalOf("unknown", 40)).toEqual(["TUTTI_DEADLINE_INFEASIBLE", 100.5]);
  expect(refusalOf("static", 110)).toEqual([undefined, 0]);
});

test("where types are unlike, the fastest that serves counts, and none that has left", () => {
  const slow = { type: "slow", profiles: [[{ batchSize: 1, latency: millis(100) }]], means: [] };
  const fast = { type: "fast", profiles: [[{ batchSize: 1, latency: millis(20) }]], means: [] };
  const byType = [slow, fast];
  expect(refusalOf("static", 40, { byType, executorTypes: ["slow", "fast"] })).toEqual([undefined, 0]);
  expect(refusalOf("static", 40, { byType, executorTypes: ["slow"] })).toEqual(["TUTTI_DEADLINE_INFEASIBLE", 100.5]);
  const now = { ...fast, live: [[{ batchSize: 1, latency: millis(50) }]] };
  const drifted = { byType: [slow, now], executorTypes: ["slow", "fast"] };
  expect(refusalOf("static", 40, drifted)).toEqual(["TUTTI_DEADLINE_INFEASIBLE", 50.5]);
});

const SECRET = "s3cret";
const withHeaders = (headers: Readonly<Record<string, string>>): Delivery =>
  ({ payload: new TextEncoder().encode("x"), header: (name: string) => headers[name] }) as unknown as Delivery;
const timing = (delivery: Delivery): unknown => readTiming(delivery, millis(25), AT);

test.each([
  [HEADER.slo, timing],
  [HEADER.deadline, timing],
  [HEADER.costs, timing],
  [HEADER.contentType, readForm],
  [HEADER.priority, readPriority],
  [HEADER.size, readSizeHint],
  [HEADER.job, readIsJob],
])("a wrong %s is quoted to its publisher, and told to others without its value (REFUSALS-4)", (header, read) => {
  const error = thrownBy(() => read(withHeaders({ [header]: SECRET })));
  expect(error.message).toContain(`${header} "${SECRET}"`);
  expect(error.outline).toMatch(new RegExp(`^${header} is n`));
  expect(error.outline).not.toContain(SECRET);
});

test("a name or an output that nobody has is told to others without it (REFUSALS-4)", () => {
  const model = { spec: { name: "m", outputs: [{ name: "y" }] } } as unknown as CatalogModel;
  const checks = [() => checkNames({ target: `${SECRET}!`, app: "shop" }), () => checkWanted([SECRET], model)];
  for (const error of checks.map(thrownBy)) {
    expect(error.message).toContain(SECRET);
    expect(error.outline).not.toContain(SECRET);
  }
});

function thrownBy(run: () => unknown): TermsError {
  try {
    run();
  } catch (error) {
    return error as TermsError;
  }
  throw new Error("nothing was refused");
}
