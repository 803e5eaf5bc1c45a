import type { Alarm, Clock } from "@tutti/ports/clock";
import { Instance, type InstanceEffects, type PipelineSpec, type StageSpec } from "@tutti/pipelines";
import { HEADER, TuttiError } from "@tutti/protocol";
import type { Kept, StepCall, StepOutcome, Steps } from "@tutti/ports/steps";
import type { Tracer } from "@tutti/ports/telemetry";
import { type Instant, type Micros, after, between, micros } from "@tutti/units";
import { decodeTensors } from "@tutti/wire";
import { type CatalogModel, NOBODY } from "@tutti/actors/runtime";
import { checkRoom } from "../admission/admission.ts";
import { cancelledError } from "../requests/cancellation-handler.ts";
import { PendingRequest } from "../requests/pending-request.ts";
import type { PendingRequests } from "../requests/pending-requests.ts";
import type { PipelineMeasures } from "./pipeline-measures.ts";
import type { OutcomeTicket } from "../requests/outcome-ticket.ts";

/** Parts of the ingress that a run uses. */
export interface RunPorts {
  readonly clock: Clock;
  readonly tracer: Tracer;
  readonly steps: Steps;
  readonly pending: PendingRequests;
  readonly measures: PipelineMeasures;
  readonly respond: () => Micros;
  /** @throws {TuttiError} the model that a stage needs does not serve now */
  readonly modelOf: (stage: StageSpec) => CatalogModel;
  readonly submit: (request: PendingRequest, tensors: Uint8Array) => void;
  readonly withdraw: (held: PendingRequest) => void;
  /** Lets the publisher cancel the request. @returns a function that ends this */
  readonly whileCancellable: (cancel: () => void) => () => void;
  /**
   * Progress of a stage's requests. `onAsked`: so many are sent; `onAnswered`: one is answered, by its stage's end or
   * later; `onRefused`: one fails, and the whole is refused for it.
   */
  readonly onAsked: (stage: string, requests: number) => void;
  readonly onAnswered: (stage: string, late: boolean) => void;
  readonly onRefused: (stage: string, error: TuttiError) => void;
  /** Called once, after all room and timers of the run are released. */
  readonly onEnd: (run: PipelineRun, outcome: Uint8Array | TuttiError) => void;
}

/** The shell around the `Instance` of one request to a pipeline. Its tensors stay here from arrival to answer. */
export class PipelineRun implements InstanceEffects {
  readonly spec: PipelineSpec;
  /** Its id and outputs are known once the first function has run. */
  readonly request: PendingRequest;
  readonly #ports: RunPorts;
  readonly #ends: ReadonlyMap<string, number>;
  readonly #instance: Instance<Kept>;
  readonly #timer: Alarm;
  readonly #tickets = new Map<string, OutcomeTicket>();
  readonly #callsUnderway = new Set<{ giveUp: () => void }>();
  /** Bytes for which room is reserved: its body, the stages' results and what functions keep. */
  #reserved = 0;
  #body: StepCall["body"];
  #isRead = false;
  #endCancelling: () => void = () => undefined;
  #parameters: StepCall["parameters"];

  /** @param payload - of the request; it belongs to the run */
  constructor(spec: PipelineSpec, request: PendingRequest, payload: Uint8Array, ports: RunPorts) {
    this.spec = spec;
    this.request = request;
    this.#ports = ports;
    this.#ends = ports.measures.budgets(request.arrivedAt).ends;
    this.#instance = new Instance<Kept>(spec, this);
    this.#timer = ports.clock.alarm(() => this.#expire());
    this.#body = { form: request.form, payload };
  }

  begin(): void {
    const { respond, whileCancellable } = this.#ports;
    this.#reserved = this.#body.payload.byteLength;
    this.#ports.pending.reserve(this.request.appId, this.#reserved);
    // INGRESS-1: it is answered by then in any case.
    this.#timer.set(after(this.request.deadline, respond()));
    this.#endCancelling = whileCancellable(() => this.#instance.end(cancelledError()));
    this.#instance.begin();
  }

  prepare(stage: StageSpec): void {
    this.#call(stage, (outcome) => {
      if (!this.#makeRoom(stage.name, outcome.keep?.bytes ?? 0)) return;
      this.#ports.measures.noteFanOut(stage.name, outcome.messages.length);
      this.#ports.onAsked(stage.name, outcome.messages.length);
      this.#instance.prepared(stage.name, outcome.messages, outcome.keep);
    });
  }

  send(stage: StageSpec, index: number, tensors: Uint8Array): void {
    const { clock, tracer, modelOf, submit, measures } = this.#ports;
    const whole = this.request;
    const now = clock.now();
    const key = keyOf(stage, index);
    // The deadline counts from the pipeline's arrival, so this stage gets the time that an earlier one saved.
    const within = micros(Math.floor(whole.slo * this.#ends.get(stage.name)!));
    const deadline = after(after(whole.arrivedAt, within), whole.coldStart);
    const ticket: OutcomeTicket = {
      isStage: true,
      held: undefined,
      isGone: false,
      outcome: (outcome) => {
        this.#tickets.delete(key);
        if (ticket.held !== undefined) measures.noteThread(stage.name, ticket.held.thread);
        if (outcome instanceof TuttiError) return this.#failed(stage.name, outcome);
        this.#ports.onAnswered(stage.name, this.#ports.clock.now() > deadline);
        if (this.#instance.hasEnded || !this.#makeRoom(stage.name, outcome.byteLength)) return;
        this.#instance.answered(stage.name, index, new Uint8Array(outcome));
      },
    };
    this.#tickets.set(key, ticket);
    let model: CatalogModel;
    try {
      model = modelOf(stage);
    } catch (error) {
      return ticket.outcome(error as TuttiError);
    }
    const { app, appId, span } = whole;
    const asked = { target: stage.model, app, reply: NOBODY, arrivedAt: now, onSettled: undefined, ticket };
    const request = new PendingRequest(asked);
    if (span !== undefined)
      request.span = tracer.start(`stage ${stage.name}`, { kind: "internal", at: now, parent: span.context });
    request.messageId = whole.messageId ?? whole.publisherId;
    request.publisherTrace = whole.publisherTrace;
    request.pipeline = whole.target;
    request.appId = appId;
    request.model = model;
    request.priority = whole.priority;
    request.deadline = deadline;
    // After a cold start the stages run as soon as they can: they don't spread over the time that it has left.
    request.slo = micros(Math.min(between(now, deadline), within));
    request.coldStart = whole.coldStart;
    submit(request, tensors);
  }

  withdraw(stage: StageSpec, index: number): void {
    const ticket = this.#tickets.get(keyOf(stage, index));
    if (ticket === undefined) return;
    ticket.isGone = true;
    if (ticket.held !== undefined) this.#ports.withdraw(ticket.held);
  }

  finish(): void {
    this.#call(undefined, ({ messages }) => this.#instance.finished(messages[0]!));
  }

  answer(message: Uint8Array): void {
    const missing = this.request.wanted?.find((name) => !decodeTensors(message).some((tensor) => tensor.name === name));
    if (missing === undefined) return this.#end(message);
    const names = decodeTensors(message).map(({ name }) => name);
    const text = `"${this.spec.name}" answered ${names.join(", ")}, and no "${missing.slice(0, 80)}": leave it out of ${HEADER.outputs}`;
    this.#end(new TuttiError("TUTTI_INVALID_INPUT", text));
  }
  refuse(error: TuttiError): void {
    this.#end(error);
  }

  #call(stage: StageSpec | undefined, onMade: (outcome: StepOutcome) => void): void {
    const { clock, steps } = this.#ports;
    const startedAt = clock.now();
    const call: StepCall = {
      pipeline: this.spec.name,
      function: stage?.before ?? this.spec.finish,
      makes: stage === undefined ? "answer" : "requests",
      app: this.request.app,
      body: this.#body,
      id: this.request.publisherId,
      parameters: this.#parameters,
      ...this.#instance.known(stage?.name),
    };
    const underway = { giveUp: (): void => undefined };
    this.#callsUnderway.add(underway);
    // The outcome may come within this call.
    underway.giveUp = steps.run(call, (outcome) => {
      this.#callsUnderway.delete(underway);
      if (this.#instance.hasEnded) return;
      this.#traceStep(stage, startedAt, outcome instanceof TuttiError ? outcome.message : undefined);
      if (outcome instanceof TuttiError) return this.#failed(stage?.name ?? "finish", outcome);
      this.#ports.measures.noteStep(stage?.name, clock.now(), between(startedAt, clock.now()));
      this.#remember(outcome.read);
      onMade(outcome);
    });
  }

  /** Shows the time between stages: their functions, waiting for a thread included. */
  #traceStep(stage: StageSpec | undefined, startedAt: Instant, error: string | undefined): void {
    const { span } = this.request;
    if (span === undefined || !span.context.sampled) return;
    const { tracer, clock } = this.#ports;
    const name = stage === undefined ? "finish" : `prepare ${stage.name}`;
    tracer.start(name, { kind: "internal", at: startedAt, parent: span.context }).end(clock.now(), error);
  }

  /** Keeps the terms from the body, which are known once the first function has run. */
  #remember({ id, outputs, parameters, payload }: StepOutcome["read"]): void {
    if (this.#isRead) return;
    this.#isRead = true;
    this.request.publisherId = id;
    this.#parameters = parameters;
    this.request.wanted = outputs ?? this.request.wanted;
    if (payload !== undefined) this.#body = { form: "binary", payload };
  }

  /** Ends the run with an error; the whole is refused for the first one. */
  #failed(stage: string, error: TuttiError): void {
    if (!this.#instance.hasEnded) this.#ports.onRefused(stage, error);
    this.#instance.stageFailed(stage, error);
  }

  #makeRoom(stage: string, bytes: number): boolean {
    if (bytes === 0) return true;
    try {
      checkRoom(this.#ports.pending, this.request, bytes, 0);
    } catch (error) {
      this.#failed(stage, error as TuttiError);
      return false;
    }
    this.#ports.pending.extend(this.request.appId, bytes);
    this.#reserved += bytes;
    return true;
  }

  #expire(): void {
    const text = `no answer within ${this.request.timeText}: ${this.#instance.underway} was not done`;
    this.#instance.end(new TuttiError("TUTTI_DEADLINE_EXCEEDED", text));
  }

  #end(outcome: Uint8Array | TuttiError): void {
    this.#timer.clear();
    this.#endCancelling();
    for (const { giveUp } of this.#callsUnderway) giveUp();
    this.#callsUnderway.clear();
    this.#ports.pending.release(this.request.appId, this.#reserved);
    this.#ports.onEnd(this, outcome);
  }
}

const keyOf = ({ name }: StageSpec, index: number): string => `${name} ${index}`;
