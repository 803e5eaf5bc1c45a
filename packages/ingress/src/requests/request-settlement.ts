/** Holds each accepted request until it has its one outcome: hold, arrive, settle. */
import type { Alarm, Clock } from "@tutti/ports/clock";
import { RequestRefused, type ResultBatch, TuttiError, codeOfNumber } from "@tutti/protocol";
import type { Tracer } from "@tutti/ports/telemetry";
import { type Instant, type Micros, after } from "@tutti/units";
import type { ActorRuntime, Catalog, ModelLease } from "@tutti/actors/runtime";
import type { Answers } from "./answers.ts";
import type { AppNames } from "../admission/app-names.ts";
import type { ArrivalStreams } from "./arrival-streams.ts";
import { type CancellationHandler, cancelledError } from "./cancellation-handler.ts";
import type { IngressFigures } from "../figures/ingress-figures.ts";
import type { ColdStarts } from "../admission/cold-starts.ts";
import type { PendingRequest } from "./pending-request.ts";
import type { PendingRequests } from "./pending-requests.ts";
import { leavingError } from "../admission/job-admission.ts";
import type { RefusalLog } from "../refusals/refusal-log.ts";
import { refusalError } from "../refusals/refusal-error.ts";
import type { LateRuns } from "../figures/late-runs.ts";
import { endRequestSpan, traceAccepted } from "../figures/request-spans.ts";
import type { Shedding } from "../admission/shedding.ts";

export interface RequestSettlementOptions {
  readonly runtime: ActorRuntime;
  readonly clock: Clock;
  readonly tracer: Tracer;
  readonly pending: PendingRequests;
  readonly arrivalStreams: ArrivalStreams;
  readonly catalog: Pick<Catalog, "leaseOf">;
  readonly coldStarts: Pick<ColdStarts, "failure">;
  readonly shedding: Shedding;
  readonly cancels: CancellationHandler;
  readonly answers: Answers;
  readonly figures: IngressFigures;
  readonly refusals: Pick<RefusalLog, "note">;
  readonly lateRuns: Pick<LateRuns, "ended">;
  readonly appNames: AppNames;
  /** How long after a request's deadline its timer fires. */
  readonly timerLate: () => Micros;
  readonly onEnded: () => void;
}

export class RequestSettlement {
  readonly #options: RequestSettlementOptions;
  readonly #timer: Alarm;
  #timerAt: Instant = Infinity as Instant;

  constructor(options: RequestSettlementOptions) {
    this.#options = options;
    options.runtime.reader.on(RequestRefused, (refusal, sender) => {
      const held = options.pending.get(refusal.seq);
      if (held?.thread !== refusal.thread || !options.arrivalStreams.holds(held.thread, sender)) return;
      held.refusedBy = sender;
      held.refusedIn = refusal.queue[0];
      held.feasible = refusal.feasible;
      this.settle(held, this.#refusalError(held, refusal));
    });
    this.#timer = options.clock.alarm(() => this.#onTimer());
  }

  /** @param lease - of its model, as it was when the request came; the present one counts, if there is one */
  hold(request: PendingRequest, lease: ModelLease): void {
    const { pending, arrivalStreams, catalog, cancels, figures, appNames, clock, timerLate } = this.#options;
    const { model, app, lastDeadline, onSettled, ticket, span } = request;
    if (request.isJob) figures.jobs.accept(model.spec);
    else if (onSettled === undefined) {
      figures.accept(model.spec);
      appNames.note(app);
    }
    if (ticket !== undefined) ticket.held = request;
    request.keepIds();
    pending.add(request, after(lastDeadline, timerLate()));
    cancels.hold(request);
    this.#armTimer();
    const holder = catalog.leaseOf(model.spec.number) ?? lease;
    if (span !== undefined) traceAccepted(request, holder, clock.now());
    arrivalStreams.arrive(request, holder);
  }

  /** Cancels a request. One that runs can't be stopped; its result finds nothing (INGRESS-2). */
  cancel(held: PendingRequest): void {
    if (held.executor === 0) this.#options.arrivalStreams.withdraw(held);
    this.settle(held, cancelledError());
  }

  /** The one place where a held request gets its answer (INGRESS-2). */
  settle(held: PendingRequest, outcome: Uint8Array | TuttiError, results?: ResultBatch): void {
    const { pending, cancels, figures, refusals, clock, tracer, onEnded } = this.#options;
    // A settled request settles the siblings of its pipeline too, perhaps before their turn.
    if (pending.get(held.seq) !== held) return;
    const now = clock.now();
    pending.remove(held);
    cancels.release(held);
    const error = this.#answer(held, outcome);
    // An answer that fits into no message is refused here, though its run succeeded.
    const hasFailed = results !== undefined && error === outcome;
    const by = hasFailed ? "executor" : held.refusedBy !== 0 ? "batcher" : "ingress";
    if (held.isJob) figures.jobs.settle(held, error, now);
    else if (held.onSettled === undefined) figures.settle(held, { error, by, now, results });
    else held.onSettled();
    refusals.note(held, { error, by, now, results });
    if (held.span !== undefined) {
      endRequestSpan(tracer, held, { error, heardAt: now, now: clock.now(), results });
      if (results === undefined) this.#options.lateRuns.ended(held);
    }
    held.ticket?.outcome(error ?? outcome, results);
    onEnded();
  }

  /** The ingress leaves, and can't wait until there is time for its jobs: whoever sent them sends them again. */
  giveJobsBack(): void {
    for (const held of this.#options.pending.values()) {
      if (!held.isJob) continue;
      if (held.executor === 0) this.#options.arrivalStreams.withdraw(held);
      this.settle(held, leavingError());
    }
  }

  close(): void {
    this.#timer.clear();
  }

  /** @returns the error that was sent */
  #answer(held: PendingRequest, outcome: Uint8Array | TuttiError): TuttiError | undefined {
    const { answers } = this.#options;
    if (held.ticket !== undefined) return outcome instanceof TuttiError ? outcome : undefined;
    if (!(outcome instanceof TuttiError)) return answers.ok(held, held.model.spec, outcome);
    answers.refuse(held.reply, outcome);
    return outcome;
  }

  #refusalError(held: PendingRequest, { code, feasible }: RequestRefused): TuttiError {
    const { shedding, coldStarts } = this.#options;
    const name = codeOfNumber(code);
    const failure = name === "TUTTI_DEADLINE_INFEASIBLE" ? coldStarts.failure(held) : undefined;
    return failure ?? refusalError(held, name, { feasible, keep: shedding.keepOf(held.thread, held) });
  }

  #armTimer(): void {
    const next = this.#options.pending.nextTimerAt;
    // A timer that fires for an answered request costs less than setting one for each answer.
    if (next >= this.#timerAt) return;
    this.#timerAt = next;
    this.#timer.set(next);
  }

  /** INGRESS-1: answers all requests whose timer is due, the anchor of T1. */
  #onTimer(): void {
    const { pending, arrivalStreams, coldStarts, clock } = this.#options;
    const now = clock.now();
    for (let held = pending.due(now); held !== undefined; held = pending.due(now)) {
      if (held.batch === 0) arrivalStreams.withdraw(held);
      this.settle(
        held,
        coldStarts.failure(held) ??
          new TuttiError(
            "TUTTI_DEADLINE_EXCEEDED",
            `no result within ${held.timeText}: the batch was lost, or ran longer than planned`,
          ),
      );
    }
    this.#timerAt = Infinity as Instant;
    this.#armTimer();
  }
}
