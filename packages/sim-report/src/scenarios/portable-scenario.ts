/**
 * Converts scenarios for messages between threads. Class instances become plain data here, since structured cloning
 * drops their classes, and are restored there.
 */
import { LatencyTable } from "@tutti/profile";
import type { Scenario, ScenarioModel } from "@tutti/simulator";
import type { Micros } from "@tutti/units";

interface PortableProfile {
  /** µs per item and per batch. */
  readonly alpha: number;
  readonly beta: number;
  /** l(b) in µs, b = 1, 2, … */
  readonly latencies: readonly number[];
}

export interface PortableScenario extends Omit<Scenario, "models"> {
  readonly models: readonly (Omit<ScenarioModel, "profile"> & { readonly profile: PortableProfile })[];
}

export function toPortable(scenario: Scenario): PortableScenario {
  const models = scenario.models.map((model) => {
    const { alpha, beta } = model.profile;
    return { ...model, profile: { alpha, beta, latencies: model.profile.toPoints().map(({ latency }) => latency) } };
  });
  return { ...scenario, models };
}

export function fromPortable(portable: PortableScenario): Scenario {
  return { ...portable, models: portable.models.map((model) => ({ ...model, profile: tableOf(model.profile) })) };
}

/**
 * Restores an affine profile as a line. Fitted again to latencies in whole µs, it would differ in the last digits, and
 * results with it.
 */
function tableOf({ alpha, beta, latencies }: PortableProfile): LatencyTable {
  if (alpha >= 0 && beta >= 0) {
    const line = LatencyTable.affine({ alpha, beta, batchSizeMax: latencies.length });
    if (latencies.every((latency, i) => latency === line.latency(i + 1))) return line;
  }
  return LatencyTable.fromPoints(latencies.map((latency, i) => ({ batchSize: i + 1, latency: latency as Micros })));
}
