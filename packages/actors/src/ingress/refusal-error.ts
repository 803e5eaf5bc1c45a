import { TuttiError, type codeOfNumber } from "@tutti/protocol";
import { type Micros, formatDuration } from "@tutti/units";
import type { Held } from "./held-requests.ts";

/** What a publisher reads when a batcher refused its request. */
export function refusalError(held: Held, code: ReturnType<typeof codeOfNumber>, feasible: Micros): TuttiError {
  const name = held.model.spec.name;
  const least =
    feasible > 0 && Number.isFinite(feasible) ? `; at least ${formatDuration(feasible)} would have been feasible` : "";
  if (code === "TUTTI_DEADLINE_INFEASIBLE")
    return new TuttiError(code, `"${name}" couldn't have met ${formatDuration(held.slo)} even alone${least}`);
  if (code === "TUTTI_OVERLOADED")
    return new TuttiError(
      code,
      `"${name}" is overloaded: the request was dropped to keep the batches behind it in time${least}`,
      { retryAfterMs: Math.ceil(held.slo / 1000) },
    );
  return new TuttiError(code, `"${name}" could not be served now`);
}
