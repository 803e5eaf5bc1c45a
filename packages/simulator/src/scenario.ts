/**
 * What a simulation runs: a workload, a cluster and a policy, as the scenario file describes them once its defaults are
 * filled in.
 */
import type { Interference } from "@tutti/planning";
import type { LatencyTable } from "@tutti/profile";
import type { Preference } from "@tutti/scheduling";
import type { Micros } from "@tutti/units";
import type { Noise } from "./noise.ts";
import type { DynamicLoad } from "./dynamic/dynamic-load.ts";

export interface Scenario {
  readonly seed: number;
  /** Of arrivals, warm-up included. */
  readonly duration: Micros;
  /** Arrivals before this count for nothing. */
  readonly warmup: Micros;
  readonly gpus: number;
  /** A name that policyNamed() knows, with its parameters: `default`, `deferred`, `timeout:5ms`, `nexus:8`. */
  readonly policy: string;
  readonly gather: "target" | "head";
  /** What the default policy waits for; where it is left out "accelerators" with a planner, else "latency". */
  readonly prefer?: Preference;
  /** Requests per second, all models together. */
  readonly rate: number;
  readonly arrivals: Arrivals;
  readonly network: Network;
  /** One entry per stream: `count` in the file is spread out here, names get a number. */
  readonly models: readonly ScenarioModel[];
  /**
   * Targets beside the models, in whose `share`s theirs are counted; a model that only they use has a share of 0.
   * Default: none.
   */
  readonly pipelines?: readonly ScenarioPipeline[];
  /** How the rate changes over time: factors of `rate` from each moment on; empty where it doesn't. */
  readonly phases: readonly Phase[];
  /** Accelerators come and go as it asks; `gpus` are the most. Left out: all are there all the time. */
  readonly planner?: PlannerOptions;
  /** Standstills and slow runs; left out, every run takes what its profile says. */
  readonly noise?: Noise;
  /** Models and accelerators are split, each part with a scheduler of its own; default 1. */
  readonly subClusters?: number;
  /**
   * c1 … c5 of docs/algorithms.md, D2: how much models on the two parts of an accelerator slow one another; left out,
   * they don't.
   */
  readonly interference?: Interference;
}

/** Models in stages, asked like a model: one request, one answer, one SLO. */
export interface ScenarioPipeline {
  readonly name: string;
  /** From arrival to the answer of all of it. */
  readonly slo: Micros;
  /** Of the total rate. */
  readonly share: number;
  /** How the SLO is divided over the stages: by docs/algorithms.md, C5, or in equal parts. */
  readonly split: "planned" | "even";
  /** One root, and branches that join all in one stage or not at all. */
  readonly stages: readonly ScenarioStage[];
}

export interface ScenarioStage {
  readonly name: string;
  /** Its place in the scenario. */
  readonly model: number;
  /** Stages whose answers it waits for. */
  readonly after: readonly string[];
  /**
   * Requests on average, for each of the stage before; of the root and of stages that join several: for each of the
   * pipeline's.
   */
  readonly fanOut: number;
  /** What its function takes. */
  readonly step: Micros;
}

/** What of a scenario its arrivals depend on; a load generator has no more. */
export interface Arriving extends Pick<Scenario, "seed" | "duration" | "rate" | "arrivals" | "phases"> {
  readonly models: readonly Pick<ScenarioModel, "name" | "slo" | "classes" | "share" | "dynamic">[];
}

/** A planner in the loop: planner/closed-loop.ts. */
export interface PlannerOptions {
  /** It plans so often, and in between when a rate leaves its band. */
  readonly epoch: Micros;
  /** From asking for an accelerator until it serves. */
  readonly startup: Micros;
  readonly gpusMin: number;
  /** At the beginning. */
  readonly gpusStart: number;
  /** Measured work and room for its swings, or A8's advice alone. */
  readonly rule: "work" | "advice";
}

export interface ScenarioModel {
  readonly name: string;
  /** What is planned with. */
  readonly profile: LatencyTable;
  /** How long batches really run under Tutti's own schedulers; as planned where it is left out. */
  readonly runs?: LatencyTable;
  readonly slo: Micros;
  /** Further SLO classes of the same model, with their shares of its requests; empty where there is one. */
  readonly classes: readonly { readonly slo: Micros; readonly share: number }[];
  /** Share of the total rate; all shares sum to 1. */
  readonly share: number;
  /**
   * What the model does on parts of an accelerator, as emulated; left out: so many times slower as the part is smaller.
   */
  readonly parts?: ModelParts;
  /** Where run time depends on the request; `profile` is then that of batches of mean requests. */
  readonly dynamic?: DynamicLoad;
}

/** part-profile.ts has the formula. */
export interface ModelParts {
  /** µs per item and per batch. */
  readonly alpha: number;
  readonly beta: number;
  /** The share of an accelerator that one request keeps busy: so much of it takes no longer on a part of that size. */
  readonly fills: number;
  /** Of the shared cache and of the memory bandwidth, alone on a whole accelerator: 0 … 1. */
  readonly cacheUse: number;
  readonly bandwidthUse: number;
}

export type Arrivals =
  | { readonly process: "poisson" }
  /** Renewal process with Gamma(shape) gaps, per model: shape 1 is Poisson, 0.1 very bursty. */
  | { readonly process: "gamma"; readonly shape: number }
  /** Poisson per model, whose rate is drawn anew every so often: the model's mean rate times Gamma(shape)/shape. */
  | { readonly process: "modulated"; readonly shape: number; readonly every: Micros }
  /** Evenly spaced per model, each with a random phase. */
  | { readonly process: "uniform" }
  /** Recorded: times, models and SLOs come from the file; the rate scales time. */
  | { readonly process: "trace"; readonly entries: readonly TraceEntry[] };

export interface TraceEntry {
  /** From the beginning of the trace. */
  readonly at: Micros;
  readonly model: string;
  readonly app: string;
  readonly slo: Micros | undefined;
}

export interface Phase {
  readonly from: Micros;
  readonly factor: number;
  /** Per model, where popularity changes too. */
  readonly shares?: readonly number[];
}

/** Delays of the network in µs; jitter 0.1: each within ±10 %, evenly. */
export interface Network {
  /**
   * From the publisher until the scheduler knows of a request, which is so much of its SLO: 0 where it is left out.
   * Baselines hear at once.
   */
  readonly arrive?: Micros;
  readonly ctrl: Micros;
  /** Per item of a batch. */
  readonly data: Micros;
  readonly respond: Micros;
  readonly jitter: number;
}
