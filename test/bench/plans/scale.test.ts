/**
 * The shipped forecast of `tutti plan scale`. It has the advice of docs/algorithms.md, A8, closed over the simulator,
 * with and without asking it.
 */
import { join } from "node:path";
import { explainScale, readScaleInput, renderScale, runScale } from "@tutti/cli/plans";
import { type DetailedRun, type Scenario, simulateDetailed } from "@tutti/simulator";
import { expect, test } from "vitest";

/** Simulations run on this thread. */
const tools = {
  run: (scenario: Scenario): Promise<DetailedRun> => Promise.resolve(simulateDetailed(scenario)),
  onStep: () => undefined,
};

async function scaled(ask: "simulator" | "nobody") {
  const input = await readScaleInput(join(import.meta.dirname, "scale-steps.yaml"), [`ask=${ask}`]);
  const result = await runScale(input, tools);
  return { input, result, text: renderScale(input, result), reasons: explainScale(input, result) };
}

test("where the simulator is asked, accelerators are there before the load is, and one less wouldn't do", async () => {
  const { result, text, reasons } = await scaled("simulator");
  expect(result.feasible).toBe(true);
  for (const { gpus, fewest, badRate, oneLess } of result.windows) {
    expect(badRate).toBeLessThan(0.01);
    expect(gpus).toBeGreaterThanOrEqual(fewest!);
    if (oneLess !== null) expect(oneLess).toBeGreaterThan(0.01);
  }
  // Accelerators beyond the fewest stay for two windows at most, before they are given back, and for one before a step.
  const excess = result.windows.filter(({ gpus, fewest }) => gpus > fewest!);
  expect(excess.length).toBeLessThanOrEqual(2);
  expect(text).toContain("one less");
  expect(reasons[1]).toContain("The 5,000 r/s that are forecast next need");
  expect(reasons[6]).toContain("It is the last of 2 windows in a row that offered some");
});

test("where nobody is asked, the window of a step is bad, and what A8 asks for then is enough", async () => {
  const { result, reasons } = await scaled("nobody");
  expect(result.windows.map(({ badRate }) => badRate > 0.01)).toEqual(result.windows.map(({ window }) => window === 2));
  const step = result.windows[2]!;
  expect(step.advice).toBe(Math.ceil((step.gpus * step.badRate) / (1 - step.badRate) - 1e-9));
  expect(reasons[2]).toContain("They are started at once");
  expect(result.windows.at(-1)!.gpus).toBe(result.windows[0]!.gpus);
});
