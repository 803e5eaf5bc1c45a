/** Which of a pool's types of accelerators serve a model (docs/algorithms.md, 0). */

export interface OfferedType {
  /** Largest share of an SLO, less its delays, that one request alone takes there; above 1 it can't be met. */
  readonly tightness: number;
  /** Requests that all of this type run at a time, one by one, relative to the others. */
  readonly capacity: number;
}

/**
 * A type with less room than half a run of its own. Plans with it leave faster ones no time to gather batches: where
 * they take 2 or 4 times as long, two thirds of the faster ones' goodput are lost at 0.95, a third at 0.77, and at 0.67
 * it adds to theirs.
 */
export const ROOMY = 1 / 1.5;

/**
 * Types that serve the model: those with room to wait for an accelerator, if they carry as much as the others that
 * could serve it; otherwise all that can meet the SLO, and if none can, all.
 *
 * @returns whether each does
 */
export function servingTypes(types: readonly OfferedType[]): readonly boolean[] {
  const capacityOf = (from: number, to: number): number =>
    types.reduce((sum, one) => sum + (one.tightness > from && one.tightness <= to ? one.capacity : 0), 0);
  const roomy = capacityOf(0, ROOMY);
  const most =
    roomy > 0 && roomy >= capacityOf(ROOMY, 1) ? ROOMY : types.some((one) => one.tightness <= 1) ? 1 : Infinity;
  return types.map(({ tightness }) => tightness <= most);
}
