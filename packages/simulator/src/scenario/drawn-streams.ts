/** The requests that a scenario's arrivals bring, model by model, in the form that the bounds take. */
import type { BatchCosts, ClairvoyantStream } from "../bounds/clairvoyant.ts";
import type { Network, Scenario, ScenarioModel } from "./scenario.ts";
import { createWorkload } from "./workload.ts";

/** Requests of one model in order of arrival. */
interface Drawn {
  readonly arrivals: number[];
  readonly slos: number[];
}

/**
 * Draws one model after the other, because a large scenario has many requests. A model's draws don't depend on the
 * others (workload.ts, WORKLOAD-1).
 */
export function* drawnByModel(scenario: Scenario): Generator<{ readonly model: ScenarioModel; readonly drawn: Drawn }> {
  const { models, phases, arrivals } = scenario;
  if (arrivals.process === "trace") {
    const drawn = draw(scenario);
    for (const [i, model] of models.entries()) yield { model, drawn: drawn[i]! };
    return;
  }
  for (const [i, model] of models.entries()) {
    const its = phases.map((phase) => (phase.shares === undefined ? phase : { ...phase, shares: [phase.shares[i]!] }));
    yield { model, drawn: draw({ ...scenario, models: [model], phases: its })[0]! };
  }
}

function draw(scenario: Scenario): readonly Drawn[] {
  const drawn: Drawn[] = scenario.models.map(() => ({ arrivals: [], slos: [] }));
  const workload = createWorkload(scenario);
  for (let request = workload.next(); request !== undefined; request = workload.next()) {
    const { arrivals, slos } = drawn[request.model]!;
    arrivals.push(request.arrivedAt);
    slos.push(request.slo);
  }
  return drawn;
}

/**
 * Most SLOs of one model that are looked at separately; with more (a trace may have any number) they are looked at
 * together only.
 */
const SLOS_MAX = 8;

interface Streams {
  readonly joint: ClairvoyantStream;
  /** Empty where all have one SLO. */
  readonly bySlo: readonly ClairvoyantStream[];
}

export function streamsOf({ arrivals, slos }: Drawn, network: Network): Streams {
  const { respond } = atBest(network);
  const at = new Float64Array(arrivals);
  const deadlines = at.map((arrival, k) => arrival + slos[k]! - respond);
  const distinct = [...new Set(slos)];
  if (distinct.length <= 1) return { joint: { arrivals: at, deadlines }, bySlo: [] };
  const pick = (order: readonly number[]): ClairvoyantStream => ({
    arrivals: Float64Array.from(order, (k) => at[k]!),
    deadlines: Float64Array.from(order, (k) => deadlines[k]!),
  });
  const all = Array.from(arrivals.keys());
  const joint = pick(all.toSorted((a, b) => deadlines[a]! - deadlines[b]! || a - b));
  if (distinct.length > SLOS_MAX) return { joint, bySlo: [] };
  return { joint, bySlo: distinct.map((slo) => pick(all.filter((k) => slos[k] === slo))) };
}

export function costsOf({ profile }: ScenarioModel, network: Network): BatchCosts {
  const { ctrl, data } = atBest(network);
  const run = profile.byBatchSize.slice(0, profile.batchSizeMax + 1);
  return { run, finish: run.map((latency, b) => latency + ctrl + data * b) };
}

/**
 * Every delay as short as the jitter allows: a bound may not rest on bad luck. `arrive` is left out, since baselines
 * receive requests at once.
 */
export function atBest({ ctrl, data, respond, jitter }: Network): { ctrl: number; data: number; respond: number } {
  const factor = Math.max(0, 1 - jitter);
  return { ctrl: ctrl * factor, data: data * factor, respond: respond * factor };
}
