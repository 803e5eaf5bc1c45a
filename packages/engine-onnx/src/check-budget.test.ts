import type { ModelSpec, Tensor } from "@tutti/protocol";
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
