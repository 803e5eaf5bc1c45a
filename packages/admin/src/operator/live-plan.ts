/**
 * The plan that a running cluster follows: places of models and accelerators, the next plan, and the reasons. Pure: it
 * is computed from the values in the bucket of plans.
 */
import type { Placement, PlanReport } from "@tutti/protocol";

export interface LivePlan {
  readonly kind: "live";
  /** Every requested model has a place. */
  readonly feasible: boolean;
  /** 0: there has been no plan, and everything belongs to the sub-cluster `main`. */
  readonly epoch: number;
  /** Seconds since the last change of the placement, and since the planner's last report; null: never. */
  readonly madeS: number | null;
  readonly seenS: number | null;
  readonly current: LivePlaces;
  /** The places after all models on the move have arrived and all waiting ones have moved. */
  readonly next: LivePlaces;
  readonly difference: {
    readonly models: readonly {
      readonly model: string;
      readonly from: string;
      readonly to: string;
      readonly state: "moving" | "waiting";
    }[];
    readonly accelerators: readonly { readonly gpu: number; readonly from: string; readonly to: string }[];
  };
  readonly leftOut: readonly { readonly model: string; readonly text: string }[];
  readonly subClusters: PlanReport["subClusters"];
  /** The number of sub-clusters that are used, and why; null: only one has a leader. */
  readonly division: NonNullable<PlanReport["division"]> | null;
  /** Rate that all accelerators would carry as one sub-cluster; null: they are one, or it is not known. */
  readonly undividedRps: number | null;
  readonly advice: PlanReport["advice"] | null;
  readonly reasons: readonly { readonly ageS: number; readonly about: string; readonly text: string }[];
}
export interface LivePlaces {
  readonly models: readonly LiveModel[];
  readonly accelerators: readonly { readonly gpu: number; readonly subCluster: string }[];
}
export interface LiveModel {
  readonly model: string;
  readonly subCluster: string;
  /** Requests per second, accelerators that they keep busy, bytes of weights; null: not reported. */
  readonly rate: number | null;
  readonly work: number | null;
  readonly memoryBytes: number | null;
}

/** @param nowUs - since the Unix epoch */
export function livePlan(placement: Placement | undefined, report: PlanReport | undefined, nowUs: number): LivePlan {
  const known = new Map(report?.models.map((model) => [model.number, model]));
  const nameOf = (number: number): string => known.get(number)?.name ?? `model ${number}`;
  const waiting = new Map(report?.waiting.map(({ number, to }) => [number, to]));
  const obeyed = new Map(
    report?.executors.flatMap(({ gpus, subCluster }) => gpus.map((gpu) => [gpu as number, subCluster])),
  );
  const ageOf = (at: number): number => Math.max(0, Math.round((nowUs - at) / 1e5) / 10);
  const modelAt = (number: number, subCluster: string): LiveModel => {
    const { rate = null, work = null, memoryBytes = null } = known.get(number) ?? {};
    return { model: nameOf(number), subCluster, rate, work, memoryBytes };
  };
  const models = placement?.models ?? [];
  const gpus = placement?.gpus ?? [];
  const moves = models.flatMap(({ number, subCluster, next }) => {
    const to = next ?? waiting.get(number);
    const state = next === undefined ? ("waiting" as const) : ("moving" as const);
    return to === undefined || to === subCluster ? [] : [{ number, from: subCluster, to, state }];
  });
  const goals = new Map(moves.map(({ number, to }) => [number, to]));
  return {
    kind: "live",
    feasible: (report?.leftOut.length ?? 0) === 0,
    epoch: placement?.epoch ?? 0,
    madeS: placement === undefined ? null : ageOf(placement.madeAt),
    seenS: report === undefined ? null : ageOf(report.at),
    current: {
      models: models.map(({ number, subCluster }) => modelAt(number, subCluster)),
      accelerators: gpus.map(({ gpu, subCluster }) => ({ gpu, subCluster: obeyed.get(gpu) ?? subCluster })),
    },
    next: {
      models: models.map(({ number, subCluster }) => modelAt(number, goals.get(number) ?? subCluster)),
      accelerators: gpus.map(({ gpu, subCluster }) => ({ gpu, subCluster })),
    },
    difference: {
      models: moves.map(({ number, ...move }) => ({ model: nameOf(number), ...move })),
      accelerators: gpus.flatMap(({ gpu, subCluster: to }) => {
        const from = obeyed.get(gpu);
        return from === undefined || from === to ? [] : [{ gpu, from, to }];
      }),
    },
    leftOut: (report?.leftOut ?? []).map(({ number, text }) => ({ model: nameOf(number), text })),
    subClusters: report?.subClusters ?? [],
    division: report?.division ?? null,
    undividedRps: report?.undividedRps ?? null,
    advice: report?.advice ?? null,
    reasons: (report?.reasons ?? []).map(({ at, about, text }) => ({ ageS: ageOf(at), about, text })),
  };
}
