/**
 * The port between a workload and whoever schedules it: Tutti's own cores (`TuttiCluster`) and each baseline implement
 * it, so that all of them see the same arrivals, the same accelerators and the same judge.
 */
import type { Interference } from "@tutti/planning";
import type { Preference } from "@tutti/scheduling";
import type { Instant, Micros } from "@tutti/units";
import type { ArrivedRequest } from "./arrived-request.ts";
import type { Noise } from "./noise.ts";
import type { Network, ScenarioModel } from "./scenario.ts";

export interface SimRequest {
  /** 1, 2, 3 … in order of arrival over all models; within a slice (SimSlice) in its order. */
  readonly id: number;
  readonly model: number;
  readonly arrivedAt: Instant;
  /** When the publisher must have its answer. */
  readonly deadline: Instant;
  readonly slo: Micros;
  /** Place of its application among those of a dynamic model; 0 for a static one. */
  readonly app: number;
  /** What it takes alone, in µs; 0 for a static model. Schedulers learn it only by running it. */
  readonly solo: number;
  /** Its size hint; 0: none. */
  readonly units: number;
}

export interface SimBatch {
  readonly id: number;
  readonly model: number;
  readonly gpu: number;
  readonly requests: readonly SimRequest[];
  /** Where it has not the whole accelerator: which part, and how much of it. Parts run at the same time. */
  readonly part?: { readonly place: number; readonly share: number };
  /** Where the scheduler plans starts: for stories and logs, so only where dispatches are heard of. */
  readonly plan?: SimPlan;
}

export interface SimPlan {
  readonly startAt: Instant;
  /** Last start that meets the head's deadline. */
  readonly latest: Instant;
  /** Start until which one request more could have joined; `ALWAYS` for a full batch. */
  readonly frontrun: Instant;
  /** When the accelerator ends what it was given before; `ALWAYS` if that was nothing. */
  readonly freeAt: Instant;
}

/**
 * Why a request was not run: it couldn't have met its deadline even alone; it was dropped for the sake of others; its
 * batch was thrown away; nobody wanted it any more.
 */
export type SimRefusal = "infeasible" | "overloaded" | "preempted" | "withdrawn";

/**
 * Hears what happens, in the order of virtual time, but for refusals under `runSlice`. Batches and requests may be
 * kept. Every request is refused once, or finished once.
 */
export interface SimListener {
  dispatched?(batch: SimBatch, at: Instant): void;
  refused(request: SimRequest, cause: SimRefusal, at: Instant): void;
  /**
   * `completed` is false where the batch was preempted: the accelerator was busy for nothing, and its requests are told
   * of separately.
   */
  finished(batch: SimBatch, begin: Instant, end: Instant, completed: boolean): void;
}

export interface SimClusterOptions {
  readonly models: readonly ScenarioModel[];
  readonly gpus: number;
  readonly gather: "target" | "head";
  /** Of the default policy; "latency" where it is left out. */
  readonly prefer?: Preference;
  readonly network: Network;
  readonly noise?: Noise;
  readonly seed: number;
  readonly listener: SimListener;
  /** Of the scenario. */
  readonly interference?: Interference;
}

export interface SimCluster {
  /** In order of `arrivedAt`; everything due before that moment happens first. */
  arrive(request: SimRequest): void;
  /** Runs until nothing waits or runs. */
  runUntilIdle(): void;
}

/** Requests of a stretch of time, model by model, each model's in order of `arrivedAt`. */
export interface SimSlice {
  /** More than the last model's end may lie there. */
  readonly requests: readonly ArrivedRequest[];
  /** By model: the place behind its last request; it begins where the model before ends. */
  readonly ends: Uint32Array;
  /** All of them come before that moment, and what is in the next slice then or later. */
  readonly until: Instant;
}

/**
 * Takes requests in advance, which decides nothing otherwise, but tells refusals before their moment: for who doesn't
 * ask in which order things happen.
 */
export interface SlicedCluster extends SimCluster {
  /** Instead of `arrive` for each of them. Everything before `slice.until` happens. */
  runSlice(slice: SimSlice): void;
}

/** A cluster that can be stopped between two events. */
export interface SteppedCluster extends SimCluster {
  /** Of the next event; `NEVER` when nothing waits or runs. A moment that is past means at once. */
  nextAt(): Instant;
  /** Everything up to that moment, it included. */
  runUntil(at: Instant): void;
  /**
   * Nobody wants its answer any more. @returns whether it still waited, and is gone; without this, whatever came in
   * runs or is refused
   */
  withdraw?(request: SimRequest, at: Instant): boolean;
}

/** Its accelerators come and go, too. */
export interface ElasticCluster extends SteppedCluster {
  /** From that moment on accelerators 0 … gpus − 1 are there. Those that leave end the batches they have. */
  resize(gpus: number, at: Instant): void;
}

export const isSliced = (cluster: SimCluster): cluster is SlicedCluster => "runSlice" in cluster;
export const isStepped = (cluster: SimCluster): cluster is SteppedCluster => "runUntil" in cluster;
export const isElastic = (cluster: SimCluster): cluster is ElasticCluster => "resize" in cluster;

/** A policy by name: our own and the baselines. */
export type SimClusterFactory = (options: SimClusterOptions) => SimCluster;
