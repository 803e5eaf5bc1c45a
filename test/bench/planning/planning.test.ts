/** `npm run bench:planning` counts what docs/algorithms.md, D6 counts, and keeps E's promises. */
import { execFile } from "node:child_process";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import { type Partitioning, packing, placing } from "./measurements.ts";
import { quantile, renderPlanning } from "./planning-text.ts";

test("of the 19,682 scenarios as many fit on one and on two accelerators as D6.4 says, by every way", async () => {
  // The measurement has a process of its own: as transformed for tests, the same code takes six times as long.
  const args = [join(import.meta.dirname, "main.ts"), "--json", "--only", "fractions", "--executors", "2"];
  const { stdout } = await promisify(execFile)(process.execPath, args);
  const { scenarios, byExecutors } = (JSON.parse(stdout) as { fractions: Partitioning }).fractions;
  expect(scenarios).toBe(19_682);
  const counts = byExecutors.map(({ fits }) => [
    ...[fits.whole, fits.halves, fits.elastic, fits.elasticBeside, fits.portfolio, fits.portfolioBeside],
  ]);
  expect(counts).toEqual([
    [32, 143, 224, 172, 227, 198],
    [298, 2216, 3172, 1850, 3999, 3661],
  ]);
});

test("budgets are never exceeded, searching beats greedy, and an epoch loads less than packing anew", () => {
  const subClusters = placing({ seconds: 0.5, draws: 2 });
  for (const { search, greedy, models } of subClusters.first)
    expect([models, search! < greedy!]).toEqual([models, true]);
  for (const { spent } of subClusters.afterDrift) expect(spent).toBeLessThanOrEqual(1 + 1e-9);
  const [random, , search] = subClusters.imbalance;
  for (const what of ["rate", "memory"] as const)
    expect(quantile(search![what], 0.5)).toBeLessThan(quantile(random![what], 0.5));
  const packed = packing();
  expect(packed.nodes).toBeGreaterThanOrEqual(packed.work);
  expect(packed.epoch.loads).toBeLessThan(packed.loadsAnew);
  expect(renderPlanning({ subClusters, packing: packed })).toMatch(/^ +800 +20 +infeasible/m);
});
