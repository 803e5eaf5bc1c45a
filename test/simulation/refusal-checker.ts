/**
 * Whether refusals say what is so (docs/messages.md, Errors and Sending again): whether to send a request again and
 * when, how much time would have been feasible, and that an ingress which says that it is full holds so many.
 */
import { parseDuration } from "@tutti/units";
import { PIPELINE } from "./pipelines.ts";
import type { Plan } from "./plan.ts";
import type { Report } from "./violation.ts";
import type { Asked, Outcome } from "./watcher.ts";

/** Codes whose requests may always be sent again, and those whose never may. */
const AGAIN = new Set(["TUTTI_OVERLOADED", "TUTTI_UNAVAILABLE", "TUTTI_DEADLINE_EXCEEDED"]);
const NEVER_AGAIN = new Set(["TUTTI_NOT_FOUND", "TUTTI_INTERNAL", "TUTTI_INVALID_INPUT", "TUTTI_CANCELLED"]);
const RETRY_MS_MAX = 10_000;
const FEASIBLE = /at least ([\d.]+ ?[a-zµ]+) would (?:have been|be) feasible/;
/** Most requests that one to the pipeline counts as: itself, three of the second stage and one of the branch. */
const STAGED_MOST = 5;

export class RefusalChecker {
  readonly #report: Report;
  readonly #plan: Plan;

  constructor(report: Report, plan: Plan) {
    this.#report = report;
    this.#plan = plan;
  }

  /** @param waiting - requests that the ingress had got and not answered when it got this one, without it */
  refused(asked: Asked, outcome: Outcome, waiting: () => Iterable<Asked>): void {
    const { status, text, retryable, retryAfterMs } = outcome;
    const wrong = (what: string): void => this.#report("refusal", `request ${asked.id}: ${status} (${text}) ${what}`);
    if (AGAIN.has(status) && retryable !== true) wrong("may be sent again, and says that it may not");
    if (NEVER_AGAIN.has(status) && retryable !== false) wrong("says that it may be sent again");
    const mayAgain = status === "TUTTI_OVERLOADED" || (status === "TUTTI_DEADLINE_INFEASIBLE" && retryable === true);
    if (mayAgain && retryAfterMs === undefined) wrong("does not say when to send it again");
    if (retryAfterMs !== undefined && !(retryAfterMs >= 1 && retryAfterMs <= RETRY_MS_MAX))
      wrong(`is to be sent again after ${retryAfterMs} ms`);
    const feasible = FEASIBLE.exec(text)?.[1];
    // A pipeline's refusal is a stage's, which has a part of its time. Jobs and later steps have more than their SLO.
    const isPlain = asked.model !== PIPELINE && asked.kind.patience === 1;
    if (feasible !== undefined && isPlain && (parseDuration(feasible.replace(" ", "")) ?? 0) < asked.slo)
      wrong(`would have been feasible, as it had ${asked.slo} µs`);
    // A stage's request comes later than the whole.
    if (!text.startsWith("stage ")) this.#checkFull(text, waiting, wrong);
  }

  #checkFull(text: string, waiting: () => Iterable<Asked>, wrong: (what: string) => void): void {
    const isFull = text.includes("INGRESS_REQUESTS_MAX");
    if (!isFull && !text.includes("PIPELINE_INSTANCES_MAX")) return;
    const { requestsMax, pipelined, models } = this.#plan;
    let [plain, whole] = [0, 0];
    for (const { model } of waiting()) {
      if (model === PIPELINE) whole++;
      else plain++;
    }
    const most = isFull ? requestsMax : (pipelined?.instancesMax ?? 0);
    // An ingress holds a warm-up request of each model, perhaps.
    const held = isFull ? plain + STAGED_MOST * whole + models.length : whole;
    if (held < most) wrong(`was refused by an ingress that holds ${held} of ${most}`);
  }
}
