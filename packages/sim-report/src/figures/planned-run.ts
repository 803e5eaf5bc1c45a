/** One run with a planner, and what became of each model's requests, epoch by epoch. */
import { type RunListener, type Scenario, type SimBatch, leastBusyByPhase, simulate } from "@tutti/simulator";
import { type Instant, assert, seconds } from "@tutti/units";
import type { PlannedRun } from "./figure.ts";

/** Arrivals that stand for a phase: of hundreds of thousands of requests the least hardly differs. */
const SAMPLE = seconds(1.5);

/** @throws Error for a policy whose accelerators can't come and go */
export function plannedRun(scenario: Scenario): PlannedRun {
  const { planner, models, gpus } = scenario;
  assert(planner !== undefined, "a run with a planner");
  const good = new GoodByModel(scenario, planner.epoch);
  const result = simulate(scenario, { listener: good });
  const windows = result.planner!.windows.length;
  return {
    result,
    goodByModel: models.map(({ name }, i) => ({ name, goodRps: good.of(i, windows) })),
    least: leastBusyByPhase(scenario, SAMPLE),
    gpusMax: gpus,
  };
}

class GoodByModel implements RunListener {
  readonly #counts: readonly Float64Array[];
  readonly #epoch: number;
  readonly #respond: number;

  constructor({ models, duration, network }: Scenario, epoch: number) {
    this.#epoch = epoch;
    this.#respond = network.respond;
    this.#counts = models.map(() => new Float64Array(Math.ceil(duration / epoch)));
  }
  refused(): void {}
  finished({ model, requests }: SimBatch, _begin: Instant, end: Instant): void {
    const counts = this.#counts[model]!;
    for (const { arrivedAt, deadline } of requests) {
      if (end + this.#respond <= deadline) counts[Math.floor(arrivedAt / this.#epoch)]!++;
    }
  }
  of(model: number, windows: number): number[] {
    return Array.from(this.#counts[model]!.subarray(0, windows), (count) => (count * 1e6) / this.#epoch);
  }
}
