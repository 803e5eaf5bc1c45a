import { TuttiError, type codeOfNumber } from "@tutti/protocol";
import { type Micros, formatDuration } from "@tutti/units";
import type { PendingRequest } from "../requests/pending-request.ts";
import { retryAfterMs } from "../admission/shedding.ts";

export interface Refusal {
  /** At least this SLO would have been needed; 0 or Infinity: unknown, or time was not the cause. */
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
  // Less than what was asked for is no advice: then not the SLO was short, but nothing ran in time.
  const least =
    feasible > held.slo && Number.isFinite(feasible)
      ? `; at least ${formatDuration(feasible)} would have been feasible`
      : "";
  const again = { retryable: true, retryAfterMs: retryAfterMs(held.slo, keep) };
  if (held.isJob) return jobRefusalError(held, code, feasible);
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

/** A job may always be sent again: accelerators may have time later, and models with short SLOs may go. */
function jobRefusalError(held: PendingRequest, code: ReturnType<typeof codeOfNumber>, feasible: Micros): TuttiError {
  const name = held.model.spec.name;
  const text =
    code !== "TUTTI_DEADLINE_INFEASIBLE"
      ? `"${name}" has as many jobs queued as it takes`
      : feasible > 0
        ? `the requests of ${held.timeText} left no accelerator time for this job of "${name}"`
        : `a job of "${name}" runs longer than requests beside it can wait (docs/algorithms.md, A13)`;
  return new TuttiError(code, text, { retryable: true, retryAfterMs: JOB_RETRY_MS });
}
const JOB_RETRY_MS = 1_000;
