/** Runs that mostly take half of what is planned: accelerators that are granted before they are free (RANK-8). */
import { readScenario } from "@tutti/sim-report/scenarios";
import { LatencyTable } from "@tutti/profile";
import { createRankThread } from "@tutti/scheduling";
import { type Scenario, simulate } from "@tutti/simulator";
import { type Micros, micros } from "@tutti/units";
import { afterEach, expect, test, vi } from "vitest";

afterEach(() => vi.restoreAllMocks());

/** As if all runs took as planned: no grant leaves earlier. */
function withoutLeads(scenario: Scenario) {
  const { early } = createRankThread({ epoch: 1, ctrl: 0 as Micros, gpusMax: 1 }).accelerators;
  const leadOf = vi.spyOn(Object.getPrototypeOf(early) as typeof early, "leadOf").mockReturnValue(0);
  const result = simulate(scenario);
  expect(leadOf).toHaveBeenCalled();
  leadOf.mockRestore();
  return result;
}

/** Plans of twice what runs take, such as those of a profile that was measured beside busy neighbours. */
function twiceAsPlanned(scenario: Scenario): Scenario {
  const models = scenario.models.map((model) => {
    const points = model.profile.toPoints().map((point) => ({ ...point, latency: micros(2 * point.latency) }));
    return { ...model, runs: model.profile, profile: LatencyTable.fromPoints(points) };
  });
  return { ...scenario, models };
}

// Several carry more together than so many times what one does.
test.for([
  [1, 4_500],
  [2, 9_000],
  [4, 18_800],
] as const)(
  "where runs end at half of what is planned, %i accelerators with large inputs lose at most a fifth of what they lose if none is granted earlier",
  async ([gpus, rate]) => {
    const overrides = { gpus, rate };
    const scenario = twiceAsPlanned(await readScenario(`${import.meta.dirname}/early-ends.yaml`, { overrides }));
    const [led, waiting] = [simulate(scenario), withoutLeads(scenario)];
    expect(waiting.badRate).toBeGreaterThan(0.02);
    expect(led.badRate).toBeLessThan(waiting.badRate / 5);
    expect(led.gpu.busyFraction).toBeGreaterThan(waiting.gpu.busyFraction);
  },
);
