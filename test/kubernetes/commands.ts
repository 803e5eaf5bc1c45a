/** Messages between the test and the load in its pod, and what both know. */
import type { Strike } from "../e2e/chaos/record.ts";

/** Room for a machine that does other things as well: what is lost shows, and how long things take does not. */
export const SLO_MS = 5_000;
export const PER_SECOND = 20;
/** Least share in time, for a machine on which pods start all the while. */
export const SHARE_MIN = 0.9;
/** A request that is answered later than this after its deadline is lost, as one that is never answered. */
export const GRACE_MS = 10_000;

export type AskerCommand =
  | { readonly op: "load-models" | "start" | "back" | "end" }
  /** Something is about to be done to `name`. */
  | ({ readonly op: "strike" } & Pick<Strike, "name" | "role" | "signal">)
  /** Answered once requests that are sent `ms` later are answered well. */
  | { readonly op: "good"; readonly ms: number };

export interface AskerReply {
  readonly error?: string;
  readonly sent?: number;
  readonly failures?: readonly string[];
  readonly text?: string;
}
