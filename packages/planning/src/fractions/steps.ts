/** What elastic partitioning did, round by round, for whoever asks why a model has the part that it has. */
import type { GpuletPlan } from "./gpulet.ts";
import type { FractionModel } from "./model.ts";

interface Round {
  readonly model: FractionModel;
  /** Served by this round, and what was left before it. */
  readonly rate: number;
  readonly rest: number;
  /** p_req of what was left; Infinity where no size carries it. */
  readonly required: number;
}
interface PlacedRound extends Round {
  readonly executor: number;
  readonly place: number;
  readonly size: number;
  readonly plan: GpuletPlan;
  /** f beside the other part as it was; 1 where nothing is there, or neighbours don't matter. */
  readonly factor: number;
  /** Had the other part's plan to change? */
  readonly hasRefitted: boolean;
}

export type PartitionStep =
  /** It takes turns with what the part has. */
  | (PlacedRound & { readonly kind: "shared"; readonly occupancy: number; readonly choices: number })
  /** It has an empty part to itself. */
  | (PlacedRound & {
      readonly kind: "part";
      readonly knee: number;
      /** A whole executor was split for it. */
      readonly isSplit: boolean;
      /** Candidates that were looked at before: too small, or beside a neighbour that couldn't bear it. */
      readonly refused: number;
    })
  | (Round & { readonly kind: "failed"; readonly knee: number });

export type OnPartitionStep = (step: PartitionStep) => void;
