/**
 * Models, a ranker and emulated executors in one thread and in virtual time, without messages between them. The worked
 * examples, the property tests, the benchmark and the simulator run it. It reads no clock: arrivals bring the time.
 *
 *   CLUSTER-1. Events of one instant go in the order of docs/algorithms.md, A4: completions, arrivals, model timers,
 *              invalidation timers, expiries, the match timer; ties by the smaller id.
 *   CLUSTER-2. One batch at a time runs on an accelerator; it starts when it is planned, or when the one before it
 *              ends. After a run that ends earlier than planned it starts as executors do: when its inputs are there.
 *   CLUSTER-3. Accelerators may leave and join again: one that leaves is granted no more, and ends its granted batches.
 *   CLUSTER-4. Requests can be given in advance (`runSlice`): a model then takes those that come before anything else
 *              involves it again. Every decision is the same as if each had come in its turn (`arrive`); only refusals
 *              may be reported before their moment.
 *   CLUSTER-5. While the schedulers stand still (`heardAt`) runs go on and end. Arrivals, ends and timers are handled
 *              in the order of CLUSTER-1 when they go on; ends count at their own time.
 */
import { FifoTable, IndexedHeap } from "@tutti/collections";
import { ALWAYS, NEVER, assert } from "@tutti/units";
import type { ActorKey, GpuId, Instant, Micros, ThreadId } from "@tutti/units";
import { delay } from "../batches/candidate.ts";
import type { ArrivalSlice, ClusterListener, ClusterOptions } from "./cluster-options.ts";
import { Lookahead } from "./lookahead.ts";
import type { Candidate, DispatchedBatch, Grant, ModelEvent, RankEffects, RefusalCause, Request } from "../messages.ts";
import { ModelSink, type ModelsListener } from "../model-thread/model-sink.ts";
import type { ModelThread } from "../model-thread/model-thread-state.ts";
import { createModelThread } from "../model-thread/model-thread-state.ts";
import {
  batchFinished,
  gpuGranted,
  modelClockReached,
  nextWakeAt,
  offeredCandidate,
  requestArrived,
  requestWithdrawn,
  step,
} from "../model-thread/model-thread.ts";
import type { RankThread } from "../rank-thread/rank-thread-state.ts";
import {
  candidateOffered,
  createRankThread,
  fireExpiry,
  fireJobs,
  fireMatchTimer,
  fireModelTimer,
  gpuFreed,
  gpuJoined,
  gpuLost,
  grantAnswered,
  nextRankWakeAt,
} from "../rank-thread/rank-thread.ts";

const EPOCH = 1;
const NO_ARRIVALS: ArrivalSlice = { requests: [], ends: new Uint32Array(0), until: ALWAYS };

export class Cluster implements ModelsListener {
  readonly models: readonly ModelThread[];
  readonly rank: RankThread;
  now: Instant = ALWAYS;
  /** Executor-time spent on batches that have begun, in µs. */
  busyTime = 0;

  readonly #listener: ClusterListener;
  readonly #runTime: ((batch: DispatchedBatch, begin: Instant) => Micros) | undefined;
  readonly #startDelay: ClusterOptions["startDelay"];
  readonly #heardAt: ClusterOptions["heardAt"];
  readonly #ownProfile: ClusterOptions["ownProfile"];
  readonly #typeOf: (gpu: GpuId) => number;
  readonly #sinks: readonly ModelSink[];
  readonly #indexOf = new Map<ThreadId, number>();
  /** Invalidation timers by model; never later than the model wants, but perhaps earlier. */
  readonly #wakes: IndexedHeap;
  /** Batches that run or wait for their accelerator, by slot. */
  readonly #ends: IndexedHeap;
  readonly #batches: (DispatchedBatch | undefined)[] = [];
  readonly #spareSlots: number[] = [];
  readonly #busyUntil: Float64Array;
  readonly #rankSink: RankEffects;
  readonly #lookahead: Lookahead;
  readonly #tellsAll: boolean;
  #slice = NO_ARRIVALS;
  /** By model: the position of its next request in the slice. */
  readonly #nextOf: Uint32Array;

  constructor(options: ClusterOptions) {
    const { models, gpus, ctrl, listener, runTime, startDelay, heardAt, ownProfile, typeOf } = options;
    this.models = models.map((config) => createModelThread({ ...config, epoch: EPOCH }));
    this.rank = createRankThread({ epoch: EPOCH, ctrl: ctrl ?? models[0]!.ctrl, gpusMax: gpus });
    this.#listener = listener ?? {};
    this.#runTime = runTime;
    this.#startDelay = startDelay;
    this.#heardAt = heardAt;
    this.#ownProfile = ownProfile;
    this.#typeOf = typeOf ?? (() => 0);
    this.#sinks = this.models.map((_, i) => new ModelSink(this, i));
    for (const [i, model] of this.models.entries()) this.#indexOf.set(model.thread, i);
    this.#lookahead = new Lookahead(models.length);
    // Which time is spare depends on offers that are not due, and the lookahead is for schedulers that are never late.
    this.#tellsAll =
      options.tellsAll === true || heardAt !== undefined || models.some(({ isForJobs }) => isForJobs === true);
    this.#nextOf = new Uint32Array(models.length);
    this.#wakes = new IndexedHeap(models.length);
    this.#ends = new IndexedHeap(1 << 20); // Batches that run or wait: many where runs take far longer than planned.
    this.#waiting = new FifoTable(gpus);
    this.#told = new Float64Array(gpus).fill(-Infinity);
    this.#busyUntil = new Float64Array(gpus).fill(-Infinity);
    this.#rankSink = {
      grant: (grant) => this.#grant(grant),
      askGpu: (gpu, executor, grantSeq) => {
        const freeAt = this.#busyUntil[gpu]! as Instant;
        gpuFreed(this.rank, this.now, { gpu, executor, grantSeq, freeAt });
      },
    };
    for (let gpu = 0; gpu < gpus; gpu++) this.#joined(gpu as GpuId, ALWAYS, ALWAYS, 0);
  }

  /**
   * Gives a request to its model. Moments must not go back; requests of one moment go in the order of the calls.
   *
   * @param when - time at which it reaches its thread, which may be later than at its ingress
   */
  arrive(model: number, request: Request, when: Instant = request.arrivedAt): void {
    const at = this.#heard(when);
    if (at > this.now) this.#enter(at);
    requestArrived(this.models[model]!, at, request, this.#sinks[model]!);
    this.#rearm(model);
  }

  /**
   * Runs everything before `slice.until` (CLUSTER-4); the slice is not read after that.
   *
   * @throws if a request comes at its `until` or later
   */
  runSlice(slice: ArrivalSlice): void {
    const { requests, ends, until } = slice;
    assert(this.#heardAt === undefined, "slices are for schedulers that never stand still");
    this.#slice = slice;
    for (let model = 0, from = 0; model < ends.length; model++) {
      this.#nextOf[model] = from;
      if (from < ends[model]!) {
        this.#lookahead.comes(model, requests[from]!.arrivedAt);
        this.#lookahead.rearm(model);
      }
      from = ends[model]!;
    }
    // A moment that something was due at may be past. When the slice ends now, others may come now, and go first
    // (CLUSTER-1).
    for (let next = this.#firstAt(); next < until && this.now < until; next = this.#firstAt()) {
      if (next > this.now) this.now = next;
      this.#fireEnds(this.now);
      this.#fireTimers(this.now);
    }
    for (let model = 0; model < ends.length; model++)
      assert(this.#nextOf[model] === ends[model], "a request of a slice comes when it is over");
    this.#slice = NO_ARRIVALS;
    if (this.#takenAt > this.now) this.now = this.#takenAt;
  }
  /** The last request of a slice that its model has taken. */
  #takenAt = ALWAYS;

  /** Withdraws a request. @returns whether it was queued; a dispatched one runs */
  withdraw(model: number, request: Request, when: Instant): boolean {
    const at = this.#heard(when);
    if (at > this.now) this.#enter(at);
    const waited = requestWithdrawn(this.models[model]!, this.now, request.ingress, request.seq, this.#sinks[model]!);
    this.#rearm(model);
    return waited;
  }

  /**
   * Runs everything before a moment, and the ends at it: what is given to models then comes as an arrival would
   * (CLUSTER-1). @returns when the schedulers handle it
   */
  runBefore(when: Instant): Instant {
    const at = this.#heard(when);
    if (at > this.now) this.#enter(at);
    return this.now;
  }
  /** Gives a model another profile or other delays now, as its batcher does. */
  change(model: number, event: Extract<ModelEvent, { kind: "profile-changed" | "delays-changed" }>): void {
    step(this.models[model]!, event, this.#sinks[model]!);
    this.#rearm(model);
  }

  /** Runs everything up to `until`, that moment included. */
  runUntil(until: Instant): void {
    if (this.#heard(until) > until) return this.#runBefore(until);
    if (until > this.now) this.#enter(until);
    this.#fireTimers(until);
  }

  /** Runs until no timer is armed and no batch runs. @returns the time of the last event */
  runUntilIdle(): Instant {
    for (;;) {
      const next = this.nextAt();
      if (next === NEVER) return this.now;
      this.runUntil(next > this.now ? next : this.now);
    }
  }

  /** An accelerator joins (CLUSTER-3). It first ends the batches that it was given before it left. */
  join(gpu: number, when: Instant): void {
    const at = this.#heard(when);
    if (at > this.now) this.#enter(at);
    const freeAt = Math.max(at, this.#busyUntil[gpu]!) as Instant;
    this.#joined(gpu as GpuId, at, freeAt, this.rank.accelerators.grantSeq(gpu));
  }
  #joined(gpu: GpuId, at: Instant, freeAt: Instant, grantSeq: number): void {
    gpuJoined(this.rank, at, { gpu, executor: executorOf(gpu), type: this.#typeOf(gpu), freeAt, grantSeq });
  }

  /** An accelerator leaves (CLUSTER-3): it isn't granted any more. */
  leave(gpu: number, when: Instant): void {
    const at = this.#heard(when);
    if (at > this.now) this.#enter(at);
    gpuLost(this.rank, at, gpu as GpuId, executorOf(gpu));
  }

  /**
   * Time of the next timer or end of a batch; `NEVER` when nothing waits or runs. A moment that is past means at once.
   */
  nextAt(): Instant {
    for (;;) {
      const first = this.#firstAt();
      if (this.#lookahead.nextAt > first || first === NEVER) return first;
      const model = this.#lookahead.next;
      // Now it is among the ranker's timers, or among none.
      if (this.#lookahead.telling(model)) this.#tell(model);
      this.#lookahead.settle(model);
    }
  }

  #heard(at: Instant): Instant {
    return this.#heardAt === undefined || at === NEVER ? at : this.#heardAt(at);
  }

  /** Time at which the next event is handled, including looks of the lookahead. */
  #firstAt(): Instant {
    const rank = nextRankWakeAt(this.rank);
    const wake = this.#wakes.topPriority;
    const end = this.#ends.topPriority;
    const look = this.#lookahead.nextAt;
    const first = wake < end ? wake : end;
    const before = look < rank ? look : rank;
    return this.#heard((first < before ? first : before) as Instant);
  }

  /** Runs everything before `at`, and the completions at it: the arrivals of that moment come next (CLUSTER-1). */
  #enter(at: Instant): void {
    this.#runBefore(at);
    this.now = at;
    this.#fireEnds(at);
  }

  #runBefore(at: Instant): void {
    for (let next = this.#firstAt(); next < at; next = this.#firstAt()) {
      if (next > this.now) this.now = next;
      this.#fireEnds(this.now);
      this.#fireTimers(this.now);
    }
  }

  /** Fires the timers, after the known arrivals (CLUSTER-1). */
  #fireTimers(at: Instant): void {
    const lookahead = this.#lookahead;
    while (lookahead.nextAt <= at) {
      const model = lookahead.next;
      if (lookahead.comesAt(model) <= at) this.#takeRequests(model);
      else if (lookahead.tells(model, at)) this.#tell(model);
      lookahead.settle(model);
    }
    for (;;) {
      if (fireModelTimer(this.rank, at, this.#rankSink)) continue;
      if (this.#wakes.topPriority <= at) this.#fireWake(at);
      else if (!this.#fireRank(at)) return;
    }
  }

  #fireRank(at: Instant): boolean {
    const { rank } = this;
    const sink = this.#rankSink;
    return fireExpiry(rank, at, sink) || fireMatchTimer(rank, at, sink) || fireJobs(rank, at, sink);
  }

  /**
   * Takes requests from the slice (CLUSTER-4). They are those of this moment, and those before the next moment at which
   * the ranker or a timer involves the model. The model is then ahead of the others.
   */
  #takeRequests(index: number): void {
    const { requests, ends } = this.#slice;
    const model = this.models[index]!;
    const sink = this.#sinks[index]!;
    const end = ends[index]!;
    // A completion tells a model whether its batches run as planned. It also tells one with too many batches in flight
    // that it may offer again.
    const isAsPlanned = this.#runTime === undefined && model.dynamic === undefined;
    const mayGoAhead = isAsPlanned && !this.#tellsAll && !model.inFlightBatches.isFull(this.now);
    let place = this.#nextOf[index]!;
    let at = this.#lookahead.comesAt(index);
    do {
      this.#takenAt = at > this.#takenAt ? at : this.#takenAt;
      requestArrived(model, at, requests[place++]!, sink);
      at = place < end ? requests[place]!.arrivedAt : NEVER;
    } while (
      at <= this.now ||
      (mayGoAhead && at < NEVER && at <= this.#lookahead.silentUntil(index) && at <= nextWakeAt(model))
    );
    this.#nextOf[index] = place;
    this.#lookahead.comes(index, at);
    this.#rearm(index);
  }

  #tell(index: number): void {
    candidateOffered(this.rank, this.now, offeredCandidate(this.models[index]!));
  }

  #fireWake(at: Instant): void {
    const index = this.#wakes.pop();
    const model = this.models[index]!;
    if (nextWakeAt(model) <= at) modelClockReached(model, at, this.#sinks[index]!);
    this.#rearm(index);
  }

  /**
   * A later wake-up doesn't move the timer. It then fires early once, which costs less than moving it at every arrival.
   */
  #rearm(index: number): void {
    this.#lookahead.rearm(index);
    const wakeAt = nextWakeAt(this.models[index]!);
    if (wakeAt < this.#wakes.priority(index)) this.#wakes.set(index, wakeAt);
    else if (wakeAt === NEVER) this.#wakes.remove(index);
  }

  #grant(grant: Grant): void {
    const index = this.#indexOf.get(grant.thread)!;
    gpuGranted(this.models[index]!, this.now, grant, this.#sinks[index]!, this.#ownProfile?.(index, grant.gpu));
    this.#rearm(index);
  }

  offered(model: number, candidate: Candidate): void {
    if (this.#tellsAll || this.#lookahead.offers(model, candidate, this.now))
      candidateOffered(this.rank, this.now, candidate);
  }
  answered(model: number, grant: Grant, used: boolean, freeAt: Instant, offerSeq: number, scarcity: number): void {
    const { thread, term, gpu, grantSeq } = grant;
    this.#lookahead.voided(model);
    grantAnswered(this.rank, this.now, { thread, term, gpu, grantSeq, used, freeAt, offerSeq, scarcity });
  }
  refused(model: number, request: Request, cause: RefusalCause): void {
    const { now } = this.models[model]!;
    this.#listener.refused?.(request, cause, now > this.now ? now : this.now);
  }
  dispatched(model: number, batch: DispatchedBatch): void {
    this.#listener.dispatched?.(batch, this.now);
    const { gpu } = batch.grant;
    const isFreeEarly = this.#runTime !== undefined && this.#busyUntil[gpu]! < batch.grant.freeAt;
    const planned = isFreeEarly ? this.now + delay(this.models[model]!, batch.requests.length) : batch.startAt;
    const ready = this.#startDelay === undefined ? planned : this.now + this.#startDelay(batch);
    const begin = Math.max(ready, this.#busyUntil[gpu]!);
    const run = this.#runTime === undefined ? batch.expectedRun : this.#runTime(batch, begin as Instant);
    this.#busyUntil[gpu] = begin + run;
    this.busyTime += run;
    this.#waiting.push(gpu, batch);
    this.#told[gpu] = batch.startAt + batch.expectedRun;
    const slot = this.#spareSlots.pop() ?? this.#batches.length;
    this.#batches[slot] = batch;
    this.#modelOf[slot] = model;
    this.#ends.set(slot, begin + run, gpu * 2 ** 32 + (batch.grant.grantSeq % 2 ** 32));
    this.#begins[slot] = begin;
  }
  readonly #begins: number[] = [];
  readonly #modelOf: number[] = [];
  /** By accelerator: its unfinished batches, in order, and the time at which the ranker believes it to be free. */
  readonly #waiting: FifoTable<DispatchedBatch>;
  readonly #told: Float64Array;

  #fireEnds(at: Instant): void {
    while (this.#ends.topPriority <= at) {
      const end = this.#ends.topPriority as Instant;
      const slot = this.#ends.pop();
      const batch = this.#batches[slot]!;
      this.#batches[slot] = undefined;
      this.#spareSlots.push(slot);
      assert(end === at || this.#heard(end) === at, "CLUSTER-1, CLUSTER-5: an end is reported once it can be heard");
      const { gpu, executor, grantSeq } = batch.grant;
      this.#waiting.shift(gpu);
      if (this.#waiting.first(gpu) === undefined)
        gpuFreed(this.rank, at, { gpu, executor, grantSeq, freeAt: end, ended: true });
      else this.#project(at, end, gpu);
      const index = this.#modelOf[slot]!;
      const model = this.models[index]!;
      const noticed = model.now > at ? model.now : at; // CLUSTER-4: it may be ahead, and then it doesn't matter to it
      const ran = (end - this.#begins[slot]!) as Micros;
      batchFinished(model, noticed, batch.batchId, this.#sinks[index]!, ran, end);
      this.#rearm(index);
      this.#listener.finished?.(batch, this.#begins[slot]! as Instant, end);
    }
  }

  /** Reports when the next batches will have run, as executors do when a run took longer or less than planned. */
  #project(at: Instant, end: Instant, gpu: number): void {
    const waiting = this.#waiting.items(gpu);
    let freeAt: number = end;
    for (const { startAt, expectedRun } of waiting)
      freeAt = Math.max(freeAt, this.#runTime === undefined ? startAt : 0) + expectedRun;
    if (freeAt === this.#told[gpu]) return;
    this.#told[gpu] = freeAt;
    const { executor, grantSeq, gpu: id } = waiting.at(-1)!.grant;
    gpuFreed(this.rank, at, { gpu: id, executor, grantSeq, freeAt: freeAt as Instant, ended: true });
  }
}

const executorOf = (gpu: number): ActorKey => (gpu + 1) as ActorKey;
