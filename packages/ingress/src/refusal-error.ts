import { TuttiError, type codeOfNumber } from "@tutti/protocol";
import { type Micros, formatDuration } from "@tutti/units";
import type { PendingRequest } from "./pending-request.ts";
import { retryAfterMs } from "./shedding.ts";

export interface Refusal {
  /** Least SLO that would have been met; 0 or Infinity: unknown, or time was not the cause. */
  readonly feasible: Micros;
  /** Fraction of its application's requests that is admitted now, 0 … 1. */
  readonly keep: number;
}

/**
 * The error for a publisher whose request was refused by a batcher. The ingress had found the request feasible, so only
 * the load stood in its way, and it may be sent again.
 */
export function refusalError(
  held: PendingRequest,
  code: ReturnType<typeof codeOfNumber>,
  { feasible, keep }: Refusal,
): TuttiError {
  const name = held.model.spec.name;
  const least =
    feasible > 0 && Number.isFinite(feasible) ? `; at least ${formatDuration(feasible)} would have been feasible` : "";
  const again = { retryable: true, retryAfterMs: retryAfterMs(held.slo, keep) };
  if (code === "TUTTI_DEADLINE_INFEASIBLE")
    return new TuttiError(
      code,
      `"${name}" was too busy: when its turn came, the request couldn't have met ${held.timeText} even alone${least}`,
      again,
    );
  if (code === "TUTTI_OVERLOADED")
    return new TuttiError(
      code,
      `"${name}" is overloaded: the request was dropped to keep the batches behind it in time${least}`,
      again,
    );
  return new TuttiError(code, `"${name}" could not be served now`);
}
