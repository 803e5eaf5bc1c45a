/**
 * The ingress: accepts requests, holds their inputs until they are answered, and gives each publisher its one answer.
 *
 *   I1. Every held request has a timer; whatever happens elsewhere, it is answered at its deadline + d_resp (T1).
 *   I2. A request is answered by taking it out of `held`; who comes later finds nothing and is counted (T1).
 *   I3. Only who pulled a request, with a token that its batcher signed, may answer it (T2).
 */
import type { Delivery, Subscription } from "@tutti/bus";
import type { Alarm, Stop } from "@tutti/clock";
import { type Decoded, type Decoder, inlineDecoder } from "@tutti/decode";
import {
  type DataAddress,
  HEADER,
  INFER_QUEUE,
  INFER_SUBJECT,
  INGRESS_BYTES_MAX,
  INGRESS_REQUESTS_MAX,
  RequestRefused,
  type ResultBatch,
  TuttiError,
  codeOfNumber,
  threadOf,
} from "@tutti/protocol";
import { DelayEstimator } from "@tutti/profile";
import type { DataHandlers } from "@tutti/pull";
import { type Span, formatTraceparent, parseTraceparent } from "@tutti/telemetry";
import {
  type ActorKey,
  type Instant,
  type Micros,
  type RequestSeq,
  after,
  between,
  formatDuration,
  seconds,
} from "@tutti/units";
import { type Form, fnv1a } from "@tutti/wire";
import { Catalog, type CatalogModel, type ModelLease } from "../catalog.ts";
import type { Actor, ActorConfig, ActorPorts } from "../ports.ts";
import { reserve } from "../reserve.ts";
import { Station } from "../station.ts";
import {
  type Timing,
  checkFeasible,
  checkSize,
  mayReply,
  readForm,
  readPriority,
  readSubject,
  readTiming,
  readWanted,
  servingModel,
} from "./admission.ts";
import { Answers } from "./answers.ts";
import { createDataDesk } from "./data-desk.ts";
import { type Held, HeldRequests } from "./held-requests.ts";
import { IngressFigures } from "./ingress-figures.ts";
import { Lanes } from "./lanes.ts";
import { type OwnRequest, WarmUp } from "./warm-up.ts";

export interface IngressConfig extends ActorConfig {
  /** `app`: replies must lie below the application's own inbox prefix; `any`: development on loopback. */
  readonly replyScope: "app" | "any";
  /** Lower bound of d_resp, what an answer takes after its batch has run. */
  readonly respondFloor: Micros;
  readonly requestsMax?: number;
  readonly bytesMax?: number;
}

export interface IngressPorts extends ActorPorts {
  readonly decoder?: Decoder;
  /** Starts the data plane's servers on these handlers. */
  readonly serveData: (handlers: DataHandlers) => {
    readonly address: () => DataAddress | undefined;
    close(done: () => void): void;
  };
}

export function createIngress(ports: IngressPorts, config: IngressConfig, ready: () => void): Actor {
  return new Ingress(ports, config, ready);
}

/** What is known of a request before it is held. */
interface Arrival {
  readonly delivery: { readonly reply: string };
  readonly app: string;
  readonly model: CatalogModel;
  readonly arrivedAt: Instant;
  readonly timing: Timing;
  readonly form: Form;
  readonly priority: number;
  readonly wantedText: string | undefined;
  readonly span: Span | undefined;
}

/** A request on the threshold: read, feasible, and about to be held. */
interface Accepted extends Pick<
  Held,
  "model" | "reply" | "form" | "publisherId" | "wanted" | "row" | "arrivedAt" | "priority" | "span"
> {
  readonly lease: ModelLease;
  readonly bucket: number;
  readonly app: string;
  readonly timing: Timing;
  readonly onSettled?: () => void;
}

class Ingress implements Actor {
  readonly role = "ingress" as const;
  readonly key: ActorKey;
  readonly #ports: IngressPorts;
  readonly #config: IngressConfig;
  readonly #station: Station;
  readonly #catalog: Catalog;
  readonly #held: HeldRequests;
  readonly #lanes: Lanes;
  readonly #answers: Answers;
  readonly #figures = new IngressFigures();
  readonly #warmUp = new WarmUp({ send: (request, done) => this.#sendOwn(request, done) });
  readonly #respond: DelayEstimator;
  readonly #timer: Alarm;
  readonly #introducing: Stop;
  readonly #data: { readonly address: () => DataAddress | undefined; close(done: () => void): void };
  readonly #decoder: Decoder;
  #timerAt: Instant = Infinity as Instant;
  #requests: Subscription | undefined;
  #nextSeq = 1;
  #decoding = 0;
  #drained: (() => void) | undefined;

  constructor(ports: IngressPorts, config: IngressConfig, ready: () => void) {
    this.key = config.key;
    this.#ports = ports;
    this.#config = config;
    this.#decoder = ports.decoder ?? inlineDecoder;
    this.#held = new HeldRequests({
      requestsMax: config.requestsMax ?? INGRESS_REQUESTS_MAX,
      bytesMax: config.bytesMax ?? INGRESS_BYTES_MAX,
    });
    this.#answers = new Answers(ports.bulk);
    this.#respond = new DelayEstimator({
      floor: config.respondFloor,
      quantile: 0.95,
      window: seconds(10),
      capTimes: 5,
    });
    const secret = ports.randomBytes(32);
    this.#station = new Station(ports, config, {
      role: "ingress",
      listensTo: ["batcher", "executor"],
      beat: () => {
        const address = this.#data.address();
        return { arrivals: this.#lanes.lastArrivals(), ...(address === undefined ? {} : { address }) };
      },
      stats: () => this.#stats(),
      // A batcher that starts again, or that falsely lost us, needs the secret anew.
      onJoin: (peer) => peer.role === "batcher" && this.#lanes.introduce(peer.key),
      onLost: (peer) => peer.role === "batcher" && this.#lanes.forget(peer.key),
    });
    this.#lanes = new Lanes({
      station: this.#station,
      held: this.#held,
      secret,
      self: config.key,
      respond: () => this.#respondNow(),
    });
    this.#catalog = new Catalog(ports.store, this.#station.log, {
      onChange: (model, before) => {
        if (model.lease !== undefined && model.status?.state === "ready") this.#warmUp.begin(model);
        if (model.lease !== undefined && model.lease.term !== before?.lease?.term)
          this.#lanes.moved(model, (executor) => this.#station.directory.get(executor) !== undefined);
      },
      onGone: (model) => this.#onModelGone(model),
    });
    this.#station.reader.on(RequestRefused, (refusal, sender) => {
      const held = this.#held.get(refusal.seq);
      if (held !== undefined && held.thread === refusal.thread && this.#lanes.holds(held.thread, sender))
        this.#settle(held, refusalError(held, codeOfNumber(refusal.code), refusal.feasible));
    });
    this.#timer = ports.clock.alarm(() => this.#onTimer());
    this.#introducing = ports.clock.every(seconds(1), () => this.#lanes.introduceAgain());
    this.#data = ports.serveData(
      createDataDesk({
        held: this.#held,
        secret,
        figures: this.#figures,
        settle: (held, outcome, results) => this.#settle(held, outcome, results),
        onResponded: (results) => this.#respond.note(ports.clock.now(), between(results.finishedAt, ports.clock.now())),
      }),
    );
    this.#catalog.open(() => {
      this.#station.open();
      this.#requests = ports.bulk.subscribe(INFER_SUBJECT, (delivery) => this.#onRequest(delivery), {
        queue: INFER_QUEUE,
      });
      ports.bulk.flush(() => ready());
    });
  }

  drain(done: () => void): void {
    this.#requests?.stop();
    this.#drained = () => {
      this.#drained = undefined;
      this.#timer.clear();
      this.#introducing.stop();
      this.#catalog.close();
      this.#data.close(() => this.#ports.bulk.flush(() => this.#station.close(done)));
    };
    this.#endIfDrained();
  }

  #endIfDrained(): void {
    if (this.#held.size === 0 && this.#decoding === 0) this.#drained?.();
  }

  #respondNow(): Micros {
    return this.#respond.value(this.#ports.clock.now());
  }

  #stats() {
    return this.#figures.report({
      held: this.#held.size,
      bytes: this.#held.bytes,
      respondUs: this.#respondNow(),
      answersLost: this.#answers.lost,
    });
  }

  #onRequest(delivery: Delivery): void {
    this.#figures.requests++;
    const arrivedAt = this.#ports.clock.now();
    const names = readSubject(delivery.subject);
    if (
      names === undefined ||
      delivery.reply === undefined ||
      !mayReply(this.#config.replyScope, names.app, delivery.reply)
    ) {
      this.#figures.undeliverable++; // There is nobody to tell, or nobody who may be told.
      return;
    }
    const reply = delivery.reply;
    const span = this.#startSpan(delivery, names.target, names.app, arrivedAt);
    try {
      const model = servingModel(this.#catalog.get(names.target), names.target, delivery.header(HEADER.version));
      checkSize(delivery);
      const arrival: Arrival = {
        delivery: { reply },
        app: names.app,
        model,
        arrivedAt,
        timing: readTiming(delivery, model, arrivedAt),
        form: readForm(delivery),
        priority: readPriority(delivery),
        wantedText: delivery.header(HEADER.outputs),
        span,
      };
      if (!this.#held.fits(delivery.payload.byteLength))
        throw new TuttiError(
          "TUTTI_OVERLOADED",
          `this ingress holds ${this.#held.size} requests and takes no more for now`,
          { retryAfterMs: 50 },
        );
      this.#decoding++;
      this.#decoder.decode({ form: arrival.form, payload: delivery.payload, spec: model.spec }, (outcome) => {
        this.#decoding--;
        if (outcome instanceof Error) this.#refuseAtTheDoor(reply, outcome, span);
        else this.#hold(arrival, outcome);
      });
    } catch (error) {
      this.#refuseAtTheDoor(reply, error, span);
    }
  }

  #hold(arrival: Arrival, decoded: Decoded): void {
    const { model, timing, span } = arrival;
    const reply = arrival.delivery.reply;
    try {
      const lease = model.lease;
      if (lease === undefined)
        throw new TuttiError("TUTTI_NOT_READY", `"${model.spec.name}" has no batcher yet`, { retryAfterMs: 200 });
      checkFeasible(model, decoded.bucket, timing, this.#ports.clock.now(), reserve(this.#respondNow(), timing.slo));
      const wanted = readWanted(arrival.wantedText, decoded.wanted, model);
      const { app, form, arrivedAt, priority } = arrival;
      const { row, bucket, id } = decoded;
      this.#accept({
        model,
        lease,
        bucket,
        app,
        reply,
        form,
        publisherId: id,
        wanted,
        row,
        arrivedAt,
        timing,
        priority,
        span,
      });
    } catch (error) {
      this.#refuseAtTheDoor(reply, error, span);
    }
  }

  #accept(accepted: Accepted): void {
    const { model, timing, span, bucket, lease, app, ...kept } = accepted;
    const held: Held = {
      ...kept,
      seq: this.#nextSeq++ as RequestSeq,
      slot: this.#held.nextSlot(),
      model,
      thread: threadOf(model.spec, bucket),
      appId: fnv1a(app),
      deadline: timing.deadline,
      slo: timing.slo,
      span,
      traceparent: span === undefined ? "" : formatTraceparent(span.context),
      onSettled: accepted.onSettled,
      arrivalSeq: 0,
      batch: 0,
      executor: 0,
      token: undefined,
      earlierBatch: 0,
      earlierExecutor: 0,
      earlierToken: undefined,
    };
    this.#held.add(held, after(timing.deadline, this.#respondNow()));
    this.#armTimer();
    this.#lanes.arrive(held, this.#catalog.leaseOf(model.spec.number) ?? lease);
  }

  /** A request of our own, which nobody waits for: WarmUp. */
  #sendOwn(request: OwnRequest, done: () => void): void {
    const model = this.#catalog.get(request.model.spec.name);
    if (model?.lease === undefined || model.spec.version !== request.model.spec.version || this.#drained !== undefined)
      return;
    const { bucket, row, slo } = request;
    const arrivedAt = this.#ports.clock.now();
    const timing = { deadline: after(arrivedAt, slo), slo };
    const nobody = { reply: undefined, publisherId: undefined, wanted: undefined, span: undefined };
    this.#accept({
      ...nobody,
      model,
      lease: model.lease,
      bucket,
      app: "warm-up",
      form: "binary",
      row,
      arrivedAt,
      timing,
      priority: 0,
      onSettled: done,
    });
  }

  #refuseAtTheDoor(reply: string, cause: unknown, span: Span | undefined): void {
    let error: TuttiError;
    if (cause instanceof TuttiError) error = cause;
    else {
      error = new TuttiError("TUTTI_INTERNAL", "the request could not be read because of a fault on our side", {
        cause,
      });
      this.#station.log.error({ error: String(cause) }, "reading a request failed");
    }
    this.#figures.refuse(error.code);
    this.#answers.refuse(reply, error);
    span?.set({ "tutti.outcome": error.code });
    span?.end(this.#ports.clock.now(), error.message);
    this.#endIfDrained();
  }

  /** The one place where a held request gets its answer (I2). */
  #settle(held: Held, outcome: Uint8Array | TuttiError, results?: ResultBatch): void {
    const now = this.#ports.clock.now();
    this.#held.remove(held);
    if (held.reply === undefined) held.onSettled?.();
    else this.#answer(held, held.reply, outcome, now, results);
    this.#endIfDrained();
  }

  #answer(
    held: Held,
    reply: string,
    outcome: Uint8Array | TuttiError,
    now: Instant,
    results: ResultBatch | undefined,
  ): void {
    let error = outcome instanceof TuttiError ? outcome : undefined;
    if (outcome instanceof TuttiError) this.#answers.refuse(reply, outcome);
    else error = this.#answers.ok(held, reply, outcome);
    if (error === undefined) {
      this.#figures.ok++;
      this.#figures.latencyUs += between(held.arrivedAt, now);
      if (now > held.deadline) this.#figures.late++;
    } else this.#figures.refuse(error.code);
    if (held.span !== undefined) {
      held.span.set({
        "tutti.outcome": error?.code ?? "ok",
        "tutti.late": now > held.deadline,
        "tutti.batch": results?.batchId,
        "tutti.batch_size": results?.batchSize,
        "tutti.gpu": results?.gpu,
      });
      held.span.end(now, error?.message);
    }
  }

  #armTimer(): void {
    const next = this.#held.nextTimerAt;
    // One that fires for a request answered meanwhile costs less than a re-arming for each answer.
    if (next >= this.#timerAt) return;
    this.#timerAt = next;
    this.#timer.set(next);
  }

  /** I1: the anchor of T1. */
  #onTimer(): void {
    const now = this.#ports.clock.now();
    for (let held = this.#held.due(now); held !== undefined; held = this.#held.due(now)) {
      if (held.batch === 0) this.#lanes.withdraw(held);
      this.#settle(
        held,
        new TuttiError(
          "TUTTI_DEADLINE_EXCEEDED",
          `no result within ${formatDuration(held.slo)}: the batch was lost, or ran longer than planned`,
        ),
      );
    }
    this.#timerAt = Infinity as Instant;
    this.#armTimer();
  }

  #onModelGone(model: CatalogModel): void {
    for (const held of [...this.#held.values()]) {
      if (held.model.spec.number === model.spec.number && held.batch === 0)
        this.#settle(held, new TuttiError("TUTTI_NOT_FOUND", `"${model.spec.name}" was unloaded`));
    }
  }

  #startSpan(delivery: Delivery, target: string, app: string, at: Instant): Span | undefined {
    const { tracer } = this.#ports.telemetry;
    const parent = parseTraceparent(delivery.header(HEADER.traceparent));
    if (!tracer.enabled && parent?.sampled !== true) return undefined;
    const attributes = {
      "messaging.system": "nats",
      "messaging.destination.name": delivery.subject,
      "messaging.message.id": delivery.header(HEADER.messageId),
      "tutti.model": target,
      "tutti.app": app,
    };
    return tracer.start(`infer ${target}`, {
      kind: "consumer",
      at,
      attributes,
      ...(parent === undefined ? {} : { parent }),
    });
  }
}

function refusalError(held: Held, code: ReturnType<typeof codeOfNumber>, feasible: Micros): TuttiError {
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
