/**
 * Scenarios to measure the simulator with: equal models of the paper's table 2 (ResNet50), Poisson arrivals, no network
 * delays.
 */
import { LatencyTable, staggeredBatch } from "@tutti/profile";
import type { Scenario } from "@tutti/simulator";
import { micros, millis } from "@tutti/units";

const PROFILE = LatencyTable.affine({ alpha: 1053, beta: 5072, batchSizeMax: 64 });
const SLO = millis(25);

export interface Shape {
  readonly models: number;
  readonly gpus: number;
  /** Requests per second, all models together. */
  readonly rate: number;
}

/** @param requests - about as many arrive */
export function scenarioOf({ models, gpus, rate }: Shape, requests: number, seed: number): Scenario {
  const duration = micros(Math.ceil((requests / rate) * 1e6));
  return {
    seed,
    duration,
    warmup: micros(0),
    gpus,
    policy: "default",
    gather: "target",
    rate,
    arrivals: { process: "poisson" },
    network: { ctrl: micros(0), data: micros(0), respond: micros(0), jitter: 0 },
    models: Array.from({ length: models }, (_, i) => ({
      name: `resnet50-${i + 1}`,
      profile: PROFILE,
      slo: SLO,
      classes: [],
      share: 1 / models,
    })),
    phases: [],
  };
}

/** Capacity of `gpus` staggered accelerators, in requests per second: a bound, not a goodput. */
export const boundOf = (gpus: number): number =>
  staggeredBatch({ profile: PROFILE, slo: SLO, executors: gpus }).perMicro * 1e6;
