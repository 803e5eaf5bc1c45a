import type { Policy, Preference } from "@tutti/scheduling";
import type { ActorConfig } from "../runtime/ports.ts";
import type { DelayFloors } from "./pull-cost.ts";

export interface BatcherConfig extends ActorConfig {
  readonly policy: Policy;
  /** Preference of the adaptive policy. */
  readonly prefer?: Preference;
  readonly gather: "target" | "head";
  /**
   * Knowledge used about running times that depend on the input. `hints`, the default: the distribution of each
   * application and the length of each request; `distributions`: the distributions alone; `means`: nothing but mean
   * latencies. For comparisons.
   */
  readonly latency?: "hints" | "distributions" | "means";
  /** Overrides the patience of the models: 0 eager … 1 full deferral. */
  readonly patience?: number;
  readonly delayFloors: DelayFloors;
  /**
   * Share of its SLO by which a batch starts before frontrun. The window from frontrun to latest is only l(b+1) − l(b)
   * wide: a machine that is late by more than that once would turn a deferred request into a refused one.
   */
  readonly marginShare: number;
}
