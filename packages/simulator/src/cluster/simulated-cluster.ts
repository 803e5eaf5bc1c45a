/**
 * The port between a workload and its scheduler: Tutti's own cores (`TuttiCluster`) and each baseline implement it, so
 * that all of them see the same arrivals, the same accelerators and the same judge.
 */
import type { CostStep } from "@tutti/dynamic";
import type { Interference } from "@tutti/planning";
import type { Preference } from "@tutti/scheduling";
import type { Instant, Micros } from "@tutti/units";
import type { ArrivedRequest } from "../scenario/arrived-request.ts";
import type { Noise } from "../scenario/noise.ts";
import type { AcceleratorType, JobLoad, Network, Scenario, ScenarioModel } from "../scenario/scenario.ts";

export interface SimRequest {
  /** 1, 2, 3 … in order of arrival over all models; within a slice (SimSlice) in its order. */
  readonly id: number;
  readonly model: number;
  readonly arrivedAt: Instant;
  /** Time by which the publisher must have its answer. */
  readonly deadline: Instant;
  readonly slo: Micros;
  /** Index of its application among those of a dynamic model; 0 for a static one. */
  readonly app: number;
  /** Time that it takes alone, in µs; 0 for a static model. Schedulers learn it only by running the request. */
  readonly solo: number;
  /** Size hint; 0: none. */
  readonly units: number;
  /** Costs of a late answer; the first step is at the deadline. Default: 1 for an answer after the deadline. */
  readonly steps?: readonly CostStep[] | undefined;
}

export interface SimBatch {
  readonly id: number;
  readonly model: number;
  readonly gpu: number;
  readonly requests: readonly SimRequest[];
  /**
   * The part of the accelerator that runs the batch, and its share; undefined for a whole one. Parts run at the same
   * time.
   */
  readonly part?: { readonly place: number; readonly share: number };
  /**
   * Planned start, where the scheduler plans starts. It is for stories and logs, so it is set only where the listener
   * has `dispatched`.
   */
  readonly plan?: SimPlan;
}

export interface SimPlan {
  readonly startAt: Instant;
  /** Last start that meets the head's deadline. */
  readonly latest: Instant;
  /** Start until which one request more could have joined; `ALWAYS` for a full batch. */
  readonly frontrun: Instant;
  /** When the accelerator ends its earlier batches; `ALWAYS` if there are none. */
  readonly freeAt: Instant;
}

/**
 * Reason why a request was not run. Infeasible: it couldn't have met its deadline even alone. Overloaded: it was
 * dropped in favour of others. Preempted: its batch was aborted. Withdrawn: its answer was no longer wanted.
 */
export type SimRefusal = "infeasible" | "overloaded" | "preempted" | "withdrawn";

/**
 * Receives events in the order of virtual time, except for refusals under `runSlice` and for ends while the scheduler
 * stands still, which come when it hears of them. It may keep batches and requests. Every request is refused once, or
 * finished once.
 */
export interface SimListener {
  dispatched?(batch: SimBatch, at: Instant): void;
  refused(request: SimRequest, cause: SimRefusal, at: Instant): void;
  /**
   * `completed` is false where the batch was preempted: the accelerator's time is lost, and its requests are reported
   * separately.
   */
  finished(batch: SimBatch, begin: Instant, end: Instant, completed: boolean): void;
  /** A batch of jobs ended. */
  jobsFinished?(batch: SimJobBatch, begin: Instant, end: Instant): void;
}

export interface SimJobBatch {
  /** Its place among the scenario's jobs. */
  readonly job: number;
  readonly gpu: number;
  readonly size: number;
}

export interface SimClusterOptions {
  readonly models: readonly ScenarioModel[];
  /**
   * How often each model is asked for in comparison with others, over the whole run; 0 where another sub-cluster has
   * it. Default: unknown.
   */
  readonly shares?: readonly number[];
  readonly gpus: number;
  /** Types of the accelerators, in the order of their ids. Default: all are alike. */
  readonly types?: readonly AcceleratorType[];
  readonly gather: "target" | "head";
  /** Preference of the default policy. Default: "latency". */
  readonly prefer?: Preference;
  readonly network: Network;
  readonly noise?: Noise;
  /** As `Scenario.learned`. */
  readonly learned?: Scenario["learned"];
  readonly seed: number;
  readonly listener: SimListener;
  /** Interference of the scenario. */
  readonly interference?: Interference;
  /** Jobs, which are begun until that moment. Only Tutti's own policies run them. */
  readonly backlog?: { readonly jobs: readonly JobLoad[]; readonly until: Instant };
}

export interface SimCluster {
  /** Takes a request, in order of `arrivedAt`; everything due before that moment happens first. */
  arrive(request: SimRequest): void;
  /** Runs until nothing waits or runs. */
  runUntilIdle(): void;
}

/** Requests of a stretch of time, model by model, each model's in order of `arrivedAt`. */
export interface SimSlice {
  /** Requests of the slice; entries behind the last model's end don't belong to it. */
  readonly requests: readonly ArrivedRequest[];
  /** By model: index behind its last request; its first one is at the end of the model before. */
  readonly ends: Uint32Array;
  /** All requests of the slice arrive before this moment, those of the next slice then or later. */
  readonly until: Instant;
}

/**
 * A cluster that takes requests in advance. Its decisions are the same, but it reports refusals before their moment: it
 * is for listeners that don't depend on the order of events.
 */
export interface SlicedCluster extends SimCluster {
  /** Replaces `arrive` for each request of the slice. Everything before `slice.until` happens. */
  runSlice(slice: SimSlice): void;
}

/** A cluster that can be stopped between two events. */
export interface SteppedCluster extends SimCluster {
  /** Time of the next event; `NEVER` when nothing waits or runs. A past moment means at once. */
  nextAt(): Instant;
  /** Handles everything up to and including that moment. */
  runUntil(at: Instant): void;
  /**
   * Removes a request whose answer is no longer wanted. A cluster without this method runs or refuses every request.
   * @returns whether it still waited, and is removed
   */
  withdraw?(request: SimRequest, at: Instant): boolean;
}

/** A stepped cluster whose accelerators can come and go. */
export interface ElasticCluster extends SteppedCluster {
  /** From that moment on accelerators 0 … gpus − 1 are there. Accelerators that leave end the batches they have. */
  resize(gpus: number, at: Instant): void;
}

export const isSliced = (cluster: SimCluster): cluster is SlicedCluster => "runSlice" in cluster;
export const isStepped = (cluster: SimCluster): cluster is SteppedCluster => "runUntil" in cluster;
export const isElastic = (cluster: SimCluster): cluster is ElasticCluster => "resize" in cluster;

/** A policy by name: our own and the baselines. */
export type SimClusterFactory = (options: SimClusterOptions) => SimCluster;
