/**
 * The scheduler in turns, so that ModelThreads and RankThread can run in several threads and still decide the same.
 *
 * Virtual time is cut into turns. Messages sent in a turn travel together at its end, and arrive HOP turns after the
 * turn that they were sent in: as on a network, and as messages do that are flushed once per turn of the event loop
 * (docs/architecture.md, section 2). So a thread may run ahead of the others by up to HOP − 1 turns, and needs no lock.
 *
 *   TU1. Within a turn a model sends at most one offer, its newest (a mailbox of size one: docs/algorithms.md, A5), and
 *        an offer that isn't due before it could be sent a turn later waits: most are overtaken by the next arrival.
 *   TU2. Messages of one turn to one receiver commute: they are about different models and accelerators. So the
 *        decisions don't depend on how models are spread over threads.
 */
import { IndexedHeap } from "@tutti/collections";
import {
  type Candidate,
  type DispatchedBatch,
  type Grant,
  type ModelEffects,
  type ModelThread,
  type RankThread,
  type Request,
  batchFinished,
  candidateOffered,
  createModelThread,
  createRankThread,
  gpuFreed,
  gpuGranted,
  gpuJoined,
  grantAnswered,
  modelClockReached,
  nextRankWakeAt,
  nextWakeAt,
  offeredCandidate,
  rankClockReached,
  requestArrived,
  NONE_UNFIT,
} from "@tutti/scheduling";
import {
  ALWAYS,
  type ActorKey,
  type GpuId,
  type Instant,
  type Micros,
  type ThreadId,
  micros,
  modelNumberOf,
  threadId,
} from "@tutti/units";
import type { RingReader, RingWriter } from "./shared-ring.ts";
import { type Arrivals, modelConfig, requestAt } from "./workload.ts";

/** µs of virtual time. */
export const TURN = 100;
/** Turns between sending and arrival. */
export const HOP = 5;
/** A grant and a plan travel one hop each. */
export const DELAYS = { ctrl: micros(2 * HOP * TURN), perItem: micros(0), guard: micros((HOP + 1) * TURN) };

const OFFER = 0;
const ANSWER = 1;
const EPOCH = 1;
const TERM = 1;
const executorOf = (gpu: number): ActorKey => (gpu + 1) as ActorKey;

/** Counts of the models of one thread; the threads' tallies are added up. */
export interface ModelTally {
  refused: number;
  late: number;
  batches: number;
  served: number;
  busyTime: number;
}

/** The models of one thread, their arrivals and their batches. */
export class ModelHost implements ModelEffects {
  readonly tally: ModelTally = { refused: 0, late: 0, batches: 0, served: 0, busyTime: 0 };
  /** A hash per model over everything it decided, in order: the decision log, kept short. By model number. */
  readonly digests: Map<number, number>;
  readonly #models: ModelThread[];
  readonly #localOf = new Map<number, number>();
  readonly #arrivals: Arrivals;
  readonly #mine: Int32Array;
  #nextArrival = 0;
  readonly #toRank: RingWriter;
  readonly #fromRank: RingReader;
  readonly #wakes: IndexedHeap;
  readonly #ends: IndexedHeap;
  readonly #batches: (DispatchedBatch | undefined)[] = [];
  readonly #spare: number[] = [];
  readonly #hasNews: Uint8Array;
  readonly #news: number[] = [];
  /**
   * When the offer that the ranker has is due; +Infinity if it has none. A model with an earlier offer there can't
   * wait.
   */
  readonly #sentDueAt: Float64Array;
  #turn = 0;
  #current = 0;
  #now = 0;

  constructor(o: {
    models: readonly number[];
    arrivals: Arrivals;
    toRank: RingWriter;
    fromRank: RingReader;
    gpus: number;
  }) {
    this.#models = o.models.map((m) => createModelThread(modelConfig(m, DELAYS)));
    this.digests = new Map(o.models.map((m) => [m, 0]));
    for (const [local, m] of o.models.entries()) this.#localOf.set(m, local);
    this.#arrivals = o.arrivals;
    const mine: number[] = [];
    for (let i = 0; i < o.arrivals.at.length; i++) if (this.#localOf.has(o.arrivals.model[i]!)) mine.push(i);
    this.#mine = Int32Array.from(mine);
    this.#toRank = o.toRank;
    this.#fromRank = o.fromRank;
    this.#wakes = new IndexedHeap(Math.max(1, o.models.length));
    this.#ends = new IndexedHeap(64 * o.gpus);
    this.#hasNews = new Uint8Array(o.models.length);
    this.#sentDueAt = new Float64Array(o.models.length).fill(Infinity);
  }

  runTurn(turn: number): void {
    const start = turn * TURN;
    this.#turn = turn;
    this.#now = start;
    this.#readGrants(turn - HOP, start as Instant);
    const end = start + TURN;
    const { at, model } = this.#arrivals;
    for (;;) {
      const index = this.#nextArrival < this.#mine.length ? this.#mine[this.#nextArrival]! : -1;
      const arrival = index < 0 ? Infinity : at[index]!;
      const timer = this.#wakes.topPriority;
      const completion = this.#ends.topPriority;
      const first = arrival <= timer ? arrival : timer;
      if (completion <= first) {
        if (completion >= end) break;
        this.#finish(completion as Instant);
      } else if (arrival <= timer) {
        if (arrival >= end) break;
        this.#nextArrival++;
        this.#step(this.#localOf.get(model[index]!)!, arrival as Instant, requestAt(arrival, index + 1));
      } else {
        if (timer >= end) break;
        this.#step(this.#wakes.pop(), timer as Instant, undefined);
      }
    }
    this.#flush();
  }

  #step(local: number, at: Instant, request: Request | undefined): void {
    this.#now = at;
    this.#current = local;
    const model = this.#models[local]!;
    if (request === undefined) modelClockReached(model, at, this);
    else requestArrived(model, at, request, this);
    this.#rearm(local, model);
  }
  #rearm(local: number, model: ModelThread): void {
    const wakeAt = nextWakeAt(model);
    if (wakeAt < this.#wakes.priority(local)) this.#wakes.set(local, wakeAt);
    else if (wakeAt === Infinity) this.#wakes.remove(local);
  }
  #finish(at: Instant): void {
    const slot = this.#ends.pop();
    const batch = this.#batches[slot]!;
    this.#batches[slot] = undefined;
    this.#spare.push(slot);
    const local = this.#localOf.get(modelNumberOf(batch.thread))!;
    this.#now = at;
    this.#current = local;
    batchFinished(this.#models[local]!, at, batch.batchId, this);
    this.#rearm(local, this.#models[local]!);
    this.tally.served += batch.requests.length;
    if (at > batch.requests[0]!.deadline) this.tally.late += batch.requests.length;
  }

  #readGrants(lastTurn: number, at: Instant): void {
    const { records } = this.#fromRank;
    for (let r = this.#fromRank.next(lastTurn); r >= 0; r = this.#fromRank.next(lastTurn)) {
      const gpu = records[r + 3]! as GpuId;
      const grant: Grant = {
        thread: records[r + 1]! as ThreadId,
        term: TERM,
        offerSeq: records[r + 2]!,
        gpu,
        executor: executorOf(gpu),
        epoch: EPOCH,
        grantSeq: records[r + 4]!,
        freeAt: records[r + 5]! as Instant,
        sentAt: records[r + 6]! as Instant,
        validUntil: records[r + 7]! as Instant,
        scarcity: 0, // these models always wait in full, and report none
      };
      const local = this.#localOf.get(modelNumberOf(grant.thread))!;
      this.#current = local;
      gpuGranted(this.#models[local]!, at, grant, this);
      this.#rearm(local, this.#models[local]!);
    }
    this.#fromRank.release();
  }
  #flush(): void {
    // Arrival of a message that is sent at the end of the next turn.
    const nextArrives = (this.#turn + 1 + HOP) * TURN;
    let kept = 0;
    for (let i = 0; i < this.#news.length; i++) {
      const local = this.#news[i]!;
      const { thread, offerSeq, batchSize, execAt, latest, delay } = offeredCandidate(this.#models[local]!);
      const dueAt = batchSize === 0 ? Infinity : execAt - delay;
      if (dueAt > nextArrives && dueAt <= this.#sentDueAt[local]!) this.#news[kept++] = local;
      else {
        this.#hasNews[local] = 0;
        this.#sentDueAt[local] = dueAt;
        this.#toRank.write(this.#turn, OFFER, thread, offerSeq, batchSize, execAt, latest, delay);
      }
    }
    this.#news.length = kept;
    this.#toRank.publish();
  }

  offer(_candidate: Candidate): void {
    if (this.#hasNews[this.#current] === 1) return;
    this.#hasNews[this.#current] = 1;
    this.#news.push(this.#current);
  }
  answerGrant({ thread, gpu, grantSeq }: Grant, _used: boolean, freeAt: Instant, offerSeq: number): void {
    this.#sentDueAt[this.#current] = Infinity;
    this.#toRank.write(this.#turn, ANSWER, thread, offerSeq, gpu, grantSeq, freeAt, 0);
  }
  dispatch(batch: DispatchedBatch): void {
    const { startAt, expectedRun, requests, grant } = batch;
    const slot = this.#spare.pop() ?? this.#batches.length;
    this.#batches[slot] = batch;
    this.#ends.set(slot, startAt + expectedRun, batch.batchId);
    this.tally.batches++;
    this.tally.busyTime += expectedRun;
    this.#digest(batch.thread, requests[0]!.seq, requests.length, grant.gpu, startAt);
  }
  refuse(request: Request): void {
    this.tally.refused++;
    this.#digest(threadId(this.#arrivals.model[request.seq - 1]!, 0), request.seq, 0, -1, this.#now);
  }
  #digest(thread: ThreadId, ...numbers: number[]): void {
    const model = modelNumberOf(thread);
    let hash = this.digests.get(model)!;
    for (const number of numbers) hash = Math.imul((hash ^ (number | 0)) + 0x7f4a7c15, 0x9e3779b1) ^ (hash >>> 13);
    this.digests.set(model, hash | 0);
  }
}

/** The one RankThread, and the completion reports of the executors. */
export class RankHost {
  readonly rank: RankThread;
  readonly #fromModels: readonly RingReader[];
  readonly #toModels: readonly RingWriter[];
  readonly #hostOf: Uint8Array;
  readonly #ends: IndexedHeap;
  readonly #freeAt: Float64Array;
  #turn = 0;
  readonly #sink = {
    grant: (grant: Grant): void => this.#grant(grant),
    askGpu: (gpu: GpuId, executor: ActorKey, grantSeq: number): void =>
      gpuFreed(this.rank, this.rank.now, { gpu, executor, grantSeq, freeAt: this.#freeAt[gpu]! as Instant }),
  };

  /** @param o.hostOf - the host of each model, by model number */
  constructor(o: {
    gpus: number;
    hostOf: Uint8Array;
    fromModels: readonly RingReader[];
    toModels: readonly RingWriter[];
  }) {
    this.rank = createRankThread({ epoch: EPOCH, ctrl: DELAYS.ctrl, gpusMax: o.gpus });
    this.#fromModels = o.fromModels;
    this.#toModels = o.toModels;
    this.#hostOf = o.hostOf;
    this.#ends = new IndexedHeap(o.gpus);
    this.#freeAt = new Float64Array(o.gpus).fill(-Infinity);
    for (let gpu = 0; gpu < o.gpus; gpu++) {
      const joined = { gpu: gpu as GpuId, executor: executorOf(gpu), type: 0, freeAt: ALWAYS, grantSeq: 0 };
      gpuJoined(this.rank, ALWAYS, joined);
    }
  }

  runTurn(turn: number): void {
    this.#turn = turn;
    const start = (turn * TURN) as Instant;
    for (const ring of this.#fromModels) this.#read(ring, turn - HOP, start);
    const end = start + TURN;
    for (;;) {
      const wake = nextRankWakeAt(this.rank);
      const completion = this.#ends.topPriority;
      if (completion <= wake && completion < end) this.#report(completion);
      else if (wake < end) rankClockReached(this.rank, wake > this.rank.now ? wake : this.rank.now, this.#sink);
      else break;
    }
    for (const ring of this.#toModels) ring.publish();
  }

  #read(ring: RingReader, lastTurn: number, at: Instant): void {
    const { records } = ring;
    for (let r = ring.next(lastTurn); r >= 0; r = ring.next(lastTurn)) {
      const thread = records[r + 2]! as ThreadId;
      const offerSeq = records[r + 3]!;
      if (records[r + 1] === OFFER) {
        const [batchSize, execAt, latest, delay] = [records[r + 4]!, records[r + 5]!, records[r + 6]!, records[r + 7]!];
        const candidate = { thread, term: TERM, offerSeq, batchSize, execAt: execAt as Instant, unfit: NONE_UNFIT };
        candidateOffered(this.rank, at, { ...candidate, latest: latest as Instant, delay: delay as Micros });
      } else {
        const [gpu, grantSeq, freeAt] = [records[r + 4]! as GpuId, records[r + 5]!, records[r + 6]! as Instant];
        this.#freeAt[gpu] = freeAt;
        if (freeAt > at) this.#ends.set(gpu, freeAt);
        grantAnswered(this.rank, at, { thread, term: TERM, gpu, grantSeq, used: true, freeAt, offerSeq, scarcity: 0 });
      }
    }
    ring.release();
  }
  /** The executor reports that it is free: the report counts only if nothing was granted since. */
  #report(at: number): void {
    const gpu = this.#ends.pop() as GpuId;
    const { accelerators, now } = this.rank;
    const grantSeq = accelerators.grantSeq(gpu);
    if (accelerators.grantedTo(gpu) >= 0) return;
    const freeAt = at as Instant;
    gpuFreed(this.rank, (at > now ? at : now) as Instant, { gpu, executor: executorOf(gpu), grantSeq, freeAt });
  }
  #grant({ thread, offerSeq, gpu, grantSeq, freeAt, sentAt, validUntil }: Grant): void {
    const ring = this.#toModels[this.#hostOf[modelNumberOf(thread)]!]!;
    ring.write(this.#turn, thread, offerSeq, gpu, grantSeq, freeAt, sentAt, validUntil);
  }
}
