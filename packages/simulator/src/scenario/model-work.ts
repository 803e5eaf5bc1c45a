import type { ScenarioModel } from "./scenario.ts";

/**
 * Accelerator time per request in µs, at the best batch that half an SLO allows: about what it takes while many come.
 */
export function modelWork({ profile, slo }: ScenarioModel): number {
  let least: number = profile.latency(1);
  for (let b = 2; b <= profile.batchSizeMax && profile.latency(b) <= slo / 2; b++) {
    least = Math.min(least, profile.latency(b) / b);
  }
  return least;
}
