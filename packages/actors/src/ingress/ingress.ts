/**
 * The ingress: accepts requests, holds their inputs until they are answered, and gives each publisher its one answer.
 *
 *   I1. Every held request has a timer; whatever happens elsewhere, it is answered at its deadline + d_resp (T1).
 *   I2. A request is answered by taking it out of `held`; who comes later finds nothing and is counted (T1).
 *   I3. Only who pulled a request, with a token that its batcher signed, may answer it (T2).
 */
import type { Delivery, DeliverySubscription, Subscription } from "@tutti/bus";
import type { Alarm, Stop } from "@tutti/clock";
import { type Decoded, type Decoder, inlineDecoder } from "@tutti/decode";
import {
  APP_BYTES_MAX,
  APP_REQUESTS_MAX,
  CANCEL_SUBJECT,
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
import { type Span, formatTraceparent } from "@tutti/telemetry";
import {
  type ActorKey,
  type Instant,
  type Micros,
  type RequestSeq,
  after,
  before as earlierBy,
  between,
  formatDuration,
  micros,
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
  checkNames,
  checkRoom,
  checkSize,
  mayReply,
  quarantineError,
  readForm,
  readPriority,
  readSubject,
  readTiming,
  readWanted,
  servingModel,
} from "./admission.ts";
import { Answers } from "./answers.ts";
import { type Accepted, type Arrival, heldOf } from "./accepted.ts";
import { CancelDesk } from "./cancel-desk.ts";
import { createDataDesk } from "./data-desk.ts";
import { type Held, HeldRequests } from "./held-requests.ts";
import { IngressFigures } from "./ingress-figures.ts";
import { Lanes } from "./lanes.ts";
import { refusalError } from "./refusal-error.ts";
import { endRequestSpan, startRequestSpan } from "./request-spans.ts";
import { type Rehearsal, WarmUp } from "./warm-up.ts";

export interface IngressConfig extends ActorConfig {
  /** `app`: replies must lie below the application's own inbox prefix; `any`: development on loopback. */
  readonly replyScope: "app" | "any";
  /** Lower bound of d_resp, what an answer takes after its batch has run. */
  readonly respondFloor: Micros;
  /** Requests of its own that it may send when it starts: WarmUp. */
  readonly rehearsal?: Rehearsal;
  readonly requestsMax?: number;
  readonly bytesMax?: number;
  readonly appRequestsMax?: number;
  readonly appBytesMax?: number;
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

type AtTheDoor = Pick<Arrival, "reply" | "span" | "onSettled"> & { readonly model: CatalogModel | undefined };

/** Who moves while requests come for it needs no requests of our own to warm up with. */
const USED_WITHIN = seconds(1);
const NO_REHEARSAL: Rehearsal = { perSecond: 0, time: micros(0) };
const cancelledError = (): TuttiError => new TuttiError("TUTTI_CANCELLED", "cancelled by its publisher");

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
  readonly #warmUp: WarmUp;
  readonly #respond: DelayEstimator;
  readonly #timer: Alarm;
  readonly #introducing: Stop;
  readonly #data: { readonly address: () => DataAddress | undefined; close(done: () => void): void };
  readonly #decoder: Decoder;
  #timerAt: Instant = Infinity as Instant;
  readonly #cancels: CancelDesk;
  #requests: DeliverySubscription | undefined;
  #cancelling: Subscription | undefined;
  #nextSeq = 1;
  #decoding = 0;
  #leaving = false;
  #drained: (() => void) | undefined;

  constructor(ports: IngressPorts, config: IngressConfig, ready: () => void) {
    this.key = config.key;
    this.#ports = ports;
    this.#config = config;
    this.#decoder = ports.decoder ?? inlineDecoder;
    this.#held = new HeldRequests({
      requestsMax: config.requestsMax ?? INGRESS_REQUESTS_MAX,
      bytesMax: config.bytesMax ?? INGRESS_BYTES_MAX,
      appRequestsMax: config.appRequestsMax ?? APP_REQUESTS_MAX,
      appBytesMax: config.appBytesMax ?? APP_BYTES_MAX,
    });
    this.#answers = new Answers(ports.bulk, ports.clock);
    this.#respond = new DelayEstimator({
      floor: config.respondFloor,
      quantile: 0.95,
      window: seconds(10),
      capTimes: 5,
    });
    this.#cancels = new CancelDesk(config.replyScope, (held) => this.#cancel(held));
    this.#warmUp = this.#createWarmUp();
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
      // Its batcher tells us what becomes of a batch; only where that one no longer holds the model must we notice ourselves.
      probes: (peer) => peer.role === "executor" && this.#lanes.watches(peer.key),
      onLost: (peer) => {
        if (peer.role === "batcher") this.#lanes.forget(peer.key);
        else this.#lanes.executorLost(peer.key);
      },
    });
    this.#lanes = new Lanes({
      station: this.#station,
      held: this.#held,
      secret,
      self: config.key,
      respond: () => this.#respondNow(),
    });
    this.#catalog = new Catalog(ports.store, this.#station.log, {
      onChange: (model, before) => this.#onModel(model, before),
      onGone: (model) => this.#onModelGone(model),
    });
    this.#station.reader.on(RequestRefused, (refusal, sender) => {
      const held = this.#held.get(refusal.seq);
      if (held !== undefined && held.thread === refusal.thread && this.#lanes.holds(held.thread, sender))
        this.#settle(held, refusalError(held, codeOfNumber(refusal.code), refusal.feasible));
    });
    this.#timer = ports.clock.alarm(() => this.#onTimer());
    this.#introducing = ports.clock.every(seconds(1), () => this.#lanes.introduceAgain(this.#ports.clock.now()));
    this.#data = ports.serveData(
      createDataDesk({
        held: this.#held,
        secret,
        figures: this.#figures,
        onPulled: (held, batcher) => this.#lanes.pulled(held, batcher),
        onRefused: (held, batcher) => this.#lanes.refused(held, batcher),
        settle: (held, outcome, results) => this.#settle(held, outcome, results),
        onResponded: (results) => this.#respond.note(ports.clock.now(), between(results.finishedAt, ports.clock.now())),
      }),
    );
    this.#catalog.open(() => {
      this.#station.open();
      this.#requests = ports.bulk.subscribe(INFER_SUBJECT, (delivery) => this.#onRequest(delivery), {
        queue: INFER_QUEUE,
      });
      this.#cancelling = ports.bulk.subscribe(CANCEL_SUBJECT, (delivery) => this.#cancels.onDelivery(delivery));
      ports.bulk.flush(() => ready());
    });
  }

  #createWarmUp(): WarmUp {
    return new WarmUp({
      clock: this.#ports.clock,
      rehearsal: this.#config.rehearsal ?? NO_REHEARSAL,
      gpus: () => this.#gpus(),
      send: (request, done) => (!this.#leaving ? this.#receive(request, done) : undefined),
      onWarm: () => this.#station.report(),
    });
  }

  /** T9: later requests go to others of the queue group; what the server has sent here already is taken, and everything taken is answered. */
  drain(done: () => void): void {
    this.#leaving = true;
    const finish = (): void => {
      this.#drained = undefined;
      this.#cancelling?.stop();
      this.#timer.clear();
      this.#introducing.stop();
      this.#catalog.close();
      this.#data.close(() => this.#answers.drain(() => this.#station.close(done)));
    };
    const wait = (): void => {
      this.#drained = finish;
      this.#endIfDrained();
    };
    if (this.#requests === undefined) wait();
    else this.#requests.drain(wait);
  }

  #endIfDrained(): void {
    if (this.#held.size === 0 && this.#decoding === 0) this.#drained?.();
  }

  #respondNow(): Micros {
    return this.#respond.value(this.#ports.clock.now());
  }

  #stats() {
    return this.#figures.report({
      at: this.#ports.clock.now(),
      held: this.#held.size,
      bytes: this.#held.bytes,
      respondUs: this.#respondNow(),
      ...this.#answers.figures,
      warmModels: this.#warmUp.warmModels,
    });
  }

  #gpus(): number {
    let count = 0;
    for (const { gpus } of this.#station.directory.ofRole("executor")) count += gpus?.length ?? 0;
    return count;
  }

  #onRequest(delivery: Delivery): void {
    if (this.#figures.requests++ === 0) this.#warmUp.end();
    this.#receive(delivery);
  }

  /** `onSettled`: it is a request of our own. */
  #receive(delivery: Delivery, onSettled?: () => void): void {
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
    const span =
      onSettled === undefined
        ? startRequestSpan(this.#ports.telemetry.tracer, delivery, { ...names, at: arrivedAt })
        : undefined;
    try {
      checkNames(names);
      checkSize(delivery);
      const model = servingModel(this.#catalog.get(names.target), names.target, delivery.header(HEADER.version));
      const arrival: Arrival = {
        reply,
        app: names.app,
        model,
        arrivedAt,
        timing: readTiming(delivery, model, arrivedAt),
        form: readForm(delivery),
        priority: readPriority(delivery),
        wantedText: delivery.header(HEADER.outputs),
        span,
        onSettled,
      };
      checkRoom(this.#held, names.app, delivery.payload.byteLength);
      this.#read(delivery, arrival);
    } catch (error) {
      this.#refuseAtTheDoor(error, { reply, span, onSettled, model: this.#catalog.get(names.target) });
    }
  }

  #read({ payload }: Delivery, arrival: Arrival): void {
    const { form, model, reply, app } = arrival;
    const appId = fnv1a(app);
    const { byteLength } = payload;
    let isRead = false;
    this.#decoding++;
    this.#held.reserve(appId, byteLength);
    this.#decoder.decode({ form, payload, spec: model.spec }, (outcome) => {
      isRead = true;
      this.#decoding--;
      this.#held.release(appId, byteLength);
      if (this.#cancels.endReading(reply)) this.#refuseAtTheDoor(cancelledError(), arrival);
      else if (outcome instanceof Error) this.#refuseAtTheDoor(outcome, arrival);
      else this.#hold(arrival, outcome);
    });
    if (!isRead) this.#cancels.beginReading(reply, app);
  }

  #hold(arrival: Arrival, decoded: Decoded): void {
    const { model, timing, reply, span, onSettled } = arrival;
    try {
      const lease = model.lease;
      if (lease === undefined)
        throw new TuttiError("TUTTI_NOT_READY", `"${model.spec.name}" has no batcher yet`, { retryAfterMs: 200 });
      checkFeasible(model, decoded.bucket, timing, this.#ports.clock.now(), reserve(this.#respondNow(), timing.slo));
      const wanted = readWanted(arrival.wantedText, decoded.wanted, model);
      const { app, form, arrivedAt, priority } = arrival;
      const { row, bucket, id } = decoded;
      checkRoom(this.#held, app, row.byteLength);
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
        onSettled,
      });
    } catch (error) {
      this.#refuseAtTheDoor(error, arrival);
    }
  }

  #accept(accepted: Accepted): void {
    const { model, lease, timing } = accepted;
    const held = heldOf(accepted, { seq: this.#nextSeq++ as RequestSeq, slot: this.#held.nextSlot() });
    if (held.onSettled === undefined) this.#figures.accept(model.spec);
    this.#held.add(held, after(timing.deadline, this.#respondNow()));
    this.#cancels.hold(held);
    this.#armTimer();
    this.#lanes.arrive(held, this.#catalog.leaseOf(model.spec.number) ?? lease);
  }

  #refuseAtTheDoor(cause: unknown, { reply, span, onSettled, model }: AtTheDoor): void {
    let error: TuttiError;
    if (cause instanceof TuttiError) error = cause;
    else {
      error = new TuttiError("TUTTI_INTERNAL", "the request could not be read because of a fault on our side", {
        cause,
      });
      this.#station.log.error({ error: String(cause) }, "reading a request failed");
    }
    this.#answers.refuse(reply, error);
    if (onSettled === undefined) this.#figures.refuseAtTheDoor(error.code, model?.spec);
    else onSettled();
    span?.set({ "tutti.outcome": error.code });
    span?.end(this.#ports.clock.now(), error.message);
    this.#endIfDrained();
  }

  /** The one place where a held request gets its answer (I2). */
  #settle(held: Held, outcome: Uint8Array | TuttiError, results?: ResultBatch): void {
    const now = this.#ports.clock.now();
    this.#held.remove(held);
    this.#cancels.release(held);
    const error = this.#answer(held, outcome);
    if (held.onSettled === undefined) this.#figures.settle(held, error, now);
    else held.onSettled();
    if (held.span !== undefined) endRequestSpan(held.span, { error, late: now > held.deadline, now, results });
    this.#endIfDrained();
  }

  /** @returns the error that went out */
  #answer(held: Held, outcome: Uint8Array | TuttiError): TuttiError | undefined {
    if (!(outcome instanceof TuttiError)) return this.#answers.ok(held, held.reply, outcome);
    this.#answers.refuse(held.reply, outcome);
    return outcome;
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

  /** One that runs can't be stopped; its result finds nothing (I2). */
  #cancel(held: Held): void {
    if (held.executor === 0) this.#lanes.withdraw(held);
    this.#settle(held, cancelledError());
  }

  #onModel(model: CatalogModel, before: CatalogModel | undefined): void {
    const { number } = model.spec;
    const isSame = before?.spec.number === number;
    // What is still held is of the replaced model's layout, and nobody serves that any more.
    if (before !== undefined && !isSame)
      this.#onModelEnded(before, new TuttiError("TUTTI_NOT_READY", `"${model.spec.name}" was replaced`));
    const hasMoved = model.lease !== undefined && model.lease.term !== before?.lease?.term;
    if (hasMoved) this.#lanes.moved(model);
    if (model.status?.state === "quarantined") this.#refuseWaiting(model, quarantineError(model));
    if (model.lease === undefined || model.status?.state !== "ready") return;
    // Afterwards: what is told under the new term already must not be told again under another number.
    const wasServed = isSame && before.lease !== undefined && before.spec.version === model.spec.version;
    const isUsed = wasServed && this.#lanes.isUsed(number, earlierBy(this.#ports.clock.now(), USED_WITHIN));
    if (hasMoved && isUsed) this.#warmUp.skip(model);
    else this.#warmUp.begin(model);
  }

  #onModelGone(model: CatalogModel): void {
    this.#onModelEnded(model, new TuttiError("TUTTI_NOT_FOUND", `"${model.spec.name}" was unloaded`));
  }
  #onModelEnded(model: CatalogModel, error: TuttiError): void {
    this.#warmUp.forget(model);
    this.#figures.forget(model.spec);
    this.#refuseWaiting(model, error);
    this.#lanes.forgetModel(model.spec.number);
  }

  /** What no living executor has: the rest is answered by who has it. */
  #refuseWaiting({ spec }: CatalogModel, error: TuttiError): void {
    for (const held of [...this.#held.values()]) {
      if (held.model.spec.number !== spec.number) continue;
      const isWaiting = held.executor === 0 || this.#station.directory.get(held.executor) === undefined;
      if (isWaiting) this.#settle(held, error);
    }
  }
}
