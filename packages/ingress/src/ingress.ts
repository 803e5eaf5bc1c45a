/**
 * The ingress: accepts requests, holds their inputs until they are answered, and gives each publisher its one answer.
 * One request is one record (PendingRequest) on one way: RequestIntake receives, admits, reads and accepts it;
 * RequestSettlement holds it, sends its arrival to a batcher (ArrivalStreams), and settles it.
 *
 *   INGRESS-1. Every held request has a timer. Whatever happens elsewhere, it is answered at its deadline + d_resp, and
 *              no more than ANSWERED_WITHIN after the deadline (T1).
 *   INGRESS-2. A request is answered by taking it out of the pending requests; later outcomes find nothing and are
 *              counted (T1).
 *   INGRESS-3. Only an executor that pulled a request, with a token that its batcher signed, may answer it (T2).
 */
import type { Delivery, DeliverySubscription, Subscription } from "@tutti/ports/bus";
import type { Stop } from "@tutti/ports/clock";
import { inlineDecoder } from "@tutti/ports/decode";
import {
  APP_BYTES_MAX,
  APP_REQUESTS_MAX,
  CANCEL_SUBJECT,
  INFER_QUEUE,
  INFER_SUBJECT,
  INGRESS_BYTES_MAX,
  INGRESS_REQUESTS_MAX,
  type TuttiError,
} from "@tutti/protocol";
import { type ActorKey, before as earlierBy, micros, seconds } from "@tutti/units";
import { type CatalogModel, type Actor, Catalog, ActorRuntime } from "@tutti/actors/runtime";
import { unservedError } from "./admission/admission.ts";
import { AppNames } from "./admission/app-names.ts";
import { Answers } from "./requests/answers.ts";
import { LateRuns } from "./figures/late-runs.ts";
import { CancellationHandler } from "./requests/cancellation-handler.ts";
import { ColdStarts } from "./admission/cold-starts.ts";
import { type ServedData, carrierOf } from "./inputs/batch-carrier.ts";
import { createTensorServer } from "./inputs/tensor-server.ts";
import { RequestIntake } from "./requests/request-intake.ts";
import { RequestSettlement } from "./requests/request-settlement.ts";
import type { PendingRequest } from "./requests/pending-request.ts";
import { PendingRequests } from "./requests/pending-requests.ts";
import { IngressFigures } from "./figures/ingress-figures.ts";
import type { IngressConfig, IngressPorts } from "./ingress-ports.ts";
import { ArrivalStreams } from "./requests/arrival-streams.ts";
import { checkTakesJobs } from "./admission/job-admission.ts";
import { localIngress } from "./local-ingress.ts";
import { PipelineRunner } from "./pipelines/pipeline-runner.ts";
import { RefusalLog } from "./refusals/refusal-log.ts";
import { answerRefusalQuestions } from "./refusals/refusal-questions.ts";
import { RespondDelay } from "./figures/respond-delay.ts";
import { Shedding } from "./admission/shedding.ts";
import { ModelRemoval, replacedError, unloadedError } from "./admission/model-removal.ts";
import { VersionRouter } from "./admission/version-router.ts";
import { type Warmup, WarmUp } from "./warm-up.ts";

export function createIngress(ports: IngressPorts, config: IngressConfig, ready: () => void): Actor {
  return new Ingress(ports, config, ready);
}

/** A model that moved within the last second of live traffic needs no warm-up requests. */
const USED_WITHIN = seconds(1);
const NO_WARMUP: Warmup = { perSecond: 0, time: micros(0) };

class Ingress implements Actor {
  readonly role = "ingress" as const;
  readonly key: ActorKey;
  readonly #ports: IngressPorts;
  readonly #config: IngressConfig;
  readonly #runtime: ActorRuntime;
  readonly #catalog: Catalog;
  readonly #versions: VersionRouter;
  readonly #pending: PendingRequests;
  readonly #arrivalStreams: ArrivalStreams;
  readonly #removal: ModelRemoval;
  readonly #answers: Answers;
  readonly #figures = new IngressFigures();
  readonly #refusals: RefusalLog;
  readonly #lateRuns: LateRuns;
  readonly #warmUp: WarmUp;
  readonly #respond: RespondDelay;
  readonly #introducing: Stop;
  readonly #appNames: AppNames;
  readonly #naming: Stop;
  readonly #data: ServedData;
  readonly #pipelines: PipelineRunner | undefined;
  readonly #requestIntake: RequestIntake;
  readonly #settlement: RequestSettlement;
  readonly #shedding: Shedding;
  readonly #coldStarts: ColdStarts;
  readonly #cancels: CancellationHandler;
  #requests: DeliverySubscription | undefined;
  #cancelling: Subscription | undefined;
  #questions: Subscription | undefined;
  #leaving = false;
  #drained: (() => void) | undefined;

  constructor(ports: IngressPorts, config: IngressConfig, ready: () => void) {
    this.key = config.key;
    this.#ports = ports;
    this.#config = config;
    this.#pending = new PendingRequests({
      requestsMax: config.requestsMax ?? INGRESS_REQUESTS_MAX,
      bytesMax: config.bytesMax ?? INGRESS_BYTES_MAX,
      appRequestsMax: config.appRequestsMax ?? APP_REQUESTS_MAX,
      appBytesMax: config.appBytesMax ?? APP_BYTES_MAX,
    });
    this.#answers = new Answers(ports.answers ?? ports.bulk, ports.clock);
    this.#respond = new RespondDelay(ports.clock, config.respondFloor);
    this.#cancels = new CancellationHandler(config.replyScope, (held) => this.#settlement.cancel(held));
    this.#warmUp = this.#createWarmUp();
    const secret = ports.randomBytes(32);
    this.#runtime = this.#createActorRuntime();
    this.#refusals = new RefusalLog(config.key);
    this.#lateRuns = new LateRuns(ports.telemetry.tracer);
    this.#arrivalStreams = new ArrivalStreams({
      runtime: this.#runtime,
      pending: this.#pending,
      secret,
      self: config.key,
      respond: () => this.#respond.now(),
      now: () => ports.clock.now(),
    });
    this.#catalog = new Catalog(ports.store, this.#runtime.log, {
      onChange: (model, before) => this.#onModel(model, before),
      onGone: (model) => this.#onModelGone(model),
    });
    this.#removal = this.#createModelRemoval();
    this.#versions = this.#createVersions();
    this.#shedding = new Shedding({
      runtime: this.#runtime,
      clock: ports.clock,
      holds: (thread, batcher, term) => {
        const lease = this.#catalog.ofThread(thread)?.lease;
        return lease?.batcher === batcher && lease.term === term;
      },
    });
    this.#coldStarts = new ColdStarts({
      ...{ ...ports, runtime: this.#runtime, pending: this.#pending },
      staged: () => this.#pipelines?.models() ?? [],
    });
    this.#pipelines = this.#createPipelines();
    this.#requestIntake = this.#createRequestIntake();
    this.#appNames = new AppNames(this.#runtime);
    this.#settlement = this.#createRequestSettlement();
    this.#introducing = ports.clock.every(seconds(1), () =>
      this.#arrivalStreams.introduceAgain(this.#ports.clock.now()),
    );
    this.#naming = ports.clock.every(seconds(5), () => this.#appNames.tell());
    this.#data = this.#serveData(secret);
    const open = (): void => {
      for (const name of this.#pipelines?.clashes() ?? [])
        this.#runtime.log.error({ pipeline: name }, "a model is called like this pipeline, which hides it: rename one");
      this.#runtime.open();
      this.#questions = answerRefusalQuestions({
        ...{ key: this.key, bus: ports.bus, runtime: this.#runtime },
        log: this.#refusals,
      });
      this.#requests = ports.bulk.subscribe(INFER_SUBJECT, (delivery) => this.#onRequest(delivery), {
        queue: INFER_QUEUE,
      });
      this.#cancelling = ports.bulk.subscribe(CANCEL_SUBJECT, (delivery) => this.#cancels.onDelivery(delivery));
      this.#serveLocally();
      ports.bulk.flush(() => ready());
    };
    // Routes and parked models are read before the first request: a starting ingress must not decide differently from
    // the others.
    this.#versions.open(() => this.#coldStarts.open(() => this.#catalog.open(open)));
  }

  #createActorRuntime(): ActorRuntime {
    return new ActorRuntime(this.#ports, this.#config, {
      role: "ingress",
      listensTo: ["batcher", "executor"],
      beat: () => {
        const address = this.#data.address();
        return { arrivals: this.#arrivalStreams.lastArrivals(), ...(address === undefined ? {} : { address }) };
      },
      stats: () => this.#stats(),
      told: (at) => ({ ...this.#figures.sampler.told(at), ...this.#refusals.told() }),
      // A batcher that starts again, or that falsely lost us, needs the secret again.
      onJoin: (peer) => peer.role === "batcher" && this.#arrivalStreams.introduce(peer.key),
      // The batcher of a batch reports its outcome. Only if that batcher no longer holds the model must we detect the
      // executor's death ourselves.
      probes: (peer) => peer.role === "executor" && this.#arrivalStreams.watches(peer.key),
      onLost: (peer) => {
        if (peer.role === "batcher") this.#arrivalStreams.forget(peer.key);
        else {
          this.#removal.executorLost(peer.key);
          this.#arrivalStreams.executorLost(peer.key);
        }
      },
    });
  }

  #createModelRemoval(): ModelRemoval {
    const [pending, arrivalStreams, { registry }] = [this.#pending, this.#arrivalStreams, this.#runtime];
    const settle = (held: PendingRequest, error: TuttiError): void => this.#settlement.settle(held, error);
    return new ModelRemoval({ pending, lanes: arrivalStreams, directory: registry, catalog: this.#catalog, settle });
  }

  #createRequestIntake(): RequestIntake {
    const { clock, telemetry, decoder } = this.#ports;
    return new RequestIntake({
      ...{ shedding: this.#shedding, coldStarts: this.#coldStarts },
      clock,
      tracer: telemetry.tracer,
      log: this.#runtime.log,
      replyScope: this.#config.replyScope,
      decoder: decoder ?? inlineDecoder,
      catalog: this.#catalog,
      versions: this.#versions,
      pending: this.#pending,
      cancels: this.#cancels,
      answers: this.#answers,
      ...{ figures: this.#figures, refusals: this.#refusals },
      pipelines: this.#pipelines,
      respond: () => this.#respond.now(),
      isLeaving: () => this.#leaving,
      takesJobs: (model) => checkTakesJobs(this.#runtime, model),
      onAccepted: (request, lease) => this.#settlement.hold(request, lease),
      onTurnedAway: () => this.#endIfDrained(),
    });
  }

  #createRequestSettlement(): RequestSettlement {
    const { clock, telemetry } = this.#ports;
    return new RequestSettlement({
      runtime: this.#runtime,
      clock,
      tracer: telemetry.tracer,
      pending: this.#pending,
      arrivalStreams: this.#arrivalStreams,
      catalog: this.#catalog,
      ...{ shedding: this.#shedding, coldStarts: this.#coldStarts },
      cancels: this.#cancels,
      answers: this.#answers,
      ...{ figures: this.#figures, refusals: this.#refusals },
      lateRuns: this.#lateRuns,
      appNames: this.#appNames,
      timerLate: () => this.#respond.withinLimit(),
      onEnded: () => this.#endIfDrained(),
    });
  }

  #createVersions(): VersionRouter {
    const { log } = this.#runtime;
    const pipelines = (): Iterable<string> => this.#pipelines?.names() ?? [];
    return new VersionRouter({ store: this.#ports.store, log, catalog: () => this.#catalog, pipelines });
  }

  #createPipelines(): PipelineRunner | undefined {
    const { clock, telemetry, pipelines } = this.#ports;
    if (pipelines === undefined) return undefined;
    return new PipelineRunner({
      pipelines,
      clock,
      tracer: telemetry.tracer,
      log: this.#runtime.log,
      catalog: this.#catalog,
      versions: this.#versions,
      ...{ pending: this.#pending, coldStarts: this.#coldStarts },
      cancels: this.#cancels,
      answers: this.#answers,
      ...{ figures: this.#figures, refusals: this.#refusals },
      respond: () => this.#respond.withinLimit(),
      submit: (request, tensors) => this.#requestIntake.submit(request, tensors),
      withdraw: (held) => this.#settlement.cancel(held),
      onEnded: () => this.#endIfDrained(),
    });
  }

  #serveData(secret: Uint8Array): ServedData {
    const { local, randomBytes } = this.#ports;
    const tensorServer = createTensorServer({
      pending: this.#pending,
      secret,
      figures: this.#figures,
      onPulled: (held, batcher) => this.#arrivalStreams.pulled(held, batcher),
      onRefused: (held, batcher) => this.#arrivalStreams.refused(held, batcher),
      onNotRun: (held) => void (this.#removal.givenBack(held) || this.#arrivalStreams.notRun(held)),
      settle: (held, outcome, results) => this.#settlement.settle(held, outcome, results),
      onStray: (seq, results) => this.#lateRuns.heard(seq, results),
      onResponded: (results) => this.#respond.note(results.finishedAt),
    });
    const onCarried = (seq: number): void => {
      const held = this.#pending.get(seq);
      if (held !== undefined) held.isCarried = true;
    };
    const served = this.#ports.serveData(tensorServer);
    if (local !== undefined) local.rows = carrierOf(this.key, { tensorServer, served, randomBytes, onCarried });
    return served;
  }

  /** Serves the gateway of this process without messages. */
  #serveLocally(): void {
    const { local } = this.#ports;
    if (local === undefined) return;
    local.ingress = localIngress({
      serves: (target) => this.#pipelines?.has(target) !== true,
      submit: (request, ticket) => {
        if (this.#figures.requests++ === 0) this.#warmUp.end();
        this.#requestIntake.ask(request, ticket);
      },
      cancel: (held) => this.#settlement.cancel(held),
    });
  }

  #createWarmUp(): WarmUp {
    return new WarmUp({
      clock: this.#ports.clock,
      warmup: this.#config.warmup ?? NO_WARMUP,
      gpus: () => this.#gpus(),
      send: (request, done) => (!this.#leaving ? this.#requestIntake.receive(request, done) : undefined),
      onWarm: () => this.#runtime.report(),
    });
  }

  /**
   * T9: later requests go to others of the queue group. Requests that the server has already sent here are taken, and
   * all of them are answered. Jobs are refused, since they would keep the process for minutes.
   */
  drain(done: () => void): void {
    this.#leaving = true;
    this.#settlement.giveJobsBack();
    if (this.#ports.local !== undefined) this.#ports.local.ingress = undefined;
    const finish = (): void => {
      this.#drained = undefined;
      this.#cancelling?.stop();
      this.#settlement.close();
      this.#introducing.stop();
      this.#naming.stop();
      this.#questions?.stop();
      this.#shedding.close();
      this.#coldStarts.close();
      this.#versions.close();
      this.#catalog.close();
      if (this.#ports.local !== undefined) this.#ports.local.rows = undefined;
      this.#data.close(() => this.#answers.drain(() => this.#runtime.close(done)));
    };
    const wait = (): void => {
      this.#drained = finish;
      this.#endIfDrained();
    };
    if (this.#requests === undefined) wait();
    else this.#requests.drain(wait);
  }

  #endIfDrained(): void {
    const underway = this.#pending.size + this.#requestIntake.decoding + (this.#pipelines?.size ?? 0);
    if (underway === 0) this.#drained?.();
  }

  #stats() {
    const report = this.#figures.report({
      at: this.#ports.clock.now(),
      held: this.#pending.size,
      bytes: this.#pending.bytes,
      respondUs: this.#respond.now(),
      ...this.#answers.figures,
      ...this.#versions.figures,
      pipelineInstances: this.#pipelines?.size ?? 0,
      warmModels: this.#warmUp.warmModels,
    });
    return this.#pipelines === undefined ? report : { ...report, pipelines: this.#pipelines.reports };
  }

  #gpus(): number {
    let count = 0;
    for (const { gpus } of this.#runtime.registry.ofRole("executor")) count += gpus?.length ?? 0;
    return count;
  }

  #onRequest(delivery: Delivery): void {
    if (this.#figures.requests++ === 0) this.#warmUp.end();
    this.#requestIntake.receive(delivery);
  }

  #onModel(model: CatalogModel, before: CatalogModel | undefined): void {
    const { number } = model.spec;
    this.#versions.look(model.spec.name);
    const isSame = before?.spec.number === number;
    // Pending requests have the layout of the replaced model, which is no longer served.
    if (before !== undefined && !isSame) this.#onModelEnded(before, replacedError(model.spec.name));
    const hasMoved = model.lease !== undefined && model.lease.term !== before?.lease?.term;
    if (hasMoved) this.#arrivalStreams.moved(model);
    const unserved = unservedError(model);
    if (unserved !== undefined) this.#removal.refuse(model, unserved);
    if (model.lease === undefined || model.status?.state !== "ready") return;
    // Warm up after `moved`: it would send warm-up requests again that were already sent under the new term.
    const wasServed = isSame && before.lease !== undefined && before.spec.version === model.spec.version;
    const isUsed = wasServed && this.#arrivalStreams.isUsed(number, earlierBy(this.#ports.clock.now(), USED_WITHIN));
    if (hasMoved && isUsed) this.#warmUp.skip(model);
    else this.#warmUp.begin(model);
  }

  #onModelGone(model: CatalogModel): void {
    this.#versions.look(model.spec.name);
    this.#onModelEnded(model, unloadedError(model.spec.name));
  }
  #onModelEnded(model: CatalogModel, error: TuttiError): void {
    this.#warmUp.forget(model);
    this.#figures.forget(model.spec);
    this.#removal.refuse(model, error);
    this.#arrivalStreams.forgetModel(model.spec.number);
  }
}
