/** The shipped inputs of `tutti plan query`, with the figures of docs/algorithms.md, C9, 6 and 7. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { explainQuery, readQueryInput, renderQuery, runQuery } from "@tutti/cli/plans";
import { afterAll, expect, test } from "vitest";

const folder = mkdtempSync(join(tmpdir(), "tutti-plan-query-"));
afterAll(() => rmSync(folder, { recursive: true }));

async function split(path: string, ...settings: string[]) {
  const input = await readQueryInput(path, settings);
  const result = runQuery(input);
  const stages = result.planned?.stages.map(({ stage, budgetMs, batchSize }) => `${stage} ${budgetMs} (${batchSize})`);
  return { result, stages: stages?.join(", "), text: renderQuery(result), reasons: explainQuery(input, result) };
}
const shipped = (name: string): string => join(import.meta.dirname, `${name}.yaml`);

test.for([
  ["0.1", "X 120 (36), Y 80 (24)", 3.6667],
  ["1", "X 100 (25), Y 100 (40)", 6.5],
  ["10", "X 80 (16), Y 120 (60)", 25],
] as const)("C9, 6: with a fan-out of %s the split is %s", async ([fanOut, stages, executors]) => {
  const { result, stages: found } = await split(shipped("c9-split"), `fanOut=${fanOut}`);
  expect(found).toBe(stages);
  expect(result.planned?.executors).toBeCloseTo(executors, 4);
  // With equal shares both have batches of 100 ms: 1000/250 and 1000·γ/400.
  expect(result.even?.executors).toBeCloseTo(4 + 2.5 * Number(fanOut), 9);
});

test.for([
  ["1", "1", 0.916704, "S 52 (21), A 35 (23), B 35 (58), J 13 (25)"],
  ["2", "1", 1.253736, "S 48 (7), A 38 (7), B 38 (26), J 14 (10)"],
  ["1", "5", 0.917466, undefined],
] as const)("C9, 7: a fork-join with φ = %s and ε = %s takes %f executors", async ([fits, step, executors, stages]) => {
  const found = await split(shipped("c9-fork-join"), `fits=${fits}`, `stepMs=${step}`);
  expect(found.result.planned?.executors).toBeCloseTo(executors, 6);
  if (stages !== undefined) expect(found.stages).toBe(stages);
});

test("the table stands beside the even split, and every stage has its reason", async () => {
  const { text, reasons } = await split(shipped("c9-split"), "fanOut=10");
  expect(text).toMatch(/^1,000 queries a second within 200 ms take 25 executors; 29 in equal parts\n/);
  expect(text).toMatch(/^Y +10,000 r\/s +120 ms +60 +20 +100 ms +40 +25$/m);
  expect(reasons).toEqual([
    "X (1,000 r/s): 80 ms: a batch of 16 takes 80 ms and fits in (C5); 5 executors carry it, 20 % of all. That is 1 executors more than with 100 ms and 25 requests a batch, which others save more than.",
    "Y (10,000 r/s): 120 ms: a batch of 60 takes 120 ms and fits in (C5); 20 executors carry it, 80 % of all. That is 5 executors fewer than with 100 ms and 40 requests a batch.",
  ]);
});

const written = (name: string, text: string): string => {
  const path = join(folder, name);
  writeFileSync(path, text);
  return path;
};
const stage = (name: string, after = "[]"): string => `  - { name: ${name}, after: ${after}, alphaMs: 1, betaMs: 5 }\n`;

test("an SLO that is too short for any split is said to be, and why", async () => {
  const path = written("short.yaml", `sloMs: 20\nrate: 10\nstages:\n${stage("a")}${stage("b", "[a]")}`);
  const { result, text, reasons } = await split(path);
  expect(result).toMatchObject({ feasible: false, planned: undefined });
  expect(text).toBe("No split of 20 ms gives every stage the time for two batches of one.");
  expect(reasons[0]).toBe("a (10 r/s): even its smallest batch takes 6 ms, and needs 12 of the 20 ms.");
});

test.for([
  ["no stage is called c", stage("a") + stage("b", "[c]")],
  ["2 stages are fed by no other", stage("a") + stage("b")],
  [
    "the graph is not series–parallel",
    stage("a") +
      stage("b", "[a]") +
      stage("c", "[a]") +
      stage("d", "[a]") +
      stage("e", "[b, c]") +
      stage("f", "[c, d]"),
  ],
  [`there are two stages "a"`, stage("a") + stage("a", "[a]")],
] as const)("a query is refused where %s", async ([text, stages]) => {
  const path = written("bad.yaml", `sloMs: 100\nrate: 10\nstages:\n${stages}`);
  await expect(readQueryInput(path)).rejects.toThrow(text);
});
