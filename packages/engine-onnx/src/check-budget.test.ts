import type { ModelSpec, Tensor } from "@tutti/protocol";
import { millis } from "@tutti/units";
import { afterEach, expect, test, vi } from "vitest";
import { CheckBudget, type Run } from "./check-budget.ts";
import { paddingDifference } from "./padding-check.ts";
import { rowInfluence } from "./row-check.ts";

let now = 0n;
vi.spyOn(process.hrtime, "bigint").mockImplementation(() => now);
/** Processor time of this process, as long as it is the only one on its host. */
let stoppedFor = 0n;
vi.spyOn(process, "cpuUsage").mockImplementation((before) => {
  const user = Number((now - stoppedFor) / 1000n) - (before?.user ?? 0);
  return { user, system: 0 };
});
afterEach(() => void (now = stoppedFor = 0n));

const SPEC = {
  ...{ name: "m", batchSizeMax: 4, axes: { A: { mode: "pad", sizes: [8] } }, buckets: [{}] },
  inputs: [{ name: "x", type: "FP32", dims: ["batch", "A"] }],
  outputs: [{ name: "y", type: "FP32", dims: ["batch", "one"] }],
} as unknown as ModelSpec;

/** A sum over all elements, so that a row depends on its padding and on the other rows, in runs that take so long. */
function slowly(seconds: number) {
  const runs: number[] = [];
  const run: Run = async ([x], rows): Promise<Tensor[]> => {
    runs.push(rows);
    now += BigInt(seconds * 1e9);
    const given = new Float32Array(x!.data.buffer, x!.data.byteOffset, x!.data.byteLength / 4);
    const mean = given.reduce((sum, value) => sum + value, 0) / given.length;
    const values = new Float32Array(rows).fill(mean);
    return [{ name: "y", type: "FP32", dims: [rows, 1], data: new Uint8Array(values.buffer) }];
  };
  return { run: new CheckBudget().bound(run), runs };
}
const tryRows = (run: Run) => rowInfluence({ spec: SPEC, bytes: new Uint8Array(), provider: "cpu" }, run);

test("a row that takes longer than a load costs one run, and is not judged, by all checks together", async () => {
  const { run, runs } = slowly(12);
  expect([await paddingDifference(SPEC, run), await tryRows(run), runs]).toEqual([undefined, undefined, [1]]);
  const rows = slowly(12);
  expect([await tryRows(rows.run), rows.runs]).toEqual([undefined, [1]]);
});

test("rows that take seconds are judged by their padding within the budget, and by no more runs after it", async () => {
  const { run, runs } = slowly(2.5);
  expect(await paddingDifference(SPEC, run)).toMatch("padding changes what it answers");
  expect([await tryRows(run), runs]).toEqual([undefined, [1, 1, 1, 1]]);
});

test("a run that fails counts too", async () => {
  const run = new CheckBudget().bound(() => {
    now += 9_000_000_000n;
    return Promise.reject(new Error("no"));
  });
  await expect(run([], 1)).rejects.toThrow("no");
  await expect(run([], 1)).rejects.toThrow("the time for checks is spent");
});

/** @param stopped - so many of the seconds others had the processors, or the process was stopped */
async function slownessOf(
  seconds: number,
  { rows = 1, stopped = 0, ...spec }: { rows?: number; stopped?: number } & Parameters<CheckBudget["slownessUnder"]>[0],
): Promise<string | undefined> {
  const budget = new CheckBudget();
  const run = budget.bound(() => {
    now += BigInt(seconds * 1e9);
    stoppedFor += BigInt(stopped * 1e9);
    return Promise.resolve([]);
  });
  await run([], rows);
  return budget.slownessUnder(spec);
}

test("a row that would outlast the deadline of a first run makes its model too slow for its SLO, a batch does not", async () => {
  const slo = millis(100);
  expect(await slownessOf(9, { slo })).toMatch(/^a run of one row took 9 s, .* SLO of 100 ms .* larger SLO/);
  expect([await slownessOf(8.25, { slo }), await slownessOf(9, { slo, rows: 2 })]).toEqual([undefined, undefined]);
});

test.each([
  [5, 28],
  [10, 28],
  [20, 38],
  [60, 118],
])("under an SLO of %i s rows of up to %i s are measured", async (slo, longest) => {
  const spec = { slo: millis(slo * 1_000) };
  expect(await slownessOf(longest, spec)).toBe(undefined);
  expect(await slownessOf(longest + 0.5, spec)).toContain("does not allow");
});

test("a row is not slow for the time in which its host ran others, nor one whose model announces long runs", async () => {
  const slo = millis(100);
  expect(await slownessOf(60, { slo, stopped: 58 })).toBe(undefined);
  expect(await slownessOf(60, { slo, stopped: 50 })).toContain("took 10 s");
  expect(await slownessOf(60, { slo, runDeadline: millis(90_000) })).toBe(undefined);
});
