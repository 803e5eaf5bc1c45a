/** Turns an incoming request into one that can be held, or into the error that refuses it: admit, read, accept. */
import type { Delivery } from "@tutti/ports/bus";
import type { Clock } from "@tutti/ports/clock";
import type { Decoded, Decoder } from "@tutti/ports/decode";
import { HEADER, REQUEST_BYTES_MAX, TuttiError, mayReply, threadOf } from "@tutti/protocol";
import { type Logger, type Tracer, formatTraceparent } from "@tutti/ports/telemetry";
import { type Micros, jobThreadOf } from "@tutti/units";
import { fnv1a } from "@tutti/wire";
import {
  type Catalog,
  type CatalogModel,
  type LocalRequest,
  type ModelLease,
  reserve,
  NOBODY,
} from "@tutti/actors/runtime";
import {
  checkFeasible,
  checkNames,
  checkRoom,
  checkSize,
  checkWanted,
  readSubject,
  tooLarge,
} from "../admission/admission.ts";
import type { Answers } from "./answers.ts";
import { type CancellationHandler, cancelledError } from "./cancellation-handler.ts";
import { PendingRequest } from "./pending-request.ts";
import { type PendingRequests, memoryOf } from "./pending-requests.ts";
import { holdNoLonger, leavingError } from "../admission/job-admission.ts";
import { type ColdStarts, parkedError } from "../admission/cold-starts.ts";
import type { IngressFigures } from "../figures/ingress-figures.ts";
import type { PipelineRunner } from "../pipelines/pipeline-runner.ts";
import type { RefusalLog } from "../refusals/refusal-log.ts";
import type { OutcomeTicket } from "./outcome-ticket.ts";
import { EncodedBody, LocalSource, MessageSource, type RequestBody, type RequestSource } from "./request-source.ts";
import { endOutcomeSpan, startRequestSpan } from "../figures/request-spans.ts";
import type { Shedding } from "../admission/shedding.ts";
import type { VersionRouter } from "../admission/version-router.ts";

export interface RequestIntakeOptions {
  readonly clock: Clock;
  readonly tracer: Tracer;
  readonly log: Logger;
  readonly replyScope: "app" | "any";
  readonly decoder: Decoder;
  readonly catalog: Catalog;
  readonly versions: Pick<VersionRouter, "resolve">;
  readonly pending: PendingRequests;
  readonly shedding: Shedding;
  readonly coldStarts: Pick<ColdStarts, "timeOf" | "want">;
  readonly cancels: CancellationHandler;
  readonly answers: Answers;
  readonly figures: IngressFigures;
  readonly refusals: Pick<RefusalLog, "note">;
  /** d_resp. */
  readonly respond: () => Micros;
  readonly pipelines: PipelineRunner | undefined;
  /** @param lease - of its model, as it was when the request came */
  readonly onAccepted: (request: PendingRequest, lease: ModelLease) => void;
  /** Whether the ingress is being drained. */
  readonly isLeaving: () => boolean;
  /** @throws {TuttiError} NOT_READY if the cluster takes no jobs for the model now */
  readonly takesJobs: (model: CatalogModel) => void;
  /** A request has left the intake without being accepted. */
  readonly onTurnedAway: () => void;
}

export class RequestIntake {
  readonly #options: RequestIntakeOptions;
  /** Requests whose bodies are being read. */
  decoding = 0;

  constructor(options: RequestIntakeOptions) {
    this.#options = options;
  }

  /** Takes a publisher's message. @param onSettled - set for a warm-up request */
  receive(delivery: Delivery, onSettled?: () => void): void {
    const { clock, replyScope, figures, tracer, pipelines, catalog } = this.#options;
    const arrivedAt = clock.now();
    const names = readSubject(delivery.subject);
    const { reply, subject } = delivery;
    if (names === undefined || reply === undefined || !mayReply(replyScope, names.app, reply)) {
      figures.undeliverable++; // There is no reply subject, or none that may be used.
      return;
    }
    const { target, app } = names;
    const request = new PendingRequest({ target, app, reply, arrivedAt, onSettled, ticket: undefined });
    if (onSettled === undefined) {
      request.messageId = delivery.header(HEADER.messageId);
      request.publisherTrace = delivery.header(HEADER.traceparent);
      request.span = startRequestSpan(tracer, request, subject);
    }
    try {
      checkNames(request);
      request.appId = fnv1a(app);
      checkSize(delivery);
      if (pipelines?.has(target) === true) pipelines.receive(delivery, request);
      else this.#admit(request, new MessageSource(delivery, reply));
    } catch (error) {
      this.#turnAway(error, request, catalog.target(target));
    }
  }

  /** Takes a request of the gateway in this process, which differs from others only in the recipient of its outcome. */
  ask(local: LocalRequest, ticket: OutcomeTicket): void {
    const { clock, tracer, catalog } = this.#options;
    const { target, app, id, traceparent, arrivedAt = clock.now(), refusal } = local;
    const asked = { target, app, reply: NOBODY, arrivedAt, onSettled: undefined, ticket };
    const request = new PendingRequest(asked);
    request.messageId = id;
    request.publisherTrace = traceparent;
    request.span = startRequestSpan(tracer, request, undefined);
    try {
      checkNames(request);
      request.appId = fnv1a(app);
      request.slo = local.slo ?? request.slo;
      if (refusal !== undefined) throw refusal;
      const source = new LocalSource(local);
      if (source.byteLength > REQUEST_BYTES_MAX) throw tooLarge(source.byteLength);
      this.#admit(request, source);
    } catch (error) {
      this.#turnAway(error, request, catalog.target(target));
    }
  }

  /** Takes a request of a pipeline's stage, whose model and terms its run has set. */
  submit(request: PendingRequest, tensors: Uint8Array): void {
    this.#sample(request, request.slo);
    try {
      this.#read(request, new EncodedBody(tensors));
    } catch (error) {
      this.#turnAway(error, request, request.model);
    }
  }

  /** @throws {TuttiError} why it is refused */
  #admit(request: PendingRequest, source: RequestSource): void {
    const { target } = request;
    if (source.isJob) this.#markJob(request);
    const { model, isVersioned } = this.#options.versions.resolve({ target, version: source.version, id: source.id });
    request.model = model;
    if (request.isJob) this.#options.takesJobs(model);
    request.isVersioned = isVersioned;
    if (isVersioned) request.span?.set({ "tutti.version": model.spec.version });
    request.priority = source.priority();
    // The overload of a model with a single bucket is known before the body is read.
    const refusal = model.spec.buckets.length === 1 && !request.isJob ? this.#overShare(request, 0) : undefined;
    if (refusal !== undefined) {
      this.#sample(request, model.spec.slo);
      return this.#shed(refusal, request);
    }
    source.readTerms(request);
    if (request.isJob) holdNoLonger(request);
    this.#sample(request, request.slo);
    this.#read(request, source);
  }

  /** Comes before anything refuses it: no figure of requests counts a job. */
  #markJob(request: PendingRequest): void {
    request.isJob = true;
    this.#options.figures.requests--;
    request.span?.set({ "tutti.job": true });
  }

  /** @throws {TuttiError} OVERLOADED, or the fault of a decoder */
  #read(request: PendingRequest, body: RequestBody): void {
    const { pending, cancels, decoder } = this.#options;
    const { reply, app, account, ticket } = request;
    const { byteLength } = body;
    checkRoom(pending, request, byteLength);
    let isRead = false;
    const endReading = (): void => {
      isRead = true;
      this.decoding--;
      pending.release(account, byteLength);
    };
    this.decoding++;
    pending.reserve(account, byteLength);
    try {
      body.decode(request, decoder, (outcome) => {
        endReading();
        const isCancelled = ticket?.isGone ?? cancels.endReading(reply);
        if (isCancelled) this.#turnAway(cancelledError(), request, request.model);
        else if (outcome instanceof Error) this.#turnAway(outcome, request, request.model);
        else this.#accept(request, outcome);
      });
    } catch (error) {
      // A decoder that fails must not keep the room, or a few such requests would take all of it.
      if (!isRead) endReading();
      throw error;
    }
    if (!isRead && ticket === undefined) cancels.beginReading(reply, app);
  }

  #accept(request: PendingRequest, decoded: Decoded): void {
    const { clock, pending, respond, coldStarts, onAccepted } = this.#options;
    const { model, slo, span } = request;
    const { row, bucket, id, units } = decoded;
    try {
      if (request.isJob && this.#options.isLeaving()) throw leavingError();
      const lease = model.lease;
      if (lease === undefined)
        throw new TuttiError("TUTTI_NOT_READY", `"${model.spec.name}" has no batcher yet`, { retryAfterMs: 200 });
      const coldStart = coldStarts.timeOf(model);
      if (coldStart > 0) this.#wake(request, coldStart);
      checkFeasible(request, decoded, clock.now(), reserve(respond(), slo));
      request.wanted = checkWanted(decoded.wanted ?? request.wanted, model);
      const refusal = model.spec.buckets.length > 1 && !request.isJob ? this.#overShare(request, bucket) : undefined;
      if (refusal !== undefined) return this.#shed(refusal, request);
      checkRoom(pending, request, memoryOf(row));
      const thread = threadOf(model.spec, bucket);
      request.thread = request.isJob ? jobThreadOf(thread) : thread;
      request.publisherId = id;
      request.row = row;
      if (!(request.units > 0)) request.units = units;
      if (span !== undefined) request.traceparent = formatTraceparent(span.context);
      onAccepted(request, lease);
    } catch (error) {
      this.#turnAway(error, request, model);
    }
  }

  /** @throws {TuttiError} a warm-up request wakes no model */
  #wake(request: PendingRequest, coldStart: Micros): void {
    const { model, onSettled, ticket } = request;
    if (onSettled !== undefined) throw parkedError(model.spec.name);
    // The deadline of a stage's request is the pipeline's to set.
    if (ticket?.isStage !== true) request.waitsFor(coldStart);
    this.#options.coldStarts.want(model);
  }

  #sample({ onSettled, model, app, arrivedAt, isJob }: PendingRequest, slo: Micros): void {
    if (onSettled === undefined && !isJob) this.#options.figures.sampler.arrived(model.spec, app, slo, arrivedAt);
  }

  #overShare(request: PendingRequest, bucket: number): TuttiError | undefined {
    const { shedding } = this.#options;
    if (shedding.size === 0) return undefined;
    const { spec } = request.model;
    return shedding.refusal(threadOf(spec, bucket), request, spec.slo);
  }

  /** Refuses as cheaply as possible: in an overload this is most of an ingress' work. */
  #shed(error: TuttiError, request: PendingRequest): void {
    if (request.ticket === undefined) this.#options.answers.refuseAlike(request.reply, error);
    this.#turnedAway(error, request, request.model);
  }

  /** @param model - its figures count the refusal: the model that serves it, or until its body is read the named one */
  #turnAway(cause: unknown, request: PendingRequest, model: CatalogModel | undefined): void {
    const { answers, log } = this.#options;
    let error: TuttiError;
    if (cause instanceof TuttiError) error = cause;
    else {
      const text = "the request could not be read because of a fault on our side";
      error = new TuttiError("TUTTI_INTERNAL", text, { cause });
      log.error({ error: String(cause) }, "reading a request failed");
    }
    if (request.ticket === undefined) answers.refuse(request.reply, error);
    this.#turnedAway(error, request, model);
  }

  #turnedAway(error: TuttiError, request: PendingRequest, model: CatalogModel | undefined): void {
    const { figures, refusals, clock, onTurnedAway } = this.#options;
    const { span, onSettled, ticket, isJob } = request;
    refusals.note(request, { error, by: "ingress", now: clock.now(), results: undefined });
    if (isJob) figures.jobs.refuseAtTheDoor(error, model?.spec);
    else if (ticket?.isStage === true) {
      if (model !== undefined) figures.refuseStage(error.code, model.spec);
    } else if (onSettled === undefined) figures.refuseAtTheDoor(error, model?.spec);
    else onSettled();
    if (span !== undefined) endOutcomeSpan(span, { error, late: false, now: clock.now() });
    ticket?.outcome(error);
    onTurnedAway();
  }
}
