import { readdirSync } from "node:fs";
import { join } from "node:path";
import { ScenarioFile, choicesOf } from "@tutti/sim-report/scenarios";
import { type Scenario, simulate, subClusterChoice } from "@tutti/simulator";
import { type Micros, seconds } from "@tutti/units";
import { expect, test } from "vitest";

const files = readdirSync(import.meta.dirname).filter((name) => name.endsWith(".yaml"));
const MEMBERS_READ_MAX = 200;

test.each(files)(
  "%s can be read, every member of a family has its own workload, and one of them runs",
  async (name) => {
    const file = await ScenarioFile.read(join(import.meta.dirname, name));
    const choices = [...choicesOf(file.axes)];
    const step = Math.ceil(choices.length / MEMBERS_READ_MAX);
    const read: Scenario[] = [];
    for (let i = 0; i < choices.length; i += step) read.push(await file.scenario({ choice: choices[i]! }));
    for (const scenario of read) {
      const targets = [...scenario.models, ...(scenario.pipelines ?? [])];
      expect(targets.reduce((sum, { share }) => sum + share, 0)).toBeCloseTo(1, 9);
      for (const { profile, slo } of scenario.models) expect(profile.latency(1)).toBeLessThan(slo);
    }
    expect(new Set(read.map(textOf)).size).toBe(read.length);
    const short = { ...read[0]!, duration: seconds(0.3), warmup: 0 as Micros, rate: Math.min(read[0]!.rate, 20_000) };
    expect(simulate(short).offeredRps).toBeGreaterThan(0);
  },
);

test("the papers' workloads are there: members of each family as the papers count them", async () => {
  const membersOf = async (name: string): Promise<number> =>
    [...choicesOf((await ScenarioFile.read(join(import.meta.dirname, name))).axes)].length;
  expect(await membersOf("figure6a.yaml")).toBe(15);
  expect(await membersOf("figure11.yaml")).toBe(8 * 2 * 2);
  // As Table 1 is printed; the paper counts 5,880 = 7 kinds of models × 7 ratios × 5 SLOs × 24, and doesn't say which
  // 24 of the 36 pairs of number and burstiness.
  expect(await membersOf("table1-grid.yaml")).toBe(6 * 6 * 7 * 5 * 6);
  expect(await membersOf("table1-mixed.yaml")).toBe(7 * 6);
});

test("a division of these workloads is refused where it would carry less than nine tenths, and what is demanded is used", async () => {
  const usedOf = async (name: string, workload: string, subClusters: string): Promise<number> => {
    const file = await ScenarioFile.read(join(import.meta.dirname, `${name}.yaml`));
    return subClusterChoice(await file.scenario({ choice: { workload, subClusters } }))!.used;
  };
  const compared = (workload: string) => (subClusters: string) => usedOf("policies-compared", workload, subClusters);
  // Measured goodput of 2, 4 and 8, as shares of 1's: 0.87, 0.50 and 0.60 of light; 0.96, 0.91 and 0.85 of equal.
  expect(await Promise.all(["2", "4", "8"].map(compared("light")))).toEqual([1, 1, 1]);
  expect(await Promise.all(["2-all", "4-all", "8-all"].map(compared("light")))).toEqual([2, 4, 8]);
  expect(await Promise.all(["2", "4", "8"].map(compared("equal")))).toEqual([2, 1, 1]);
  // 0.74 of the one whose popularity moves on, 0.92 of the one that batches weakly.
  expect(await Promise.all(["changing", "mixed"].map((workload) => compared(workload)("2")))).toEqual([1, 2]);
  expect(await usedOf("policies-few-accelerators", "few", "4")).toBe(1);
});

const textOf = ({ models, ...rest }: Scenario): string =>
  JSON.stringify([rest, models.map(({ profile, ...model }) => [model, profile.latency(1), profile.alpha])]);
