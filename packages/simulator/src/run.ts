import type { SimulationResult } from "./result.ts";
import type { Scenario } from "./scenario.ts";
import type { SimListener } from "./simulated-cluster.ts";

export interface RunOptions {
  /** Hears everything, for logs, stories and pictures. */
  readonly listener?: SimListener;
}

/** Runs a scenario to its end. Deterministic: equal scenarios, equal results, whatever the machine. */
export declare function simulate(scenario: Scenario, options?: RunOptions): SimulationResult;
