/**
 * Weighted max-min fairness: nobody can get more without taking it from one who has less per weight.
 * docs/algorithms.md, A12.
 */

/** A claimant's demand and weight; rates in any one unit. */
export interface Claim {
  readonly demand: number;
  /** Above zero. */
  readonly weight: number;
}

/**
 * The water level: with it each claim gets min(demand, level · weight), and together they get `capacity`.
 *
 * @returns +Infinity when the capacity suffices for all
 */
export function waterLevel(capacity: number, claims: readonly Claim[]): number {
  const byNeed = [...claims].sort((a, b) => a.demand / a.weight - b.demand / b.weight);
  let left = capacity;
  let weights = 0;
  for (const { weight } of byNeed) weights += weight;
  for (const { demand, weight } of byNeed) {
    if (demand * weights > left * weight) return Math.max(0, left) / weights;
    left -= demand;
    weights -= weight;
  }
  return Infinity;
}

/**
 * Deals one application's share among its priorities. The floor goes to all but the highest, max-min. The rest, and the
 * unused part of the floor, goes to the highest first. So a priority gets what higher ones leave, and the lower ones
 * together never get less than the floor while they ask for it.
 *
 * @param demands - highest priority first
 * @param floor - fraction of the share, 0 … 1
 * @returns what each gets; together min(share, all demands)
 */
export function dealByPriority(share: number, demands: readonly number[], floor: number): number[] {
  const lower = demands.slice(1).map((demand) => ({ demand, weight: 1 }));
  const level = waterLevel(share * floor, lower);
  const dealt = demands.map((demand, i) => (i === 0 ? 0 : Math.min(demand, level)));
  let left = share;
  for (const part of dealt) left -= part;
  return dealt.map((part, i) => {
    const more = Math.min(demands[i]! - part, left);
    left -= more;
    return part + more;
  });
}
