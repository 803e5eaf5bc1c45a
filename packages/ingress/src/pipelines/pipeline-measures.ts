import { type BatchLatency } from "@tutti/planning/split";
import { type Budgets, type PipelineSpec, type StageLoad, planBudgets } from "@tutti/pipelines";
import { DelayEstimator } from "@tutti/profile";
import type { ProfilePoints } from "@tutti/protocol";
import { type Instant, type Micros, type ThreadId, after, bucketOf, micros, seconds } from "@tutti/units";
import type { Catalog } from "@tutti/actors/runtime";

/** How often an SLO is divided again. */
const EPOCH = seconds(5);
/** Weight of the newest epoch in the mean fan-out. */
const FAN_OUT_WEIGHT = 0.5;

interface Measured {
  readonly step: DelayEstimator;
  /** Counters of this epoch. */
  instances: number;
  requests: number;
  /** Mean over all epochs: requests per instance; undefined: no instance was seen yet. */
  fanOut: number | undefined;
  readonly byBucket: Map<number, number>;
}

/**
 * Measurements of one pipeline, and the division of its SLO by them. It is renewed each epoch, when a request comes.
 */
export class PipelineMeasures {
  readonly #spec: PipelineSpec;
  readonly #catalog: Catalog;
  readonly #stages: ReadonlyMap<string, Measured>;
  readonly #finish = stepEstimator();
  #budgets: Budgets | undefined;
  #nextAt: Instant = 0 as Instant;

  constructor(spec: PipelineSpec, catalog: Catalog) {
    this.#spec = spec;
    this.#catalog = catalog;
    this.#stages = new Map(
      spec.stages.map(({ name }) => [
        name,
        { step: stepEstimator(), instances: 0, requests: 0, fanOut: undefined, byBucket: new Map<number, number>() },
      ]),
    );
  }

  /** @param stage - undefined: the last function */
  noteStep(stage: string | undefined, at: Instant, took: Micros): void {
    (stage === undefined ? this.#finish : this.#stages.get(stage)!.step).note(at, took);
  }
  noteFanOut(stage: string, requests: number): void {
    const measured = this.#stages.get(stage)!;
    measured.instances++;
    measured.requests += requests;
  }
  noteThread(stage: string, thread: ThreadId): void {
    const { byBucket } = this.#stages.get(stage)!;
    byBucket.set(bucketOf(thread), (byBucket.get(bucketOf(thread)) ?? 0) + 1);
  }

  budgets(now: Instant): Budgets {
    if (this.#budgets !== undefined && now < this.#nextAt) return this.#budgets;
    this.#nextAt = after(now, EPOCH);
    const stages = new Map(this.#spec.stages.map(({ name, model }) => [name, this.#load(name, model, now)]));
    this.#budgets = planBudgets(this.#spec, { stages, finishMs: this.#finish.value(now) / 1000 });
    return this.#budgets;
  }

  #load(stage: string, model: string, now: Instant): StageLoad {
    const measured = this.#stages.get(stage)!;
    const { instances, requests, byBucket } = measured;
    if (instances > 0) {
      const mean = requests / instances;
      measured.fanOut = (measured.fanOut ?? mean) + FAN_OUT_WEIGHT * (mean - (measured.fanOut ?? mean));
      measured.instances = measured.requests = 0;
    }
    // A model with buckets is planned with the bucket that gets most requests.
    let bucket = 0;
    for (const [one, count] of byBucket) {
      if (count > (byBucket.get(bucket) ?? 0)) bucket = one;
      byBucket.set(one, count / 2);
    }
    return {
      latency: latencyOf(this.#catalog.target(model)?.status?.profiles[bucket]),
      requests: measured.fanOut ?? 1,
      stepMs: measured.step.value(now) / 1000,
    };
  }
}

const stepEstimator = (): DelayEstimator =>
  new DelayEstimator({ floor: micros(0), quantile: 0.95, window: seconds(10), capTimes: 5 });

function latencyOf(points: ProfilePoints | undefined): BatchLatency | undefined {
  if (points === undefined || points.length === 0) return undefined;
  const ms = new Map(points.map(({ batchSize, latency }) => [batchSize, latency / 1000]));
  return { batchSizes: [...ms.keys()].sort((a, b) => a - b), latency: (b) => ms.get(b) ?? Infinity };
}
