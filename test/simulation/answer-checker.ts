/**
 * Checks T1 and T2. T1: each request that an ingress got is answered once, by its deadline plus the time that an answer
 * may take, unless that ingress died. T2: an answer carries the outputs of its request, and executors get rows only of
 * requests that still wait.
 */
import type { PulledItem } from "@tutti/protocol";
import type { DataHandlers } from "@tutti/ports/pull";
import type { Instant, Micros } from "@tutti/units";
import { floatOf } from "../fixtures/actor-cluster/echo-model.ts";
import type { Incarnation } from "../fixtures/actor-cluster/process.ts";
import { outputOf } from "./families.ts";
import type { Plan } from "./plan.ts";
import { RefusalChecker } from "./refusal-checker.ts";
import type { Report } from "./violation.ts";
import type { Asked, Outcome } from "./watcher.ts";

/**
 * Most time from a deadline to the answer: an ingress waits d_resp longer than the deadline, 50 ms at most
 * (ANSWERED_WITHIN in packages/ingress).
 */
const ANSWER_US_MAX = 50_000;

/** Two hops, and the time that an ingress waits before it sends an undelivered answer again. */
const HEARD_US_MAX = 100_000;

const CODES = new Set([
  "ok",
  "no-responders",
  "TUTTI_DEADLINE_INFEASIBLE",
  "TUTTI_OVERLOADED",
  "TUTTI_DEADLINE_EXCEEDED",
  "TUTTI_NOT_READY",
  "TUTTI_NOT_FOUND",
  "TUTTI_INTERNAL",
  "TUTTI_INVALID_INPUT",
]);

export class AnswerChecker {
  readonly #report: Report;
  readonly #plan: Plan;
  readonly #now: () => Instant;
  readonly #byReply = new Map<string, Asked>();
  readonly #byId: Asked[] = [];
  /** Time of each request's last answer. */
  readonly #answered = new Map<Asked, Instant>();
  /** Requests of which the bus took an answer. */
  readonly #taken = new Set<Asked>();
  readonly #uninsured = new Set<Asked>();

  constructor(report: Report, now: () => Instant, plan: Plan) {
    this.#report = report;
    this.#plan = plan;
    this.#now = now;
    this.#refusals = new RefusalChecker(report, plan);
  }
  readonly #refusals: RefusalChecker;

  asked(asked: Asked): void {
    this.#byReply.set(asked.reply, asked);
    this.#byId[asked.id] = asked;
  }

  /** @param coldStartOf - time beyond the SLO that the actor gives a request for a model now */
  accepted(actor: Incarnation, reply: string | undefined, coldStartOf: (model: string) => Micros): void {
    const asked = reply === undefined ? undefined : this.#byReply.get(reply);
    if (asked === undefined) return;
    asked.acceptedBy = actor;
    asked.acceptedAt = this.#now();
    asked.coldStart = coldStartOf(asked.model);
  }

  /** The publishers' connections are back: answers sent to them meanwhile must still arrive. */
  publishersBack(): void {
    this.#publishersBackAt = this.#now();
  }
  #publishersBackAt = -Infinity;

  /**
   * Checks an ingress' publication to a reply subject.
   *
   * @param taken - whether the bus took it: an answer that it did not is tried again on the next connection
   * @param isKept - whether the ingress keeps the answer to send it again, unlike a refusal of one class to many
   *   (packages/actors, `refuseAlike`)
   */
  sent(actor: Incarnation, reply: string, taken: boolean, isKept: boolean): void {
    const asked = this.#byReply.get(reply);
    if (asked === undefined) return;
    if (asked.acceptedBy !== actor) this.#report("T2", `${actor.name} answers request ${asked.id}, which it never got`);
    const before = this.#answered.get(asked);
    this.#answered.set(asked, this.#now());
    const wasTaken = this.#taken.has(asked);
    if (taken) this.#taken.add(asked);
    if (taken && !isKept) this.#uninsured.add(asked);
    if (before !== undefined) {
      if (!wasTaken) return;
      // An ingress can't know whether an answer sent before a break arrived: it may repeat the same answer.
      if (actor.process.bulkBackAt < before) this.#report("T1", `request ${asked.id} is answered a second time`);
      return;
    }
    const latest = Math.max(this.#timeLimit(asked), actor.wokenAt + 5_000);
    if (this.#now() > latest) this.#report("T1", `request ${asked.id} is answered ${this.#now() - latest} µs too late`);
  }

  outcome(asked: Asked, outcome: Outcome): void {
    const { status, value, text, output } = outcome;
    const first = asked.outcomes[0];
    if (first?.status !== status || !Object.is(first.value, value))
      this.#report("T1", `request ${asked.id} got ${first?.status} first and ${status} then`);
    if (status === "ok" && value !== Math.fround(asked.id))
      this.#report("T2", `request ${asked.id} got the output ${value}`);
    if (status === "ok" && output !== outputOf(this.#plan, asked.model))
      this.#report("T2", `request ${asked.id} of ${asked.model} got ${output ?? "the output of no variant"}`);
    const { isJob, cancelledAt } = asked.kind;
    const isExplained =
      CODES.has(status) ||
      (status === "TUTTI_CANCELLED" && cancelledAt !== undefined) ||
      // Its model was parked, and no executor had loaded it in time.
      (status === "TUTTI_UNAVAILABLE" && asked.coldStart > 0) ||
      // An ingress that leaves takes no job, which may take long.
      (status === "TUTTI_UNAVAILABLE" && isJob);
    if (status.startsWith("TUTTI_")) this.#refusals.refused(asked, outcome, () => this.#waitingBeside(asked));
    if (!isExplained) this.#report("T1", `request ${asked.id} ends with ${status} (${text}), which nothing explains`);
  }

  /** Requests that an ingress had got before another, and not answered yet. */
  *#waitingBeside(asked: Asked): Iterable<Asked> {
    for (const one of this.#byId)
      if (
        one !== undefined &&
        one !== asked &&
        one.acceptedBy === asked.acceptedBy &&
        one.acceptedAt <= asked.acceptedAt
      )
        if ((this.#answered.get(one) ?? Infinity) >= asked.acceptedAt) yield one;
  }

  /** Watches the rows that are handed out: a row's value is the id of its request. */
  watch(actor: Incarnation, handlers: DataHandlers): DataHandlers {
    return {
      onResults: (results) => handlers.onResults(results),
      onPull: (pull, reply) =>
        handlers.onPull(pull, (items) => {
          this.handedOut(actor, items ?? []);
          reply(items);
        }),
    };
  }

  handedOut(actor: Incarnation, items: readonly PulledItem[]): void {
    for (const { row } of items) {
      const asked = row === undefined ? undefined : this.#byId[floatOf(row)];
      if (asked === undefined) continue; // A warm-up request's.
      if (asked.acceptedBy !== actor) this.#report("T2", `${actor.name} hands out the input of ${asked.id}`);
      if (this.#answered.has(asked)) this.#report("T2", `the input of ${asked.id} is handed out after its answer`);
    }
  }

  /** Reports requests that should have been answered by now. */
  check(): void {
    for (const asked of this.#byReply.values()) {
      const actor = asked.acceptedBy;
      if (actor === undefined || !actor.alive || actor.paused) continue;
      const answeredAt = this.#answered.get(asked);
      if (answeredAt !== undefined) {
        this.#checkHeard(asked, actor, answeredAt);
        continue;
      }
      if (this.#now() > Math.max(this.#timeLimit(asked), actor.wokenAt + 5_000))
        this.#report("T1", `request ${asked.id}, accepted by ${actor.name}, has no answer`);
    }
  }

  /** Checks that an answer arrives, also one sent while the connection was away, or lost with it. */
  #checkHeard(asked: Asked, actor: Incarnation, answeredAt: Instant): void {
    if (asked.outcomes.length > 0 || actor.process.bulkAway) return;
    const breaksEndedAt = Math.max(actor.process.bulkBackAt, this.#publishersBackAt);
    if (this.#uninsured.has(asked) && breaksEndedAt > answeredAt) return;
    const since = Math.max(answeredAt, actor.process.bulkBackAt, actor.wokenAt, this.#publishersBackAt);
    if (this.#now() > since + HEARD_US_MAX)
      this.#report("T1", `the answer to request ${asked.id} of ${actor.name} did not get there`);
  }

  #timeLimit(asked: Asked): number {
    return asked.acceptedAt + asked.slo + asked.coldStart + ANSWER_US_MAX;
  }
}
