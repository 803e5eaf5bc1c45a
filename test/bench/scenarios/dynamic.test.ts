/**
 * The default policy where running times depend on requests, on a seed that nothing was tuned on. `tutti figures
 * --dynamic` draws the whole comparison.
 */
import { readScenario } from "@tutti/sim-report/scenarios";
import { simulate } from "@tutti/simulator";
import { expect, test } from "vitest";

const SEED = 202;
const DURATION_S = 305;
const BESIDE = ["default", "orloj", "knows-lengths"];

/** Shares of requests that end in time, by policy on the same arrivals. */
async function finishRates(
  family: string,
  choice: Readonly<Record<string, string>>,
  policies: readonly string[],
): Promise<readonly number[]> {
  const overrides = { seed: SEED, durationS: DURATION_S };
  const scenario = await readScenario(`${import.meta.dirname}/${family}.yaml`, { choice, overrides });
  return policies.map((policy) => 1 - simulate({ ...scenario, policy }).badRate);
}
const modes = (count: number, sloP99: number, hints = "none") => ({
  ...{ modes: String(count), sloP99: String(sloP99), hints, costs: "separating" },
});

test.each([
  { count: 3, sloP99: 1.5, least: 0.78 },
  { count: 3, sloP99: 3, least: 0.88 },
  { count: 3, sloP99: 5, least: 0.88 },
  { count: 8, sloP99: 1.5, least: 0.765 },
  { count: 8, sloP99: 3, least: 0.87 },
  { count: 8, sloP99: 5, least: 0.87 },
])(
  "of $count kinds of requests at 1.3 of one accelerator's capacity $least end within $sloP99 × P99, and more with size hints than a greedy one ends that knows the lengths",
  async ({ count, sloP99, least }) => {
    const [own, literal, greedy] = await finishRates("dynamic-modes", modes(count, sloP99), BESIDE);
    expect(own).toBeGreaterThanOrEqual(least);
    expect(own).toBeGreaterThan(literal!);
    const [hinted] = await finishRates("dynamic-modes", modes(count, sloP99, "exact"), ["default"]);
    expect(hinted).toBeGreaterThan(greedy!);
  },
);

test("of one kind of requests as many end in time as with a greedy one that knows the lengths, but for 1 %, and as with Orloj's algorithm as printed", async () => {
  for (const sloP99 of [1.5, 3, 5]) {
    const [own, literal, greedy] = await finishRates("dynamic-modes", modes(1, sloP99), BESIDE);
    expect(own).toBeGreaterThan(greedy! - 0.01);
    expect(own).toBeGreaterThan(literal! - 0.002);
  }
});

test("on real tasks in one application the default is at most 0.01 below Orloj's algorithm as printed", async () => {
  for (const task of ["blenderbot-cornell", "bart-cnn", "t5-cnn"])
    for (const costs of ["separating", "batching"])
      for (const sloP99 of ["2", "4"]) {
        const [own, literal] = await finishRates("dynamic-tasks", { task, costs, sloP99 }, ["default", "orloj"]);
        expect(own).toBeGreaterThan(literal! - 0.01);
      }
});
