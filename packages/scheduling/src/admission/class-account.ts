/**
 * What is known of applications and their priorities while a ModelThread's requests are shared out (fair-shares.ts).
 */
import type { Instant } from "@tutti/units";

/**
 * µs of its rate that a class may let in at once after a pause: arrivals come in bursts, and shares are judged over
 * longer.
 */
const BURST = 250_000;
const BURST_MIN = 8;

export interface AppAccount {
  readonly app: number;
  /** Its rate outside overload, requests per µs: what it counts by where nobody configured it. */
  usual: number;
  /** How long it has been known in calm, µs. */
  calm: number;
  /**
   * Its requests in the last period of calm, which `usual` doesn't know of yet; undefined: none, or it isn't certain
   * that that was calm.
   */
  unsure: number | undefined;
  readonly classes: ClassAccount[];
}

export interface ClassAccount {
  readonly owner: AppAccount;
  readonly priority: number;
  /** Whether anybody but the system itself asked for it. */
  asks: boolean;
  /** In this period. */
  arrivals: number;
  dispatched: number;
  dropped: number;
  /** Requests a period, faded. */
  demand: number;
  /** In this sample. */
  gone: number;
  lost: number;
  /** Dispatched and dropped, requests a period, faded. */
  used: number;
  wasted: number;
  /** Let in per µs; Infinity: all. */
  rate: number;
  keep: number;
  tokens: number;
  refilledAt: number;
}

/** Of a class with a limit: whether this request is within it. */
export function spend(account: ClassAccount, at: Instant): boolean {
  const depth = Math.max(BURST_MIN, account.rate * BURST);
  account.tokens = Math.min(depth, account.tokens + (at - account.refilledAt) * account.rate);
  account.refilledAt = at;
  if (account.tokens < 1) return false;
  account.tokens--;
  return true;
}

/** F4 of FairShares: while most of what is let in comes to nothing, a class claims no more than twice what it uses. */
export const claimOf = ({ demand, used, wasted }: ClassAccount): number =>
  wasted > used ? Math.min(demand, Math.max(2 * used, 1)) : demand;
