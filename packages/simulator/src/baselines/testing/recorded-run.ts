/** Runs a baseline over given requests, and writes down what it did. Times in ms, for tests to read. */
import { LatencyTable } from "@tutti/profile";
import { type Instant, type Micros, assert, micros, millis } from "@tutti/units";
import type { Network, ScenarioModel } from "../../scenario/scenario.ts";
import type {
  SimBatch,
  SimClusterFactory,
  SimListener,
  SimRefusal,
  SimRequest,
} from "../../cluster/simulated-cluster.ts";

export const QUIET: Network = { ctrl: micros(0), data: micros(0), respond: micros(0), jitter: 0 };

/** l(b) = alpha·b + beta. */
export function model(name: string, line: { alpha: number; beta: number; slo: number; share?: number }): ScenarioModel {
  const profile = LatencyTable.affine({ alpha: line.alpha * 1000, beta: line.beta * 1000, batchSizeMax: 32 });
  return { name, profile, slo: millis(line.slo), classes: [], share: line.share ?? 1 };
}

export interface Arrival {
  readonly at: number;
  readonly model?: number;
  /** The model's where left out. */
  readonly slo?: number;
}

export interface Setup {
  readonly models: readonly ScenarioModel[];
  readonly gpus?: number;
  readonly seed?: number;
  readonly network?: Network;
}

export interface Ended {
  readonly batch: SimBatch;
  readonly begin: Instant;
  readonly end: Instant;
  readonly completed: boolean;
}

/** Holds what every cluster owes its listener, whatever it decides. */
export class Recorder implements SimListener {
  readonly dispatches: { readonly batch: SimBatch; readonly at: Instant }[] = [];
  readonly refusals: { readonly id: number; readonly cause: SimRefusal; readonly at: Instant }[] = [];
  readonly ended: Ended[] = [];

  dispatched(batch: SimBatch, at: Instant): void {
    this.dispatches.push({ batch, at });
  }
  refused({ id }: SimRequest, cause: SimRefusal, at: Instant): void {
    this.refusals.push({ id, cause, at });
  }
  finished(batch: SimBatch, begin: Instant, end: Instant, completed: boolean): void {
    this.ended.push({ batch, begin, end, completed });
  }

  /** Each batch in order of its beginning: `A×3 @2`, `A×1 @0 preempted` (model, size, begin in ms). */
  get story(): string[] {
    const told = this.ended.toSorted((a, b) => a.begin - b.begin || a.batch.id - b.batch.id);
    return told.map(({ batch, begin, completed }) => {
      const name = String.fromCharCode(65 + batch.model);
      return `${name}×${batch.requests.length} @${begin / 1000}${completed ? "" : " preempted"}`;
    });
  }
  get refusedAs(): string[] {
    return this.refusals.map(({ id, cause }) => `${id} ${cause}`);
  }
}

export function run(factory: SimClusterFactory, arrivals: readonly Arrival[], setup: Setup): Recorder {
  const recorder = new Recorder();
  const { models, gpus = 1, seed = 1, network = QUIET } = setup;
  const cluster = factory({ models, gpus, gather: "target", network, seed, listener: recorder });
  for (const [i, { at, model: of = 0, slo }] of arrivals.entries()) {
    const limit = slo === undefined ? models[of]!.slo : millis(slo);
    cluster.arrive(request(i + 1, of, at * 1000, limit));
  }
  cluster.runUntilIdle();
  return recorder;
}

/** `count` arrivals at once. */
export const burst = (count: number, arrival: Arrival): Arrival[] => Array.from({ length: count }, () => arrival);

function request(id: number, of: number, at: number, slo: Micros): SimRequest {
  assert(Number.isInteger(at), `${at} µs`);
  const deadline = (at + slo) as Instant;
  return { id, model: of, arrivedAt: at as Instant, deadline, slo, ...{ app: 0, solo: 0, units: 0 } };
}
