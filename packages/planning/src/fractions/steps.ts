/** Steps of elastic partitioning, round by round: they explain why a model has its part. */
import type { GpuletPlan } from "./gpulet.ts";
import type { FractionModel } from "./model.ts";

interface Round {
  readonly model: FractionModel;
  /** Rate served by this round, and rate that was left before it. */
  readonly rate: number;
  readonly rest: number;
  /** p_req of the rate that was left; Infinity where no size carries it. */
  readonly required: number;
}
interface PlacedRound extends Round {
  readonly executor: number;
  readonly place: number;
  readonly size: number;
  readonly plan: GpuletPlan;
  /** Factor f beside the other part; 1 where that is empty, or where neighbours don't interfere. */
  readonly factor: number;
  /** Whether the other part's plan had to change. */
  readonly hasRefitted: boolean;
}

export type PartitionStep =
  /** The model takes turns with the models of an occupied part. */
  | (PlacedRound & { readonly kind: "shared"; readonly occupancy: number; readonly choices: number })
  /** The model has an empty part to itself. */
  | (PlacedRound & {
      readonly kind: "part";
      readonly knee: number;
      /** Whether a whole executor was split for it. */
      readonly isSplit: boolean;
      /** Number of candidates rejected before: too small, or beside a neighbour that couldn't bear it. */
      readonly refused: number;
    })
  | (Round & { readonly kind: "failed"; readonly knee: number });

export type OnPartitionStep = (step: PartitionStep) => void;
