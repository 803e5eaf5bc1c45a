import type { ModelSpec, Tensor } from "@tutti/protocol";
import { type Micros, millis } from "@tutti/units";
import { afterEach, expect, test, vi } from "vitest";
import { CheckBudget, type Run } from "./check-budget.ts";
import { paddingDifference } from "./padding-check.ts";
import { rowInfluence } from "./row-check.ts";

let now = 0n;
vi.spyOn(process.hrtime, "bigint").mockImplementation(() => now);
afterEach(() => void (now = 0n));

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

test("a row that would outlast the deadline of a first run makes its model too slow for its SLO, a batch does not", async () => {
  const slownessOf = async (seconds: number, rows: number, slo: Micros): Promise<string | undefined> => {
    const budget = new CheckBudget();
    const run = budget.bound(() => {
      now += BigInt(seconds * 1e9);
      return Promise.resolve([]);
    });
    await run([], rows);
    return budget.slownessUnder({ slo });
  };
  expect(await slownessOf(9, 1, millis(100))).toMatch(/^a run of one row took 9 s, .* SLO of 100 ms .* larger SLO/);
  expect([await slownessOf(8.25, 1, millis(100)), await slownessOf(9, 2, millis(100))]).toEqual([undefined, undefined]);
  expect(await slownessOf(40, 1, millis(10_000))).toBe(undefined);
});
