/** Counters of applications and their priorities, by which a ModelThread's requests are shared out (fair-shares.ts). */
import type { Instant } from "@tutti/units";

/**
 * Burst that a class may send at once after a pause, in µs of its rate. Arrivals come in bursts, and shares are judged
 * over a longer time.
 */
const BURST = 250_000;
const BURST_MIN = 8;

export interface AppAccount {
  readonly app: number;
  /** Its rate outside overload, requests per µs: its weight if none is configured. */
  usual: number;
  /** Calm time for which it has been known, µs. */
  calm: number;
  /**
   * Its requests in the last calm period, which `usual` doesn't include yet. Undefined: none, or it isn't certain that
   * the period was calm.
   */
  unsure: number | undefined;
  readonly classes: ClassAccount[];
}

export interface ClassAccount {
  readonly owner: AppAccount;
  readonly priority: number;
  /** True if anybody but the system itself has sent requests of it. */
  asks: boolean;
  /** In this period. */
  arrivals: number;
  /** Demand, requests a period, faded. */
  demand: number;
  /** Rate that is admitted, requests per µs; Infinity: all. */
  rate: number;
  keep: number;
  tokens: number;
  refilledAt: number;
}

/** Takes a token of a class with a limit. @returns whether this request is within the limit */
export function spend(account: ClassAccount, at: Instant): boolean {
  const depth = Math.max(BURST_MIN, account.rate * BURST);
  account.tokens = Math.min(depth, account.tokens + (at - account.refilledAt) * account.rate);
  account.refilledAt = at;
  if (account.tokens < 1) return false;
  account.tokens--;
  return true;
}
