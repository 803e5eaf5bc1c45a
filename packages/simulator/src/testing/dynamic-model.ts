/**
 * A dynamic model for the tests of this package: applications of normally distributed lengths, costs of Orloj's form.
 */
import { type Micros, millis } from "@tutti/units";
import { type DynamicLoad, meanProfile, profiledHistogram, soloQuantile } from "../dynamic/dynamic-load.ts";
import type { Lengths } from "../dynamic/lengths.ts";
import type { ScenarioModel } from "../scenario/scenario.ts";

/** One mode of σ = 1/20, in ms. */
export const around = (centreMs: number): Lengths => ({
  kind: "modes",
  ...{ centres: [1000 * centreMs], sigma: 50 * centreMs, weights: [1] },
});

export function dynamicLoad(lengths: readonly Lengths[], changes: Partial<DynamicLoad> = {}): DynamicLoad {
  const share = 1 / lengths.length;
  return {
    apps: lengths.map((own, i) => ({ name: `app-${i}`, share, lengths: own, alone: profiledHistogram(own) })),
    costs: { c0: 5_000, c1: 0.3, fromOne: false },
    sizes: [1, 2, 4, 8],
    hints: "none",
    ...changes,
  };
}

/** @param times - SLO in multiples of the 99th percentile */
export function dynamicModel(name: string, load: DynamicLoad, share = 1, times = 4): ScenarioModel {
  const slo = millis((times * soloQuantile(load, 0.99)) / 1000) satisfies Micros;
  return { name, profile: meanProfile(load), slo, classes: [], share, dynamic: load };
}
