import { LatencyTable } from "@tutti/profile";
import { type Scenario, simulate } from "@tutti/simulator";
import { type Micros, seconds } from "@tutti/units";
import { expect, test } from "vitest";
import { type AblationRow, SYSTEMS, clusterFor, combinations } from "./ablation.ts";
import { ablationSvg, nameOf, renderAblation } from "./ablation-text.ts";

const profile = LatencyTable.affine({ alpha: 1053, beta: 5072, batchSizeMax: 64 });
const scenarioOf = (shares: readonly number[], changes: Pick<Scenario, "gpus" | "rate">): Scenario => ({
  seed: 1,
  duration: seconds(2.2),
  warmup: seconds(0.2),
  policy: "default",
  gather: "target",
  arrivals: { process: "poisson" },
  network: { ctrl: 0 as Micros, data: 0 as Micros, respond: 0 as Micros, jitter: 0 },
  models: shares.map((share, i) => ({ name: `m${i}`, profile, slo: seconds(0.025), classes: [], share })),
  phases: [],
  ...changes,
});

test("everything on, each part off by itself, then one more at a time in the paper's order", () => {
  expect(combinations(["prefixes", "packing", "drop"])).toEqual([
    [],
    ["prefixes"],
    ["packing"],
    ["drop"],
    ["prefixes", "packing"],
    ["prefixes", "packing", "drop"],
  ]);
});

test.each(SYSTEMS)("%s without packing runs each of a few models on accelerators of its own", (system) => {
  const modelsOn = (off: "packing"[]): number[] => {
    const seen = new Map<number, Set<number>>();
    const listener = {
      dispatched: ({ gpu, model: which }: { gpu: number; model: number }) =>
        void seen.set(gpu, (seen.get(gpu) ?? new Set()).add(which)),
      refused: () => undefined,
      finished: () => undefined,
    };
    simulate(scenarioOf([0.5, 0.25, 0.25], { gpus: 5, rate: 1500 }), { listener, cluster: clusterFor(system, off) });
    return [...seen.values()].map((some) => some.size);
  };
  expect(Math.max(...modelsOn(["packing"]))).toBe(1);
  expect(Math.max(...modelsOn([]))).toBeGreaterThan(1);
});

test.each(SYSTEMS)("%s without early drop loses more requests once it is overloaded", (system) => {
  const scenario = scenarioOf([1], { gpus: 1, rate: 700 });
  const badRate = (off: "drop"[]): number => simulate(scenario, { cluster: clusterFor(system, off) }).badRate;
  expect(badRate(["drop"])).toBeGreaterThan(badRate([]) + 0.02);
});

test("tables and bars have a row for each combination", () => {
  const rows = combinations(["packing", "drop", "overlap", "split"]).map((off, i): AblationRow => {
    return { study: "traffic, quiet", off, fps: { nexus: 500 - i, default: 600 - i } };
  });
  const text = renderAblation(rows, [1]);
  expect(text.match(/^\| without /gm)).toHaveLength(rows.length - 1);
  expect(text).toContain("| without early drop | 498 | −0.4 % | 598 | −0.3 % |");
  expect(ablationSvg(rows).match(/<rect /g)).toHaveLength(1 + 2 * rows.length);
  expect(nameOf(["packing", "drop"])).toBe("without packing, early drop");
});
