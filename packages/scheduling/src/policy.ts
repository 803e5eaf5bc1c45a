/**
 * When a batch should start. All policies share one code path, and differ by the start that they wait for.
 * docs/algorithms.md, A6.
 */
import type { Instant, Micros } from "@tutti/units";
import { ALWAYS } from "@tutti/units";
import type { Request } from "./messages.ts";

export type Policy =
  /**
   * Deferred, but earlier and with smaller targets, depending on the measured burstiness of arrivals: Tutti's default.
   */
  | { readonly kind: "adaptive" }
  /** The last start at which a request arriving meanwhile could still join: as published. */
  | { readonly kind: "deferred" }
  /** Starts at once. */
  | { readonly kind: "eager" }
  /** Starts `wait` after the arrival of the head, but never so late that the head would miss its deadline. */
  | { readonly kind: "timeout"; readonly wait: Micros }
  /** The last start that meets the head's deadline. */
  | { readonly kind: "latest" }
  /** Starts at once if the batch has at least β·λ requests, otherwise deferred. */
  | { readonly kind: "beta-lambda" };

/**
 * Purpose of the adaptive policy's waiting. "latency": a batch waits only as far as accelerators are too scarce to do
 * without the time that it saves. "accelerators": it waits even when they are not, so that no more accelerators are in
 * use than the load needs.
 */
export type Preference = "latency" | "accelerators";

export interface Window {
  readonly frontrun: number;
  readonly latest: number;
  /** Arrival of the batch's first request. */
  readonly headArrivedAt: number;
  readonly batchSize: number;
  readonly batchSizeMax: number;
  /** Time by which the adaptive policy starts earlier than frontrun. */
  readonly early: number;
}

/**
 * The start that `policy` waits for; `ALWAYS` if it waits for nothing. The planned start is the later of this and the
 * earliest possible one.
 *
 * @param betaTimesRate - β·λ: the batch size from which waiting for one more no longer pays
 */
export function awaitedStart(policy: Policy, window: Window, betaTimesRate: number): Instant {
  const isFull = window.batchSize === window.batchSizeMax;
  switch (policy.kind) {
    case "adaptive":
      return (window.frontrun - window.early) as Instant;
    case "deferred":
      return window.frontrun as Instant;
    case "eager":
      return ALWAYS;
    case "timeout":
      // A6 prints no bound; a wait that outlasts the deadline would then make every candidate stale (A3).
      return isFull ? ALWAYS : (Math.min(window.headArrivedAt + policy.wait, window.latest) as Instant);
    case "latest":
      return window.latest as Instant;
    case "beta-lambda":
      return window.batchSize >= betaTimesRate ? ALWAYS : (window.frontrun as Instant);
  }
}

/**
 * Moves an awaited start towards the eager one: `patience` 0 waits for nothing, 1 waits in full.
 *
 * The eager start is counted from the head's arrival, not from now. Counted from now, each recalculation would move the
 * goal on by a part of the rest, and a granted batch would never be due.
 */
export function withPatience(awaited: Instant, eager: Instant, patience: number): Instant {
  if (patience === 1 || awaited <= eager) return awaited;
  return Math.floor(eager + patience * (awaited - eager)) as Instant;
}

/**
 * Time by which a batch that ends at `deadline` is to end. A head with more time than its SLO has waited for its parked
 * model: once that is loaded, what is left of the additional time is no reason to wait for more requests.
 */
export function aimOf(head: Pick<Request, "arrivedAt" | "slo" | "deadline">, deadline: number): number {
  const due = head.arrivedAt + head.slo;
  return head.deadline > due && deadline > due ? due : deadline;
}
