import type { DetailedRun, GoodputBound } from "@tutti/simulator";
import type { PortableScenario } from "@tutti/sim-report/scenarios";

/** A worker gets one message at a time, and answers it before the next. */
export type ToSweepWorker =
  | { readonly kind: "run" | "bound"; readonly scenario: PortableScenario }
  | { readonly kind: "non-preemptive"; readonly scenario: PortableScenario; readonly clairvoyantRps: number };

export type FromSweepWorker =
  | { readonly kind: "run"; readonly run: DetailedRun }
  | { readonly kind: "bound"; readonly bound: GoodputBound }
  | { readonly kind: "non-preemptive"; readonly rate: number }
  | { readonly kind: "failed"; readonly text: string };
