/** What a simulation runs: a workload, a cluster and a policy, as the scenario file describes them once its defaults are filled in. */
import type { LatencyTable } from "@tutti/profile";
import type { Micros } from "@tutti/units";

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
  /** Requests per second, all models together. */
  readonly rate: number;
  readonly arrivals: Arrivals;
  readonly network: Network;
  /** One entry per stream: `count` in the file is spread out here, names get a number. */
  readonly models: readonly ScenarioModel[];
  /** How the rate changes over time: factors of `rate` from each moment on; empty where it doesn't. */
  readonly phases: readonly Phase[];
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
}

export type Arrivals =
  | { readonly process: "poisson" }
  /** Renewal process with Gamma(shape) gaps, per model: shape 1 is Poisson, 0.1 very bursty. */
  | { readonly process: "gamma"; readonly shape: number }
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
  /** From the publisher until the scheduler knows of a request, which is so much of its SLO: 0 where it is left out. Rivals hear at once. */
  readonly arrive?: Micros;
  readonly ctrl: Micros;
  /** Per item of a batch. */
  readonly data: Micros;
  readonly respond: Micros;
  readonly jitter: number;
}
