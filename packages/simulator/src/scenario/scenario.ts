/**
 * Scenario: the workload, the cluster and the policy of a simulation, as in the scenario file once its defaults are
 * filled in.
 */
import type { Interference } from "@tutti/planning";
import type { LatencyTable } from "@tutti/profile";
import type { Preference } from "@tutti/scheduling";
import type { Micros } from "@tutti/units";
import type { CostRule } from "./costs.ts";
import type { Noise } from "./noise.ts";
import type { DynamicLoad } from "../dynamic/dynamic-load.ts";

export interface Scenario {
  readonly seed: number;
  /** Duration of the arrivals, warm-up included. */
  readonly duration: Micros;
  /** Arrivals before this don't count. */
  readonly warmup: Micros;
  readonly gpus: number;
  /** A name that policyNamed() knows, with its parameters: `default`, `deferred`, `timeout:5ms`, `nexus:8`. */
  readonly policy: string;
  readonly gather: "target" | "head";
  /** Preference of the default policy. Default: "accelerators" with a planner, else "latency". */
  readonly prefer?: Preference;
  /** Requests per second, all models together. */
  readonly rate: number;
  readonly arrivals: Arrivals;
  readonly network: Network;
  /** One entry per stream: an entry with `count` in the file becomes several here, and their names get a number. */
  readonly models: readonly ScenarioModel[];
  /**
   * Targets besides the models; their shares and those of the models are counted together. A model that only they use
   * has a share of 0. Default: none.
   */
  readonly pipelines?: readonly ScenarioPipeline[];
  /** Changes of the rate over time: factors of `rate` from each moment on; empty where it is constant. */
  readonly phases: readonly Phase[];
  /** Planner that makes accelerators come and go; `gpus` are the most. Default: all are there all the time. */
  readonly planner?: PlannerOptions;
  /** Standstills and slow runs. Default: every run takes as long as its profile says. */
  readonly noise?: Noise;
  /**
   * Schedulers plan with what production's profiler and batchers learn from the runs. It begins with `given` times the
   * models' profiles, so that a wrong one can be given. Default: they plan with the models' profiles and delays.
   */
  readonly learned?: { readonly given: number };
  /** Types of accelerators, in the order of their ids; `gpus` are all together. Default: all are alike. */
  readonly types?: readonly AcceleratorType[];
  /** Number of parts into which models and accelerators are split, each with a scheduler of its own. Default: 1. */
  readonly subClusters?: number;
  /** Number of these that are used whatever that costs. Default: 1, so that only cheap divisions are made. */
  readonly subClustersMin?: number;
  /**
   * c1 … c5 of docs/algorithms.md, D2: how much models on the two parts of an accelerator slow one another. Default:
   * not at all.
   */
  readonly interference?: Interference;
  /** Work without a deadline for time that no request needs; there is always more of it. Default: none. */
  readonly jobs?: readonly JobLoad[];
}

export interface JobLoad {
  readonly name: string;
  readonly profile: LatencyTable;
}

export interface AcceleratorType {
  readonly name: string;
  readonly gpus: number;
  /** Times as long as the models' profiles that runs take there; at least 1. */
  readonly times: number;
  /** Whether these are halves of accelerators, which a policy makes of them; `gpus` counts the halves. */
  readonly isHalf?: boolean;
}

/** Models in stages, requested like a model: one request, one answer, one SLO. */
export interface ScenarioPipeline {
  readonly name: string;
  /** SLO of the whole pipeline, from arrival to answer. */
  readonly slo: Micros;
  /** Share of the total rate. */
  readonly share: number;
  /** How the SLO is divided over the stages: by docs/algorithms.md, C5, or in equal parts. */
  readonly split: "planned" | "even";
  /** The graph has one root, and branches that join all in one stage or not at all. */
  readonly stages: readonly ScenarioStage[];
}

export interface ScenarioStage {
  readonly name: string;
  /** Index of its model in the scenario. */
  readonly model: number;
  /** Stages whose answers this stage waits for. */
  readonly after: readonly string[];
  /**
   * Mean requests for each request of the stage before. For the root and for stages that join several: for each request
   * to the pipeline.
   */
  readonly fanOut: number;
  /** Time that its function takes. */
  readonly step: Micros;
}

/** The part of a scenario that its arrivals depend on; a load generator needs no more. */
export interface Arriving extends Pick<Scenario, "seed" | "duration" | "rate" | "arrivals" | "phases"> {
  readonly models: readonly Pick<ScenarioModel, "name" | "slo" | "classes" | "share" | "dynamic" | "costs">[];
}

/** A planner in the loop: planner/closed-loop.ts. */
export interface PlannerOptions {
  /** Interval of planning; it also plans in between when a rate leaves its band. */
  readonly epoch: Micros;
  /** Time from asking for an accelerator until it serves. */
  readonly startup: Micros;
  readonly gpusMin: number;
  /** Accelerators at the beginning. */
  readonly gpusStart: number;
  /** The need by measured work and room for its swings, or A8's advice alone. */
  readonly rule: "work" | "advice";
}

export interface ScenarioModel {
  readonly name: string;
  /** Latencies that schedulers plan with. */
  readonly profile: LatencyTable;
  /** Real latencies of batches under Tutti's own schedulers. Default: as planned. */
  readonly runs?: LatencyTable;
  readonly slo: Micros;
  /** Further SLO classes of the same model, with their shares of its requests; empty where there is one. */
  readonly classes: readonly {
    readonly slo: Micros;
    readonly share: number;
    /** Default: the model's. */
    readonly costs?: readonly CostRule[];
  }[];
  /** Costs of late answers in steps. Default: 1 for an answer after the SLO. */
  readonly costs?: readonly CostRule[];
  /** Share of the total rate; all shares sum to 1. */
  readonly share: number;
  /** Emulated behaviour on parts of an accelerator. Default: as many times slower as the part is smaller. */
  readonly parts?: ModelParts;
  /** Lengths of requests, where run time depends on the request; `profile` is then that of batches of mean requests. */
  readonly dynamic?: DynamicLoad;
}

/** Parameters of a model on parts of an accelerator; parts/part-profile.ts has the formula. */
export interface ModelParts {
  /** µs per item and per batch. */
  readonly alpha: number;
  readonly beta: number;
  /** Share of an accelerator that one request keeps busy: on a part of at least that size it takes no longer. */
  readonly fills: number;
  /** Use of the shared cache and of the memory bandwidth, alone on a whole accelerator: 0 … 1. */
  readonly cacheUse: number;
  readonly bandwidthUse: number;
}

export type Arrivals =
  | { readonly process: "poisson" }
  /** Renewal process with Gamma(shape) gaps, per model: shape 1 is Poisson, 0.1 very bursty. */
  | { readonly process: "gamma"; readonly shape: number }
  /** Poisson per model, whose rate is drawn anew after each `every`: the model's mean rate times Gamma(shape)/shape. */
  | { readonly process: "modulated"; readonly shape: number; readonly every: Micros }
  /** Evenly spaced per model, each with a random phase. */
  | { readonly process: "uniform" }
  /** Recorded: times, models and SLOs come from the file; the rate scales time. */
  | { readonly process: "trace"; readonly entries: readonly TraceEntry[] };

export interface TraceEntry {
  /** Time from the beginning of the trace. */
  readonly at: Micros;
  readonly model: string;
  readonly app: string;
  readonly slo: Micros | undefined;
}

export interface Phase {
  readonly from: Micros;
  readonly factor: number;
  /** Shares per model, where popularity changes too. */
  readonly shares?: readonly number[];
}

/** Delays of the network in µs; jitter 0.1: each within ±10 %, evenly. */
export interface Network {
  /**
   * Delay from the publisher until the scheduler receives a request; it is part of the request's SLO. Default: 0.
   * Baselines receive requests at once.
   */
  readonly arrive?: Micros;
  /** Requests leave their ingress together, at most once in this time. Default: each leaves when it comes. */
  readonly gather?: Micros;
  readonly ctrl: Micros;
  /** Delay per item of a batch. */
  readonly data: Micros;
  readonly respond: Micros;
  readonly jitter: number;
}
