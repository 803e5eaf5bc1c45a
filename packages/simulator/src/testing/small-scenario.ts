/**
 * A scenario for the tests of this package: the first model of the paper's table 2 on 8 accelerators, 2 s after 0.2 s
 * of warm-up.
 */
import { LatencyTable } from "@tutti/profile";
import { type Micros, micros, millis } from "@tutti/units";
import type { Scenario, ScenarioModel } from "../scenario/scenario.ts";

export const RESNET50 = LatencyTable.affine({ alpha: 1053, beta: 5072, batchSizeMax: 64 });

export const model = (name: string, share: number, changes: Partial<ScenarioModel> = {}): ScenarioModel => ({
  name,
  profile: RESNET50,
  slo: millis(25),
  classes: [],
  share,
  ...changes,
});

export const NO_DELAYS = { ctrl: 0 as Micros, data: 0 as Micros, respond: 0 as Micros, jitter: 0 };

export function smallScenario(changes: Partial<Scenario> = {}): Scenario {
  return {
    seed: 1,
    duration: micros(2_200_000),
    warmup: micros(200_000),
    gpus: 8,
    policy: "deferred",
    gather: "target",
    rate: 5000,
    arrivals: { process: "poisson" },
    network: NO_DELAYS,
    models: [model("resnet50", 1)],
    phases: [],
    ...changes,
  };
}
