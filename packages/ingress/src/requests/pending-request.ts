import type { CatalogModel } from "@tutti/actors/runtime";
import { type CostOffset, type RefusalQueue, REQUEST_ID_LENGTH_MAX } from "@tutti/protocol";
import type { Span } from "@tutti/ports/telemetry";
import {
  ALWAYS,
  type ActorKey,
  type Instant,
  type Micros,
  type RequestSeq,
  type ThreadId,
  after,
  between,
  formatDuration,
  micros,
} from "@tutti/units";
import type { Form } from "@tutti/wire";
import { keptText } from "./kept-text.ts";
import type { OutcomeTicket } from "./outcome-ticket.ts";

const NO_ROW = new Uint8Array(0);
/** No application has this number: theirs have 32 bits. */
const JOBS_ACCOUNT = -1;

/**
 * One request from its arrival to its one outcome, which the ingress alone decides (T1). Checks, refusals, spans,
 * figures and answers all read this record. Every field exists from the beginning, since V8 deoptimises on new object
 * shapes; a field that is learnt later has a neutral value until then.
 */
export class PendingRequest {
  // Known when the request comes.
  readonly target: string;
  readonly app: string;
  /** Subject of the answer; NOBODY for a requester in this process. */
  readonly reply: string;
  readonly arrivedAt: Instant;
  /** Set for a warm-up request (WarmUp), which no figure counts; called when it is settled. */
  readonly onSettled: (() => void) | undefined;
  /** Set for a requester in this process, which gets the outcome instead of a reply subject. */
  readonly ticket: OutcomeTicket | undefined;
  span: Span | undefined = undefined;
  /** Publisher's id of the message and its trace context: RefusalLog names the request by them. */
  messageId: string | undefined = undefined;
  publisherTrace: string | undefined = undefined;
  /** The pipeline that it is a stage's request of. */
  pipeline: string | undefined = undefined;

  // Known when it is admitted.
  /** Number of the application. It is 0 until the name is checked: names are kept with their numbers. */
  appId = 0;
  /** The version that serves it. A request to a pipeline has none, nor has one that is refused before it is chosen. */
  model!: CatalogModel;
  /** Whether its answer names the version, in a header that other answers would pay for too. */
  isVersioned = false;
  priority = 0;
  /** Whether it is a job (docs/algorithms.md, A13): it gets time that no request needs. */
  isJob = false;
  /** The publisher's deadline; the planned end of its stage for a stage's request. */
  deadline: Instant = ALWAYS;
  slo: Micros = micros(0);
  /** Time that it has beyond its SLO, since its model was parked; part of the deadline. */
  coldStart: Micros = micros(0);
  /** Costs of a late answer, from the deadline on; undefined: the answer is worth nothing then. */
  costs: readonly CostOffset[] | undefined = undefined;
  form: Form = "binary";
  /** Names of the outputs in the answer; undefined: all. The body may name others, so they are checked after it. */
  wanted: readonly string[] | undefined = undefined;
  /** Its length in its model's own unit: the publisher's hint, or else what its body shows; 0: unknown. */
  units = 0;

  // Known when its body is read.
  thread: ThreadId = 0 as ThreadId;
  publisherId: string | undefined = undefined;
  row: Uint8Array = NO_ROW;

  // Known when it is held (PendingRequests).
  /** Its number here. It changes if the request is sent again while the old number may still be in use. */
  seq: RequestSeq = 0 as RequestSeq;
  slot = 0;
  traceparent = "";

  // Its arrivals at a batcher (ArrivalStreams).
  /** Position among the arrivals sent to its thread's batcher, so that a gap can be sent again. */
  arrivalSeq = 0;
  /**
   * The term under which its arrival was sent. It is 0 if the present holder of the model doesn't know of the request
   * (STREAM-2).
   */
  toldTerm = 0;
  /** Whether it was sent again, after a pull refused for an unknown secret or a batch that ran without it. */
  isToldAgain = false;
  /** When its arrival was last sent again because its batcher had missed it. */
  repairedAt: Instant = ALWAYS;

  // Its pulls by an executor (TensorServer).
  /** Whether it was sent with its batch, and its executor is not yet known to have it. */
  isCarried = false;
  /** Batch, executor and token of the last pull, and of the one before: only those executors may answer it (T2). */
  batch = 0;
  executor: ActorKey | 0 = 0;
  token: Uint8Array | undefined = undefined;
  /** How often it was pulled with that token. */
  pulls = 0;
  earlierBatch = 0;
  earlierExecutor: ActorKey | 0 = 0;
  earlierToken: Uint8Array | undefined = undefined;

  // Known when it is refused (RefusalLog).
  /** At least this SLO would have been needed; 0: unknown. */
  feasible: Micros = micros(0);
  /** Batcher that refused it, and the state of its queue then; batchers of earlier releases don't tell it. */
  refusedBy: ActorKey | 0 = 0;
  refusedIn: RefusalQueue | undefined = undefined;

  constructor(asked: Pick<PendingRequest, "target" | "app" | "reply" | "arrivedAt" | "onSettled" | "ticket">) {
    this.target = asked.target;
    this.app = asked.app;
    this.reply = asked.reply;
    this.arrivedAt = asked.arrivedAt;
    this.onSettled = asked.onSettled;
    this.ticket = asked.ticket;
  }

  /** Number under which its room is counted: jobs share that of one application, and leave the rest to requests. */
  get account(): number {
    return this.isJob ? JOBS_ACCOUNT : this.appId;
  }
  /** SLO of the last step of its costs, until which an answer is worth something. */
  get lastSlo(): Micros {
    return this.costs?.at(-1)?.after ?? this.slo;
  }
  get lastDeadline(): Instant {
    return this.costs === undefined ? this.deadline : after(after(this.arrivedAt, this.lastSlo), this.coldStart);
  }

  /** The time that it has, for messages. */
  get timeText(): string {
    if (this.coldStart === 0) return formatDuration(this.lastSlo);
    return `${formatDuration(between(this.arrivedAt, this.lastDeadline))} (its cold start included)`;
  }

  /** Comes before it is held: its ids are views of its message's headers (keptText), which would be held with them. */
  keepIds(): void {
    if (this.messageId !== undefined) this.messageId = keptText(this.messageId, REQUEST_ID_LENGTH_MAX);
    if (this.publisherTrace !== undefined) this.publisherTrace = keptText(this.publisherTrace, REQUEST_ID_LENGTH_MAX);
  }

  /** Its model is parked. */
  waitsFor(coldStart: Micros): void {
    this.coldStart = coldStart;
    this.deadline = after(this.deadline, coldStart);
  }
}
