import type { DetailedRun, GoodputBound } from "@tutti/simulator";
import type { PortableScenario } from "@tutti/sim-report/scenarios";

/** A worker gets one message at a time, and answers it before the next. */
export interface ToSweepWorker {
  readonly kind: "run" | "bound";
  readonly scenario: PortableScenario;
}

export type FromSweepWorker =
  | { readonly kind: "run"; readonly run: DetailedRun }
  | { readonly kind: "bound"; readonly bound: GoodputBound }
  | { readonly kind: "failed"; readonly text: string };
