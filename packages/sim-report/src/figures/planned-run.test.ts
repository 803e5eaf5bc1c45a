import { LatencyTable } from "@tutti/profile";
import type { Scenario, ScenarioModel } from "@tutti/simulator";
import { type Micros, micros, seconds } from "@tutti/units";
import { expect, test } from "vitest";
import { toSvg } from "../svg.ts";
import type { Bench, Point } from "./figure.ts";
import { FIGURES, QUICK } from "./index.ts";
import { plannedRun } from "./planned-run.ts";

const none = 0 as Micros;
const model = (name: string): ScenarioModel => ({
  name,
  profile: LatencyTable.affine({ alpha: 1053, beta: 5072, batchSizeMax: 32 }),
  ...{ slo: micros(25_000), classes: [], share: 0.5 },
});
const SCENARIO: Scenario = {
  ...{ seed: 1, policy: "default", rate: 1500, gpus: 12, gather: "target", warmup: none },
  duration: seconds(6),
  arrivals: { process: "poisson" },
  network: { ctrl: none, data: none, respond: none, jitter: 0 },
  models: [model("a"), model("b")],
  phases: [{ from: seconds(3), factor: 3 }],
  planner: { epoch: seconds(1), startup: micros(100_000), gpusMin: 1, gpusStart: 12, rule: "work" },
};

test("good requests of the models come to those of each epoch, and the bound has a phase for each change", () => {
  const { result, goodByModel, least, gpusMax } = plannedRun(SCENARIO);
  const windows = result.planner!.windows;
  expect(windows).toHaveLength(6);
  for (const [i, { goodRps }] of windows.entries()) {
    expect(goodByModel.reduce((sum, one) => sum + one.goodRps[i]!, 0)).toBeCloseTo(goodRps, 6);
  }
  expect(goodByModel.map(({ name }) => name)).toEqual(["a", "b"]);
  expect(least.map(({ from, until }) => [from / 1e6, until / 1e6])).toEqual([
    [0, 3],
    [3, 6],
  ]);
  expect(least[1]!.gpus / least[0]!.gpus).toBeCloseTo(3, 0);
  expect(gpusMax).toBe(12);
});

test("a real run with a planner is drawn in one picture", async () => {
  const bench = { planned: (points: readonly Point[]) => Promise.resolve(points.map(() => plannedRun(SCENARIO))) };
  const figure = FIGURES.find(({ name }) => name === "changing-day")!;
  const { charts, rows } = await figure.draw(bench as unknown as Bench, QUICK);
  expect(charts).toHaveLength(1);
  const svg = toSvg(charts[0]!.option, charts[0]!.size);
  for (const name of ["requests per second", "accelerators", "advice", "bad (%)"]) expect(svg).toContain(name);
  expect(svg).not.toMatch(/NaN|undefined/);
  const [used, worst] = rows.map(({ ours }) => ours!);
  expect(used).toBeGreaterThan(1);
  expect(used).toBeLessThan(2);
  expect(worst).toBeLessThan(1);
});
