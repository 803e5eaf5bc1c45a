/** Shares the capacity of a period among applications and their priorities: SHARE-2 and SHARE-3 of fair-shares.ts. */
import type { AppAccount, ClassAccount } from "./class-account.ts";
import { dealByPriority, waterLevel } from "./max-min.ts";

export interface ShareRules {
  /** Weights by application number. Undefined: an application's weight is its usual rate, see `usual`. */
  readonly weights?: ReadonlyMap<number, number> | undefined;
  /** Weight of applications that `weights` doesn't name. */
  readonly otherWeight?: number;
  /** Part of an application's share that its lower priorities keep, whatever the higher ones ask for. */
  readonly priorityFloor?: number;
}

const PRIORITY_FLOOR = 0.1;
/** Least weight of an application, as a fraction of the average one: newcomers have no past. */
const NEWCOMER = 1 / 8;

/**
 * Gives each class the rate that it may send in the next period.
 *
 * @param rate - the capacity, requests per µs
 * @param period - µs; demands are requests a period
 */
export function dealShares(apps: readonly AppAccount[], rate: number, period: number, rules: ShareRules): void {
  const weights = weightsOf(apps, rules);
  const claims = apps.map(({ classes }, i) => {
    let demand = 0;
    for (const one of classes) demand += one.demand;
    return { demand, weight: weights[i]! };
  });
  const level = waterLevel(rate * period, claims);
  for (const [i, { classes }] of apps.entries()) {
    const { demand, weight } = claims[i]!;
    // At an infinite level there is nothing to share out: all may come.
    const share = level === Infinity ? Infinity : level * weight;
    if (demand <= share) for (const one of classes) limit(one, share, share, period);
    else dealWithin(classes, share, period, rules.priorityFloor ?? PRIORITY_FLOOR);
  }
}

/** Shares an application's part among its priorities (SHARE-3). */
function dealWithin(classes: readonly ClassAccount[], share: number, period: number, floor: number): void {
  const demands = classes.map(({ demand }) => demand);
  const dealt = dealByPriority(share, demands, floor);
  let strict = share * (1 - floor);
  for (const [i, one] of classes.entries()) {
    // A high priority that suddenly asks for more gets it at once: the share was reserved for it.
    limit(one, Math.max(dealt[i]!, strict), dealt[i]!, period);
    strict = Math.max(0, strict - demands[i]!);
  }
}

/**
 * @param perPeriod - requests of this class that may queue
 * @param expected - requests of this class that should reach the queue
 */
function limit(account: ClassAccount, perPeriod: number, expected: number, period: number): void {
  const rate = perPeriod / period;
  // A newly limited class starts with half a period of tokens.
  if (account.rate === Infinity && rate < Infinity) account.tokens = Math.max(1, perPeriod / 2);
  account.rate = rate;
  account.keep = account.demand <= expected ? 1 : expected / account.demand;
}

function weightsOf(apps: readonly AppAccount[], { weights, otherWeight = 1 }: ShareRules): number[] {
  if (weights !== undefined) return apps.map(({ app }) => weights.get(app) ?? otherWeight);
  let usual = 0;
  for (const account of apps) usual += account.usual;
  const least = (usual / apps.length) * NEWCOMER;
  return apps.map((account) => (usual === 0 ? 1 : Math.max(account.usual, least)));
}
