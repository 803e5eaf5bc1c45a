/** From what came in to a request that can be held, or to the error that says why not. */
import type { Delivery } from "@tutti/bus";
import type { Clock } from "@tutti/clock";
import type { Decoded, Decoder } from "@tutti/decode";
import { HEADER, TuttiError, threadOf } from "@tutti/protocol";
import type { Logger, Tracer } from "@tutti/telemetry";
import type { Micros } from "@tutti/units";
import { fnv1a } from "@tutti/wire";
import type { Catalog, CatalogModel } from "../catalog.ts";
import { reserve } from "../reserve.ts";
import type { Accepted, Arrival } from "./accepted.ts";
import {
  checkFeasible,
  checkNames,
  checkRoom,
  checkSize,
  mayReply,
  readForm,
  readPriority,
  readSizeHint,
  readSubject,
  readTiming,
  readWanted,
} from "./admission.ts";
import type { Answers } from "./answers.ts";
import { type CancelDesk, cancelledError } from "./cancel-desk.ts";
import type { HeldRequests } from "./held-requests.ts";
import type { IngressFigures } from "./ingress-figures.ts";
import { NOBODY } from "./own-request.ts";
import type { PipelineDesk } from "./pipelines/pipeline-desk.ts";
import type { StageRequest } from "./pipelines/stage-ticket.ts";
import { endOutcomeSpan, startRequestSpan } from "./request-spans.ts";
import type { Shedding } from "./shedding.ts";
import type { VersionRouter } from "./version-router.ts";

export interface FrontDoorOptions {
  readonly clock: Clock;
  readonly tracer: Tracer;
  readonly log: Logger;
  readonly replyScope: "app" | "any";
  readonly decoder: Decoder;
  readonly catalog: Catalog;
  readonly versions: Pick<VersionRouter, "resolve">;
  readonly held: HeldRequests;
  readonly shedding: Shedding;
  readonly cancels: CancelDesk;
  readonly answers: Answers;
  readonly figures: IngressFigures;
  /** d_resp. */
  readonly respond: () => Micros;
  readonly pipelines: PipelineDesk | undefined;
  readonly onAccepted: (accepted: Accepted) => void;
  /** A request is no longer at the door, and was not accepted. */
  readonly onTurnedAway: () => void;
}

type AtTheDoor = Pick<Arrival, "reply" | "span" | "onSettled" | "stage"> & { readonly model: CatalogModel | undefined };

export class FrontDoor {
  readonly #options: FrontDoorOptions;
  /** Requests whose bodies are being read. */
  decoding = 0;

  constructor(options: FrontDoorOptions) {
    this.#options = options;
  }

  /** @param onSettled - of a request of our own */
  receive(delivery: Delivery, onSettled?: () => void): void {
    const { clock, replyScope, catalog, versions, held, figures, tracer, pipelines } = this.#options;
    const arrivedAt = clock.now();
    const names = readSubject(delivery.subject);
    const { reply } = delivery;
    if (names === undefined || reply === undefined || !mayReply(replyScope, names.app, reply)) {
      figures.undeliverable++; // There is nobody to tell, or nobody who may be told.
      return;
    }
    const span = onSettled === undefined ? startRequestSpan(tracer, delivery, { ...names, at: arrivedAt }) : undefined;
    try {
      checkNames(names);
      checkSize(delivery);
      if (pipelines?.has(names.target) === true)
        return pipelines.receive(delivery, { ...names, reply, span, arrivedAt });
      const id = delivery.header(HEADER.messageId) ?? reply;
      const { target } = names;
      const { model, isVersioned } = versions.resolve({ target, version: delivery.header(HEADER.version), id });
      if (isVersioned) span?.set({ "tutti.version": model.spec.version });
      const priority = readPriority(delivery);
      // Where one bucket is all there is, its overload is known before the body is read.
      const refusal = model.spec.buckets.length === 1 ? this.#overShare(model, 0, names.app, priority) : undefined;
      if (refusal !== undefined) {
        if (onSettled === undefined) figures.told.arrived(model.spec, names.app, model.spec.slo, arrivedAt);
        return this.#shed(refusal, { reply, span, onSettled, model, stage: undefined });
      }
      const arrival: Arrival = {
        reply,
        app: names.app,
        model,
        isVersioned,
        arrivedAt,
        timing: readTiming(delivery, model, arrivedAt),
        form: readForm(delivery),
        priority,
        sizeHint: readSizeHint(delivery),
        wantedText: delivery.header(HEADER.outputs),
        span,
        onSettled,
        stage: undefined,
      };
      if (onSettled === undefined) figures.told.arrived(model.spec, names.app, arrival.timing.slo, arrivedAt);
      checkRoom(held, names.app, delivery.payload.byteLength);
      this.#read(delivery.payload, arrival);
    } catch (error) {
      const model = catalog.target(names.target);
      this.#turnAway(error, { reply, span, onSettled, model, stage: undefined });
    }
  }

  /** A request of a pipeline's stage: as any other, but for who hears of its outcome. */
  submit({ tensors, ...request }: StageRequest): void {
    const { held, figures } = this.#options;
    const arrival: Arrival = {
      ...request,
      reply: NOBODY,
      form: "binary",
      sizeHint: 0,
      wantedText: undefined,
      isVersioned: false,
      onSettled: undefined,
    };
    figures.told.arrived(arrival.model.spec, arrival.app, arrival.timing.slo, arrival.arrivedAt);
    try {
      checkRoom(held, arrival.app, tensors.byteLength);
      this.#read(tensors, arrival);
    } catch (error) {
      this.#turnAway(error, arrival);
    }
  }

  #read(payload: Uint8Array, arrival: Arrival): void {
    const { held, cancels, decoder } = this.#options;
    const { form, model, reply, app } = arrival;
    const appId = fnv1a(app);
    const { byteLength } = payload;
    let isRead = false;
    this.decoding++;
    held.reserve(appId, byteLength);
    decoder.decode({ form, payload, spec: model.spec }, (outcome) => {
      isRead = true;
      this.decoding--;
      held.release(appId, byteLength);
      const isCancelled = arrival.stage?.isGone ?? cancels.endReading(reply);
      if (isCancelled) this.#turnAway(cancelledError(), arrival);
      else if (outcome instanceof Error) this.#turnAway(outcome, arrival);
      else this.#accept(arrival, outcome);
    });
    if (!isRead && arrival.stage === undefined) cancels.beginReading(reply, app);
  }

  #accept(arrival: Arrival, decoded: Decoded): void {
    const { clock, held, respond, onAccepted } = this.#options;
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
      checkRoom(held, app, row.byteLength);
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

  /** As cheap as can be: in an overload it is most of what an ingress does. */
  #shed(error: TuttiError, request: AtTheDoor): void {
    if (request.stage === undefined) this.#options.answers.refuseAlike(request.reply, error);
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
    if (request.stage === undefined) answers.refuse(request.reply, error);
    this.#turnedAway(error, request);
  }

  #turnedAway(error: TuttiError, { span, onSettled, model, stage }: AtTheDoor): void {
    const { figures, clock, onTurnedAway } = this.#options;
    if (stage !== undefined) {
      if (model !== undefined) figures.refuseStage(error.code, model.spec);
    } else if (onSettled === undefined) figures.refuseAtTheDoor(error, model?.spec, clock.now());
    else onSettled();
    if (span !== undefined) endOutcomeSpan(span, { error, late: false, now: clock.now() });
    stage?.outcome(error);
    onTurnedAway();
  }
}
