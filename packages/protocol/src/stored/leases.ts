/** Leases: values of the bucket of leases, taken and renewed by compare-and-set (T5). */
import { type Static, schema } from "../schema.ts";
import { stored } from "./stored.ts";

export const leaseKeys = {
  ranker: (subCluster: string): string => `ranker.${subCluster}`,
  model: (modelNumber: number): string => `model.${modelNumber}`,
  slot: (gpu: number): string => `slot.${gpu}`,
  /**
   * Lease of the operation that restarts actors one after the other. Two at once could stop a role's last ones
   * together.
   */
  operation: "operation",
} as const;

/** Value of `leaseKeys.ranker(subCluster)`: the leader. The entry's revision is its epoch. */
export const RankerLease = stored("lease of a ranker", 1, schema.record({ ranker: schema.actor }));

/** Value of `leaseKeys.model(number)`: the model's batcher. The entry's revision is its term. */
export const BatcherLease = stored("lease of a batcher", 1, schema.record({ batcher: schema.actor }));

/** Value of `leaseKeys.operation`. */
export const OperationLease = stored(
  "lease of an operation",
  1,
  schema.record({
    /** Operator and operation, for people. */
    who: schema.text(),
    what: schema.text(),
    /** Identifies the holder's own entry where the store's answer was lost. */
    id: schema.optional(schema.text()),
  }),
);
export type OperationLease = Static<typeof OperationLease>;
