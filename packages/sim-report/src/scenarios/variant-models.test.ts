import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type Scenario, simulate } from "@tutti/simulator";
import { afterAll, expect, test } from "vitest";
import { readScenario } from "./scenario-file.ts";

const folder = mkdtempSync(join(tmpdir(), "tutti-variants-"));
afterAll(() => rmSync(folder, { recursive: true }));

function read(variants: string, more = ""): Promise<Scenario> {
  const path = join(folder, "s.yaml");
  const model = `{ name: r, alphaMs: 1, betaMs: 5, sloMs: 100, ${more} variants: ${variants} }`;
  writeFileSync(path, `durationS: 10\ngpus: 1\nrate: 600\nmodels:\n  - ${model}\n`);
  return readScenario(path, {});
}

test("variants served together are one stream with C7's latency, apart one stream each with the whole model's", async () => {
  const { models: together } = await read("{ count: 4, alphaMs: 0.1, betaMs: 0.5 }");
  expect(together.map(({ name }) => name)).toEqual(["r"]);
  // Three rows are of three variants at most; eight are of all four, two each.
  expect([1, 3, 8].map((b) => together[0]!.profile.byBatchSize[b])).toEqual([6_600, 9_800, 8_000 + 5_000 + 4 * 700]);
  const { models: apart } = await read("{ count: 4, alphaMs: 0.1, betaMs: 0.5, served: apart }");
  expect(apart.map(({ name }) => name)).toEqual(["r-1", "r-2", "r-3", "r-4"]);
  expect(apart[0]!.profile.byBatchSize[8]).toBe(8_800 + 5_500);
});

test("ten variants that one accelerator can't carry apart are carried together", async () => {
  const badRate = async (served: string): Promise<number> => {
    const result = simulate(await read(`{ count: 10, alphaMs: 0.02, betaMs: 0.1, served: ${served} }`));
    return result.badRate;
  };
  expect(await badRate("together")).toBeLessThan(0.01);
  expect(await badRate("apart")).toBeGreaterThan(0.1);
});

test("what variants can't have is named", async () => {
  await expect(read("{ count: 4, alphaMs: 0.1, betaMs: 0.5 }", "fills: 0.5,")).rejects.toThrow(/fills.*variants/s);
  await expect(read("{ count: 0, alphaMs: 0.1, betaMs: 0.5 }")).rejects.toThrow(/count/);
  await expect(read("{ count: 2, alphaMs: 0.1 }")).rejects.toThrow(/betaMs/);
});
