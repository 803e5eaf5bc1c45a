/** The largest rate of a mix that a pool of accelerators of one type carries (docs/algorithms.md, D9). */
import { type PoolCapacity, type TypedPoolModel, typedCapacity } from "./typed-capacity.ts";

export interface PooledModel extends Omit<TypedPoolModel, "profiles"> {
  readonly profile: NonNullable<TypedPoolModel["profiles"][number]>;
}

/** @param count - of accelerators */
export function poolCapacity(models: readonly PooledModel[], count: number): PoolCapacity {
  return typedCapacity(
    models.map(({ profile, ...one }) => ({ ...one, profiles: [profile] })),
    [count],
  );
}
