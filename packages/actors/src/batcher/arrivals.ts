/** Takes the arrivals of requests in: for the term they name, once each, and none missing between them. */
import type { Clock } from "@tutti/ports/clock";
import { ArrivalsMissed, type Heartbeat, type RequestArrived, type RequestCosts } from "@tutti/protocol";
import { type ActorKey, type ThreadId, between, isJobThread, requestThreadOf } from "@tutti/units";
import type { ActorRuntime } from "../runtime/actor-runtime.ts";
import { OWN_APP_NUMBER } from "../runtime/own-request.ts";
import { ArrivalCosts } from "./arrival-costs.ts";
import type { ArrivalOrder } from "./arrival-order.ts";
import type { Dispatcher, QueuedRequest } from "./dispatcher.ts";
import type { ModelThreads } from "./model-threads.ts";
import type { SampleSelector } from "./sample-selector.ts";
import type { StallDetector } from "./stall-detector.ts";
import type { ThreadStepper } from "./thread-stepper.ts";
import type { ThreadEntry, ThreadTable } from "./thread-table.ts";

/** Bound of the arrivals kept for threads whose lease is not known here yet. An ingress may hear of a lease first. */
const EARLY_MAX = 4_096;

type Steps = RequestCosts["steps"];

export interface ArrivalsOptions {
  readonly runtime: ActorRuntime;
  readonly clock: Clock;
  readonly threads: ThreadTable;
  readonly order: ArrivalOrder;
  readonly modelThreads: ModelThreads;
  readonly dispatcher: Dispatcher;
  readonly stepper: ThreadStepper;
  readonly selector: SampleSelector;
  readonly stalls: StallDetector;
  /** Whether the lengths that requests give are used. */
  readonly takesHints: boolean;
}

export class Arrivals {
  readonly #options: ArrivalsOptions;
  readonly #costs = new ArrivalCosts();
  #early: { arrival: RequestArrived; sender: ActorKey; steps: Steps | undefined }[] = [];

  constructor(options: ArrivalsOptions) {
    this.#options = options;
  }

  noteCosts(costs: RequestCosts, sender: ActorKey): void {
    this.#costs.note(costs, sender);
  }

  take(arrival: RequestArrived, sender: ActorKey): void {
    this.#take(arrival, sender, this.#costs.take(arrival, sender));
  }

  /** Asks an ingress for the arrivals that its heartbeat counts and that did not come (BATCHER-2). */
  onBeat({ key, arrivals = [], sentAt }: Heartbeat): void {
    const { order, clock } = this.#options;
    for (const { thread, term, arrivalSeq } of arrivals) {
      if (this.#entryFor(thread, term)?.term !== term) continue;
      const range = order.missing(key, { thread, term, last: arrivalSeq, sentAt }, clock.now());
      if (range !== undefined) this.#askAgain(key, thread, term, range);
    }
  }

  /** A lease has come: takes the arrivals that were here before it. */
  retryEarly(): void {
    const early = this.#early;
    this.#early = [];
    for (const { arrival, sender, steps } of early) this.#take(arrival, sender, steps);
  }

  /** Drops early arrivals whose deadline has passed: their lease went to another batcher after all. */
  forgetEarly(): void {
    const now = this.#options.clock.now();
    this.#early = this.#early.filter(({ arrival, steps }) => (steps?.at(-1) ?? arrival).deadline > now);
  }

  #take(arrival: RequestArrived, sender: ActorKey, steps: Steps | undefined): void {
    const { runtime, order, stalls, selector, dispatcher, stepper } = this.#options;
    // Drop late or repeated arrivals of an ingress that has left: its inputs are gone.
    if (runtime.registry.isGone(sender)) return;
    const entry = this.#entryFor(arrival.thread, arrival.term);
    if (entry === undefined || arrival.term > entry.term) return this.#keepEarly(arrival, sender, steps);
    if (arrival.term < entry.term) return; // BATCHER-1: the ingress sends it again under the new term.
    const verdict = order.note(sender, arrival.thread, arrival.term, arrival.arrivalSeq);
    const now = this.#options.clock.now();
    const { isForJobs } = entry;
    if (verdict === "repeated") return isForJobs ? undefined : stalls.arrived(entry, arrival.deadline, now);
    if (verdict !== "fresh") this.#askAgain(sender, arrival.thread, arrival.term, verdict);
    entry.arrivals++;
    if (!isForJobs) selector.arrived(entry.id, arrival.app);
    entry.arrivalLagUs += between(arrival.arrivedAt, now);
    const request: QueuedRequest = {
      ingress: sender,
      seq: arrival.seq,
      deadline: arrival.deadline,
      arrivedAt: arrival.arrivedAt,
      slo: arrival.slo,
      app: arrival.app,
      priority: arrival.priority,
      size: arrival.size,
      units: this.#options.takesHints ? arrival.units : 0,
      isOwn: arrival.app === OWN_APP_NUMBER,
      steps,
      thread: arrival.thread,
    };
    if (entry.isTooLong) return dispatcher.refuseLong(request, entry.id);
    const { infeasible } = entry;
    stepper.step(entry, { kind: "request-arrived", at: now, request });
    // Jobs wait as long as requests need the accelerators: that is no stall.
    if (entry.infeasible === infeasible && !isForJobs) stalls.arrived(entry, arrival.deadline, now);
  }

  #keepEarly(arrival: RequestArrived, sender: ActorKey, steps: Steps | undefined): void {
    if (isJobThread(arrival.thread)) return; // The heartbeats of its ingress bring it again.
    if (this.#early.length >= EARLY_MAX) this.forgetEarly();
    if (this.#early.length < EARLY_MAX) this.#early.push({ arrival, sender, steps });
  }

  /** The thread that an ingress means. That of a model's jobs starts with the first of them. */
  #entryFor(thread: ThreadId, term: number): ThreadEntry | undefined {
    const { threads, modelThreads } = this.#options;
    const entry = threads.get(thread);
    if (entry !== undefined || !isJobThread(thread)) return entry;
    const requests = threads.get(requestThreadOf(thread));
    return requests?.term === term ? modelThreads.startJobs(requests) : undefined;
  }

  #askAgain(ingress: ActorKey, thread: ThreadId, term: number, range: { from: number; to: number }): void {
    this.#options.runtime.send(ingress, ArrivalsMissed, { thread, term, fromSeq: range.from, toSeq: range.to });
  }
}
