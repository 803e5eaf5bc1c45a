import type { Delivery } from "@tutti/ports/bus";
import {
  ArrivalsMissed,
  BUCKET,
  BatchDispatched,
  BatchFinished,
  BatchRefused,
  CandidateOffered,
  ExecutorLost,
  GpuFreed,
  GpuGranted,
  GpuJoined,
  GrantAnswered,
  Heartbeat,
  JobOffered,
  type MessageType,
  PLACEMENT_KEY,
  type PulledItem,
  RequestArrived,
  RequestCosts,
  RequestRefused,
  RequestWithdrawn,
} from "@tutti/protocol";
import type { DataHandlers } from "@tutti/ports/pull";
import { type ActorKey, type Instant, type Micros, actorKey, micros } from "@tutti/units";
import { FrameReader, fromJson } from "@tutti/wire";
import type { Channel, Pull } from "../fixtures/actor-cluster/ports.ts";
import { type Incarnation, TIMERS_MAX } from "../fixtures/actor-cluster/process.ts";
import { AnswerChecker } from "./answer-checker.ts";
import { BusChecker } from "./bus-checker.ts";
import { numberOf } from "./families.ts";
import { FenceChecker } from "./fence-checker.ts";
import { modelsOf, timersOf } from "./pipelines.ts";
import { PlacementChecker } from "./placement-checker.ts";
import type { Plan } from "./plan.ts";
import { hasLongFaults } from "./production-timeouts.ts";
import { versionsOf } from "./rollouts.ts";
import { QueueChecker } from "./queue-checker.ts";
import type { StoryLog } from "./story-log.ts";
import { TakeoverChecker } from "./takeover-checker.ts";
import type { Report, Violation } from "./violation.ts";
import type { Asked, Outcome, Watcher } from "./watcher.ts";

const ACTOR_SUBJECT = "tutti.v1.main.to.";
const BEAT_SUBJECT = "tutti.v1.main.beat.";
const TO_BATCHERS = "tutti.v1.main.all.batcher";

/** Errors that an actor reports of an engine that the plan broke. */
const EXPECTED: ReadonlySet<string> = new Set(["the engine is unusable; this executor ends"]);
/** An error that a batcher reports of a model none of whose requests was answered for 1.5 s. */
const STALLED = "answers none of its requests, and is started anew";

/** Watches all events of a cluster, and passes each to the checkers that it concerns. */
export class Checkers implements Watcher {
  readonly violations: Violation[] = [];
  readonly story: StoryLog;
  readonly answers: AnswerChecker;
  readonly fence: FenceChecker;
  readonly queues: QueueChecker;
  readonly takeovers: TakeoverChecker;
  readonly #placements: PlacementChecker;
  readonly #bus: BusChecker;
  readonly #plan: Plan;
  readonly #now: () => Instant;
  /** Errors that the plan's faults make actors report. */
  readonly #expected: ReadonlySet<string | undefined>;
  readonly #sent = new FrameReader();
  readonly #received = new FrameReader();
  /** An actor that says goodbye has ended; its process ends a moment later. */
  readonly #beats = new FrameReader().on(Heartbeat, ({ leaving }) => leaving && this.queues.ended(this.#actor));
  readonly #actors = new Map<ActorKey, Incarnation>();
  /** Sender of the frame that is being read. */
  #actor!: Incarnation;
  #to: ActorKey = actorKey(1);

  /** @param isHeld - whether an executor is held until another one has left its accelerators */
  constructor(plan: Plan, now: () => Instant, story: StoryLog, isHeld: (slot: string) => boolean = () => false) {
    this.#isHeld = isHeld;
    this.#plan = plan;
    this.#now = now;
    this.story = story;
    this.#expected = new Set(hasLongFaults(plan) ? [...EXPECTED, STALLED] : EXPECTED);
    const report: Report = (invariant, text) => {
      this.violations.push({ invariant, text });
      story.tell(now(), "!!!", `${invariant}: ${text}`);
    };
    this.#report = report;
    this.answers = new AnswerChecker(report, now, plan);
    this.fence = new FenceChecker(report, now, plan);
    this.queues = new QueueChecker(report, now, (model) => this.fence.termOf(model), plan);
    this.takeovers = new TakeoverChecker(report, now, plan.struck);
    this.#placements = new PlacementChecker(report, now, plan);
    this.#bus = new BusChecker(report, plan);
    this.#watchSent();
    this.#watchReceived();
  }
  readonly #report: Report;
  readonly #isHeld: (slot: string) => boolean;

  #watchSent(): void {
    const on = <T>(type: MessageType<T>, run: (value: T) => void): void => {
      this.#sent.on(type, (value) => {
        this.story.tell(this.#now(), this.#actor.name, `sends ${type.name} to ${this.#to.toString(36)}`, value);
        run(value);
      });
    };
    on(GpuGranted, (grant) => this.fence.granted(this.#actor, grant));
    on(BatchDispatched, (batch) => this.#dispatched(this.#actor, batch));
    on(CandidateOffered, ({ thread, term }) => this.queues.served(this.#actor, thread, term));
    on(JobOffered, ({ thread, term }) => this.queues.served(this.#actor, thread, term));
    on(GrantAnswered, ({ thread, term }) => this.queues.served(this.#actor, thread, term));
    on(RequestRefused, (refusal) => this.queues.refused(this.#actor, refusal, this.#to));
    on(RequestWithdrawn, (withdrawal) => this.queues.givenUp(this.#actor, withdrawal, this.#to));
    on(BatchFinished, (finished) => this.fence.finished(this.#actor, finished, this.#to));
    on(GpuFreed, (freed) => this.fence.promised(this.#actor, freed));
    on(GpuJoined, (joined) => this.fence.promised(this.#actor, joined));
    on(BatchRefused, () => undefined);
    on(RequestArrived, () => undefined);
    on(ArrivalsMissed, () => undefined);
  }

  #dispatched(batcher: Incarnation, batch: BatchDispatched): void {
    this.fence.dispatched(batcher, batch);
    this.#placements.dispatched(batcher, batch, this.fence.subClusterOf(batch.epoch));
    this.queues.dispatched(batcher, batch);
    this.queues.served(batcher, batch.thread, batch.term);
  }

  #watchReceived(): void {
    const on = <T>(type: MessageType<T>, run: (value: T, sender: ActorKey) => void): void => {
      this.#received.on(type, (value, sender) => {
        this.story.tell(this.#now(), this.#actor.name, `gets ${type.name} from ${sender.toString(36)}`, value);
        run(value, sender);
      });
    };
    on(RequestCosts, (costs, sender) => this.queues.costs(this.#actor, costs, sender));
    on(RequestArrived, (arrival, sender) => this.queues.arrived(this.#actor, arrival, sender));
    on(RequestWithdrawn, (withdrawal, sender) => this.queues.withdrawn(this.#actor, withdrawal, sender));
    on(BatchRefused, (refusal, sender) => this.queues.batchRefused(this.#actor, refusal, sender));
    on(BatchFinished, ({ batchId }) => this.queues.batchFinished(this.#actor, batchId));
    on(ExecutorLost, ({ executor }) => this.queues.executorLost(this.#actor, executor));
    on(GpuGranted, () => undefined);
    on(BatchDispatched, () => undefined);
  }

  onSent(actor: Incarnation, subject: string, payload: Uint8Array, taken: boolean, isKept: boolean): void {
    if (actor.armed > TIMERS_MAX + timersOf(this.#plan)) this.#report("T7", `${actor.name} has ${actor.armed} timers`);
    if (subject.startsWith("_INBOX.")) return this.answers.sent(actor, subject, taken, isKept);
    this.#actor = actor;
    if (subject.startsWith(BEAT_SUBJECT)) return void this.#beats.read(payload);
    if (!subject.startsWith(ACTOR_SUBJECT)) return;
    this.#to = Number.parseInt(subject.slice(ACTOR_SUBJECT.length), 36) as ActorKey;
    this.#sent.read(payload);
  }

  tagOf(actor: Incarnation, channel: Channel): string {
    return this.#bus.tagOf(actor, channel);
  }
  onReceived(actor: Incarnation, channel: Channel, delivery: Delivery): void {
    this.#bus.received(actor, channel, delivery);
    const { subject, payload } = delivery;
    if (subject.startsWith("infer.")) return this.#accepted(actor, delivery.reply);
    if (payload.byteLength < 16) return;
    this.#actor = actor;
    if (subject.startsWith(BEAT_SUBJECT)) this.queues.heard(actor, senderOf(payload));
    else if (subject.startsWith(ACTOR_SUBJECT) || subject === TO_BATCHERS) this.#received.read(payload);
  }

  #accepted(actor: Incarnation, reply: string | undefined): void {
    const coldStartOf = (model: string): Micros => {
      const number = numberOf(this.#plan, model);
      const parking = this.#plan.planned?.scaleToZero[number - 1];
      return parking !== undefined && this.#placements.isParked(actor, number) ? parking.coldStart : micros(0);
    };
    // A pipeline's has the longest of its models', and a version may be drawn for each.
    this.answers.accepted(actor, reply, (target) => {
      const models = modelsOf(this.#plan, target).flatMap((name) => versionsOf(this.#plan, name));
      return micros(Math.max(...models.map(coldStartOf)));
    });
  }

  onCrash(where: { readonly name: string }, error: unknown): void {
    this.#report("T8", `${where.name} threw ${error instanceof Error ? error.stack : String(error)}`);
  }
  onStarted(actor: Incarnation): void {
    this.story.tell(this.#now(), actor.name, "starts");
    this.#actors.set(actor.key, actor);
    this.#placements.started(actor);
    if (actor.slot.startsWith("batcher")) this.queues.started(actor);
  }
  onEnded(actor: Incarnation): void {
    this.story.tell(this.#now(), actor.name, "is gone");
    this.queues.ended(actor);
  }
  onAsked(asked: Asked): void {
    this.answers.asked(asked);
    this.story.tell(this.#now(), "publisher", `asks ${asked.model}, request ${asked.id} within ${asked.slo} µs`);
  }
  onPublishersBack(): void {
    this.answers.publishersBack();
  }
  onOutcome(asked: Asked, outcome: Outcome): void {
    this.story.tell(this.#now(), "publisher", `gets request ${asked.id}: ${outcome.status} ${outcome.text}`);
    this.answers.outcome(asked, outcome);
  }
  onDelivered(hop: { from: string; to: string; subject: string; bytes: number }): void {
    this.story.count(this.#now(), hop);
  }
  onPull(actor: Incarnation, pull: Pull): void {
    this.story.tell(this.#now(), actor.name, "pulls the inputs of a batch", pull);
    if (this.#isHeld(actor.slot)) this.#report("T4", `${actor.name} takes a batch while another has its accelerators`);
    this.fence.accepted(actor, pull);
  }
  onCarried(actor: Incarnation, batch: BatchDispatched, batcher: ActorKey, items: readonly PulledItem[]): void {
    this.story.tell(this.#now(), actor.name, `sends a batch of ${batcher.toString(36)} with its rows`, batch);
    this.answers.handedOut(actor, items);
    this.#dispatched(this.#actors.get(batcher)!, batch);
  }
  watchRows(actor: Incarnation, handlers: DataHandlers): DataHandlers {
    return this.answers.watch(actor, handlers);
  }
  onEntry(actor: Incarnation, bucket: string, key: string, revision: number): void {
    if (bucket === BUCKET.plan && key === PLACEMENT_KEY) this.#placements.shown(actor, revision);
    if (bucket !== BUCKET.leases) return;
    this.story.tell(this.#now(), actor.name, `is shown revision ${revision} of ${key}`);
    if (actor.slot.startsWith("executor") && key.startsWith("model."))
      this.fence.termSeen(actor, Number(key.slice(6)), revision);
  }
  onRun(actor: Incarnation, gpu: number, batchSize: number): void {
    this.story.tell(this.#now(), actor.name, `runs ${batchSize} items on accelerator ${gpu}`);
    this.fence.ran(actor, gpu, 1);
  }
  onRan(actor: Incarnation, gpu: number): void {
    this.fence.ran(actor, gpu, -1);
  }
  onHeld(actor: Incarnation, gpu: number, bytes: number, most: number): void {
    if (bytes > most) this.#report("RS4", `${actor.name} holds ${bytes} bytes on accelerator ${gpu}, and has ${most}`);
  }
  onLogged(actor: Incarnation, level: string, fields: unknown, text: string | undefined): void {
    this.story.tell(this.#now(), actor.name, `${level}: ${text}`, fields);
    if (level === "error" && !this.#expected.has(text))
      this.#report("T8", `${actor.name} reports ${text} ${JSON.stringify(fields)}`);
  }

  /** A lease as the store has it, at the moment of the write. */
  leaseWritten(key: string, value: Uint8Array, revision: number): void {
    this.fence.leaseWritten(key, value, revision);
    const { ranker, batcher } = fromJson(value) as { ranker?: ActorKey; batcher?: ActorKey };
    this.takeovers.leaseWritten(key, ranker ?? batcher);
  }
  /** A placement as the store has it, at the moment of the write. */
  placementWritten(value: Uint8Array, revision: number): void {
    this.#placements.placementWritten(value, revision);
  }
  /** Notes an event of the plan itself. */
  note(text: string): void {
    this.story.tell(this.#now(), "plan", text);
  }
  fail(invariant: string, text: string): void {
    this.#report(invariant, text);
  }
  /** Checks expectations whose time has come. */
  check(): void {
    this.answers.check();
    this.fence.check();
    this.takeovers.check();
  }
}

/** Sender of a control frame. */
const senderOf = (frame: Uint8Array): ActorKey =>
  new DataView(frame.buffer, frame.byteOffset).getFloat64(8, true) as ActorKey;
