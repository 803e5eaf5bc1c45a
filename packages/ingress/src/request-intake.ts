/** Turns an incoming request into one that can be held, or into the error that refuses it. */
import type { Delivery } from "@tutti/ports/bus";
import type { Clock } from "@tutti/ports/clock";
import type { Decoded, Decoder } from "@tutti/ports/decode";
import { HEADER, REQUEST_BYTES_MAX, TuttiError, threadOf } from "@tutti/protocol";
import type { Logger, Tracer } from "@tutti/ports/telemetry";
import type { Micros } from "@tutti/units";
import { fnv1a } from "@tutti/wire";
import { type Catalog, type CatalogModel, type LocalRequest, reserve, NOBODY } from "@tutti/actors/runtime";
import type { Accepted, Arrival } from "./accepted.ts";
import {
  checkFeasible,
  checkNames,
  checkRoom,
  checkSize,
  mayReply,
  readSubject,
  readWanted,
  tooLarge,
} from "./admission.ts";
import type { Answers } from "./answers.ts";
import { type CancellationHandler, cancelledError } from "./cancellation-handler.ts";
import type { PendingRequests } from "./pending-requests.ts";
import type { IngressFigures } from "./ingress-figures.ts";
import type { PipelineRunner } from "./pipelines/pipeline-runner.ts";
import type { StageRequest } from "./pipelines/stage-request.ts";
import type { OutcomeTicket } from "./outcome-ticket.ts";
import { BinaryBody, LocalSource, MessageSource, type RequestBody, type RequestSource } from "./request-source.ts";
import { endOutcomeSpan, startRequestSpan } from "./request-spans.ts";
import type { Shedding } from "./shedding.ts";
import type { VersionRouter } from "./version-router.ts";

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
  readonly cancels: CancellationHandler;
  readonly answers: Answers;
  readonly figures: IngressFigures;
  /** d_resp. */
  readonly respond: () => Micros;
  readonly pipelines: PipelineRunner | undefined;
  readonly onAccepted: (accepted: Accepted) => void;
  /** A request has left the intake without being accepted. */
  readonly onTurnedAway: () => void;
}

type AtTheDoor = Pick<Arrival, "reply" | "span" | "onSettled" | "ticket"> & {
  readonly model: CatalogModel | undefined;
};

/** The requester: the names in its request, and the recipient of the outcome. */
interface Asker extends Pick<Arrival, "reply" | "span" | "onSettled" | "ticket" | "arrivedAt"> {
  readonly names: { readonly target: string; readonly app: string };
}

export class RequestIntake {
  readonly #options: RequestIntakeOptions;
  /** Requests whose bodies are being read. */
  decoding = 0;

  constructor(options: RequestIntakeOptions) {
    this.#options = options;
  }

  /** @param onSettled - set for a warm-up request */
  receive(delivery: Delivery, onSettled?: () => void): void {
    const { clock, replyScope, figures, tracer, pipelines } = this.#options;
    const arrivedAt = clock.now();
    const names = readSubject(delivery.subject);
    const { reply, subject } = delivery;
    if (names === undefined || reply === undefined || !mayReply(replyScope, names.app, reply)) {
      figures.undeliverable++; // There is no reply subject, or none that may be used.
      return;
    }
    const id = delivery.header(HEADER.messageId);
    const traceparent = delivery.header(HEADER.traceparent);
    const about = { ...names, subject, id, traceparent, at: arrivedAt };
    const span = onSettled === undefined ? startRequestSpan(tracer, about) : undefined;
    const asker: Asker = { names, reply, span, onSettled, ticket: undefined, arrivedAt };
    this.#admit(asker, () => {
      checkSize(delivery);
      if (pipelines?.has(names.target) !== true) return new MessageSource(delivery, reply);
      pipelines.receive(delivery, { ...names, reply, span, arrivedAt });
      return undefined;
    });
  }

  /** Takes a request of the gateway in this process, which differs from others only in the recipient of its outcome. */
  ask(request: LocalRequest, ticket: OutcomeTicket): void {
    const { clock, tracer } = this.#options;
    const { target, app, id, traceparent } = request;
    const names = { target, app };
    const arrivedAt = clock.now();
    const span = startRequestSpan(tracer, { ...names, subject: undefined, id, traceparent, at: arrivedAt });
    this.#admit({ names, reply: NOBODY, span, onSettled: undefined, ticket, arrivedAt }, () => {
      const source = new LocalSource(request);
      if (source.byteLength > REQUEST_BYTES_MAX) throw tooLarge(source.byteLength);
      return source;
    });
  }

  /** Takes a request of a pipeline's stage. */
  submit({ tensors, ...request }: StageRequest): void {
    const { pending, figures } = this.#options;
    const arrival: Arrival = {
      ...request,
      reply: NOBODY,
      form: "binary",
      sizeHint: 0,
      wantedText: undefined,
      isVersioned: false,
      onSettled: undefined,
    };
    figures.sampler.arrived(arrival.model.spec, arrival.app, arrival.timing.slo, arrival.arrivedAt);
    try {
      checkRoom(pending, arrival.app, tensors.byteLength);
      this.#read(new BinaryBody(tensors), arrival);
    } catch (error) {
      this.#turnAway(error, arrival);
    }
  }

  /** @param open - checks the request; undefined if a pipeline has taken it */
  #admit(asker: Asker, open: () => RequestSource | undefined): void {
    const { names, reply, span, onSettled, ticket, arrivedAt } = asker;
    const { catalog, versions, pending, figures } = this.#options;
    try {
      checkNames(names);
      const source = open();
      if (source === undefined) return;
      const { target, app } = names;
      const { model, isVersioned } = versions.resolve({ target, version: source.version, id: source.id });
      if (isVersioned) span?.set({ "tutti.version": model.spec.version });
      const priority = source.priority();
      // The overload of a model with a single bucket is known before the body is read.
      const refusal = model.spec.buckets.length === 1 ? this.#overShare(model, 0, app, priority) : undefined;
      if (refusal !== undefined) {
        if (onSettled === undefined) figures.sampler.arrived(model.spec, app, model.spec.slo, arrivedAt);
        return this.#shed(refusal, { reply, span, onSettled, model, ticket });
      }
      const timing = source.timing(model.spec, arrivedAt);
      const arrival: Arrival = {
        ...{ reply, app, model, isVersioned, arrivedAt, timing, priority, span, onSettled, ticket },
        form: source.form(),
        sizeHint: source.sizeHint(),
        wantedText: source.wantedText(),
      };
      if (onSettled === undefined) figures.sampler.arrived(model.spec, app, timing.slo, arrivedAt);
      checkRoom(pending, app, source.byteLength);
      this.#read(source, arrival);
    } catch (error) {
      this.#turnAway(error, { reply, span, onSettled, model: catalog.target(names.target), ticket });
    }
  }

  #read(body: RequestBody, arrival: Arrival): void {
    const { pending, cancels, decoder } = this.#options;
    const { model, reply, app, timing } = arrival;
    const appId = fnv1a(app);
    const { byteLength } = body;
    let isRead = false;
    const endReading = (): void => {
      isRead = true;
      this.decoding--;
      pending.release(appId, byteLength);
    };
    this.decoding++;
    pending.reserve(appId, byteLength);
    try {
      body.decode({ spec: model.spec, app, deadline: timing.deadline, decoder }, (outcome) => {
        endReading();
        const isCancelled = arrival.ticket?.isGone ?? cancels.endReading(reply);
        if (isCancelled) this.#turnAway(cancelledError(), arrival);
        else if (outcome instanceof Error) this.#turnAway(outcome, arrival);
        else this.#accept(arrival, outcome);
      });
    } catch (error) {
      // A decoder that fails must not keep the room, or a few such requests would take all of it.
      if (!isRead) endReading();
      throw error;
    }
    if (!isRead && arrival.ticket === undefined) cancels.beginReading(reply, app);
  }

  #accept(arrival: Arrival, decoded: Decoded): void {
    const { clock, pending, respond, onAccepted } = this.#options;
    const { model, timing, app, sizeHint } = arrival;
    try {
      const lease = model.lease;
      if (lease === undefined)
        throw new TuttiError("TUTTI_NOT_READY", `"${model.spec.name}" has no batcher yet`, { retryAfterMs: 200 });
      checkFeasible(model, decoded, timing, clock.now(), reserve(respond(), timing.slo));
      const wanted = readWanted(arrival.wantedText, decoded.wanted, model);
      const { row, bucket, id } = decoded;
      const refusal = model.spec.buckets.length > 1 ? this.#overShare(model, bucket, app, arrival.priority) : undefined;
      if (refusal !== undefined) return this.#shed(refusal, arrival);
      checkRoom(pending, app, row.byteLength);
      const units = sizeHint > 0 ? sizeHint : decoded.units;
      onAccepted({ arrival, lease, bucket, publisherId: id, wanted, row, units });
    } catch (error) {
      this.#turnAway(error, arrival);
    }
  }

  #overShare({ spec }: CatalogModel, bucket: number, app: string, priority: number): TuttiError | undefined {
    const { shedding } = this.#options;
    if (shedding.size === 0) return undefined;
    return shedding.refusal(threadOf(spec, bucket), { app: fnv1a(app), priority }, spec.slo);
  }

  /** Refuses as cheaply as possible: in an overload this is most of an ingress' work. */
  #shed(error: TuttiError, request: AtTheDoor): void {
    if (request.ticket === undefined) this.#options.answers.refuseAlike(request.reply, error);
    this.#turnedAway(error, request);
  }

  #turnAway(cause: unknown, request: AtTheDoor): void {
    const { answers, log } = this.#options;
    let error: TuttiError;
    if (cause instanceof TuttiError) error = cause;
    else {
      const text = "the request could not be read because of a fault on our side";
      error = new TuttiError("TUTTI_INTERNAL", text, { cause });
      log.error({ error: String(cause) }, "reading a request failed");
    }
    if (request.ticket === undefined) answers.refuse(request.reply, error);
    this.#turnedAway(error, request);
  }

  #turnedAway(error: TuttiError, { span, onSettled, model, ticket }: AtTheDoor): void {
    const { figures, clock, onTurnedAway } = this.#options;
    if (ticket?.isStage === true) {
      if (model !== undefined) figures.refuseStage(error.code, model.spec);
    } else if (onSettled === undefined) figures.refuseAtTheDoor(error, model?.spec, clock.now());
    else onSettled();
    if (span !== undefined) endOutcomeSpan(span, { error, late: false, now: clock.now() });
    ticket?.outcome(error);
    onTurnedAway();
  }
}
