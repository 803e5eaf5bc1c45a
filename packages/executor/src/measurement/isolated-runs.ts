/**
 * Runs marked requests again in isolation, in idle time (docs/algorithms.md, B9). The time of a single request can't be
 * seen in a batch.
 *
 *   ISOLATED-1. An isolated run begins only in time that the ranker gave, and only while nothing is accepted (T4): no
 *               candidate was due then.
 *   ISOLATED-2. On each accelerator isolated runs take at most `share` of the time, and shadow copies SHADOW_SHARE: a
 *               batch that arrives during one waits for it.
 *   ISOLATED-3. Neither the choice of the next row nor the time asked for it depends on how long that row takes: that
 *               would bias the samples.
 *   ISOLATED-4. While there is no idle time for isolated runs, the isolated time of a request is computed from its
 *               length (LengthModel), so samples come either way.
 *   ISOLATED-5. Some of a model's samples run twice: only that shows how much the time of one request varies by itself.
 *               A model whose inputs are declared to vary is known to be dynamic, and needs no second runs.
 */
import type { Alarm, Clock } from "@tutti/ports/clock";
import type { RunOutcome } from "@tutti/ports/engine";
import {
  IdleAsked,
  IdleGiven,
  type PulledItem,
  SamplesWanted,
  paddedAxes,
  readLengths,
  unitsOfLengths,
} from "@tutti/protocol";
import {
  type ActorKey,
  type GpuId,
  type Instant,
  type Micros,
  type ThreadId,
  after,
  between,
  bucketOf,
  later,
  micros,
  millis,
  seconds,
} from "@tutti/units";
import { type CatalogModel, type Leader, type ActorRuntime } from "@tutti/actors/runtime";
import type { GpuSlot } from "../batches/gpu-slot.ts";
import { IsolatedReports, type Sample } from "./isolated-reports.ts";
import { IdleHunger, LengthModel } from "../models/length-model.ts";
import { rowBuffer } from "../batches/padded-buffer.ts";
import type { Run } from "../batches/run.ts";
import { type MarkedBatch, MarkedBatches, SampleBuffer, type ShelfRow } from "./sample-buffer.ts";

export interface IsolatedRunsOptions {
  readonly self: ActorKey;
  readonly runtime: ActorRuntime;
  readonly clock: Clock;
  readonly leader: () => Leader | undefined;
  readonly slots: ReadonlyMap<GpuId, GpuSlot>;
  /** Sequence of the newest grant that an accelerator has seen. */
  readonly sequence: (gpu: GpuId) => number;
  /** The model as it is loaded here. */
  readonly modelOf: (thread: ThreadId) => CatalogModel | undefined;
  readonly mayAsk: () => boolean;
  /** ISOLATED-2; 0: no isolated runs. */
  readonly share: number;
  readonly onOccupied: (slot: GpuSlot, freeAt: Instant) => void;
}

/** An idle accelerator that got no time asks again after this. The interval doubles each time, up to ASK_AGAIN_MOST. */
const ASK_AGAIN = millis(50);
const ASK_AGAIN_MOST = millis(800);
/** How long a row is kept: an older one says nothing of today's requests. */
const KEPT_FOR = seconds(60);
/** Number of a model's recent isolated runs from which the time of the next is estimated. */
const RECENT = 32;
/** Models whose recent runs are remembered. */
const MODELS_TIMED = 4_096;
/** ISOLATED-2: an operator who compares versions wants results within minutes, and ends the comparison then. */
const SHADOW_SHARE = 0.2;
/** Factor on l(1) before anything is measured, since runs often exceed it. */
const UNSURE = 1.2;

/**
 * ISOLATED-5: every second of the first samples, by which a model is first judged, runs twice; later one in
 * REPEATED_EVERY.
 */
const REPEATED_OFTEN = 30;
const REPEATED_EVERY = 8;

class SlotState {
  askAt = 0;
  patience: Micros = ASK_AGAIN;
  running = false;
  /** When the batches that wait for the run could have started. */
  held: Instant[] = [];
}

export class IsolatedRuns {
  readonly #options: IsolatedRunsOptions;
  readonly #marked = new MarkedBatches();
  readonly #sampleBuffer = new SampleBuffer(KEPT_FOR);
  /** Copies for other versions, kept apart: neither kind takes the other's room. */
  readonly #copies = new SampleBuffer(KEPT_FOR);
  /** Whether a copy runs next if both kinds wait. */
  #isCopysTurn = false;
  readonly #states = new Map<GpuSlot, SlotState>();
  readonly #recent = new Map<ThreadId, number[]>();
  readonly #lengths = new LengthModel();
  readonly #hunger: IdleHunger;
  readonly #reports = new IsolatedReports();
  /** ISOLATED-5: number of samples that ran in isolation, by thread. */
  readonly #sampled = new Map<ThreadId, number>();
  readonly #alarm: Alarm;
  #armed = false;
  #stopped = false;
  #reckoned = 0;
  #runs = 0;
  #runUs = 0;
  #delayed = 0;
  #delayUs = 0;
  #delayUsMost = 0;

  constructor(options: IsolatedRunsOptions) {
    this.#options = options;
    this.#hunger = new IdleHunger(options.share);
    this.#alarm = options.clock.alarm(() => this.#look());
    options.runtime.onPacked(SamplesWanted, (wanted, sender) => {
      if (!this.#stopped) this.#marked.expect(`${sender}/${wanted.batchId}`, wanted);
    });
    options.runtime.onPacked(IdleGiven, (given, sender) => this.#onGiven(given, sender));
  }

  stop(): void {
    this.#stopped = true;
    this.#alarm.clear();
    this.#sampleBuffer.clear();
    this.#copies.clear();
  }

  /** Queues a copy of a request to run on another version. @returns false if there is no room for it */
  shelveCopy(row: ShelfRow): boolean {
    if (this.#stopped || !this.#copies.add([row])) return false;
    this.#arm(this.#now());
    return true;
  }

  /** Inputs came from an ingress of the batch. */
  pulled(run: Run, ingress: ActorKey, items: readonly PulledItem[]): void {
    if (this.#marked.size === 0) return;
    for (const item of items) this.#marked.pulled(keyOf(run), ingress, item);
  }

  /** A batch is given to the engine. */
  starts(run: Run): void {
    const state = this.#states.get(run.slot);
    if (state?.running === true) state.held.push(later(run.readyAt, run.batch.startAt));
  }

  /** A batch ended. A request that was alone in its batch needs no isolated run. */
  ended(run: Run, outcomes: readonly RunOutcome[]): void {
    this.#noteLongest(run, outcomes);
    if (this.#marked.size === 0) return;
    const marked = this.#marked.take(keyOf(run));
    const [outcome] = outcomes;
    if (marked === undefined || this.#stopped || outcome?.kind !== "ran") return;
    if (run.rows > 1) this.#reckon(run, marked, outcomes);
    if (outcomes.length > 1 || outcome.failedRows.length > 0) return;
    const { thread } = run.batch;
    const { wanted, rows } = marked;
    const isSample = wanted.what !== "longest";
    if (run.rows === 1) {
      const [place] = rows.keys();
      if (place !== undefined && isSample) this.#note(thread, { ...wanted.rows[place]!, alone: outcome.run });
      return;
    }
    if (this.#options.share === 0) return;
    const isWhole =
      wanted.what !== "some" && rows.size === wanted.rows.length && run.rows === run.batch.requests.length;
    const whole = isWhole ? { batchSize: run.rows, took: outcome.run, left: rows.size, longest: 0 } : undefined;
    const at = this.#now();
    this.#sampleBuffer.add(
      [...rows].map(([place, bytes]): ShelfRow => {
        const { app, units } = wanted.rows[place]!;
        return { thread, app, units, bytes, at, whole, isSample };
      }),
    );
    this.#arm(this.#now());
  }

  /**
   * ISOLATED-4: learns from the longest members of a batch how time depends on length, if the model's inputs have
   * lengths.
   */
  #noteLongest(run: Run, outcomes: readonly RunOutcome[]): void {
    const { thread } = run.batch;
    const costs = run.model.times?.buckets[bucketOf(thread)]?.costs;
    if (costs === undefined) return;
    const longest = run.longest();
    run.partSizes().forEach((batchSize, i) => {
      const outcome = outcomes[i];
      if (outcome?.kind !== "ran" || longest[i] === undefined) return;
      this.#lengths.ranBatch(thread, { batchSize, longest: longest[i], took: outcome.run }, costs);
    });
  }

  /**
   * ISOLATED-4: computes samples of a batch's marked members from their lengths, while rows wait too long for idle
   * time.
   */
  #reckon(run: Run, { wanted, rows }: MarkedBatch, outcomes: readonly RunOutcome[]): void {
    const { thread } = run.batch;
    const { spec, times } = run.model;
    const [outcome] = outcomes;
    if (
      wanted.what === "longest" &&
      outcomes.length === 1 &&
      outcome?.kind === "ran" &&
      paddedAxes(spec).length === 0
    ) {
      const costs = times?.buckets[bucketOf(thread)]?.costs;
      const longest = wanted.rows[0]?.units ?? 0;
      if (costs !== undefined)
        this.#lengths.ranBatch(thread, { batchSize: run.rows, longest, took: outcome.run }, costs);
    }
    const now = this.#now();
    if (wanted.what === "longest" || this.#options.share === 0) return;
    if (!this.#hunger.isFelt(now, this.#sampleBuffer.first(now)?.at)) return;
    for (const [place, bytes] of rows) {
      const { app, units } = wanted.rows[place]!;
      // An application's distribution is made of all lengths, even if no batcher plans with them.
      const length = units > 0 ? units : unitsOfLengths(readLengths(spec, bytes) ?? []);
      const alone = this.#lengths.reckoned(thread, length);
      if (alone === undefined) continue;
      this.#reckoned++;
      this.#reports.sample(thread, { app, units, alone });
    }
  }

  /** Reports samples to the profiler. They are not urgent, so they travel together. */
  tell(): void {
    this.#reports.send(this.#options.runtime);
  }

  /**
   * Totals. `aloneDelayed` batches waited `aloneDelayUs` in all for an isolated run to end, longer than the ranker had
   * planned.
   */
  figures(): Record<string, number> {
    return {
      aloneRuns: this.#runs,
      aloneUs: this.#runUs,
      aloneReckoned: this.#reckoned,
      aloneWaiting: this.#sampleBuffer.size,
      aloneLost: this.#sampleBuffer.lost,
      aloneDelayed: this.#delayed,
      aloneDelayUs: this.#delayUs,
      aloneDelayUsMost: this.#delayUsMost,
    };
  }

  #now(): Instant {
    return this.#options.clock.now();
  }
  #arm(at: Instant): void {
    if (this.#armed || this.#stopped) return;
    this.#armed = true;
    this.#alarm.set(at);
  }
  #stateOf(slot: GpuSlot): SlotState {
    let state = this.#states.get(slot);
    if (state === undefined) this.#states.set(slot, (state = new SlotState()));
    return state;
  }

  /** Asks for time on each accelerator that is idle. */
  #look(): void {
    this.#armed = false;
    const now = this.#now();
    const row = this.#first(now)?.row;
    if (row === undefined) return;
    this.#arm(after(now, ASK_AGAIN));
    const leader = this.#options.leader();
    if (leader === undefined || !this.#options.mayAsk()) return;
    const { self, runtime, sequence, slots } = this.#options;
    for (const slot of slots.values()) {
      const state = this.#stateOf(slot);
      if (state.running || now < state.askAt || slot.accepted > 0 || slot.freeAt(now) > now) continue;
      state.askAt = after(now, state.patience);
      state.patience = micros(Math.min(ASK_AGAIN_MOST, 2 * state.patience));
      const { gpu } = slot;
      const grantSeq = sequence(gpu);
      const takes = this.#takes(row);
      runtime.send(leader.key, IdleAsked, { gpu, executor: self, epoch: leader.epoch, grantSeq, takes });
    }
  }

  /** The row that runs next, and its buffer. */
  #first(now: Instant): { readonly row: ShelfRow; readonly sampleBuffer: SampleBuffer } | undefined {
    const shelves = this.#isCopysTurn ? [this.#copies, this.#sampleBuffer] : [this.#sampleBuffer, this.#copies];
    for (const sampleBuffer of shelves) {
      const row = sampleBuffer.first(now);
      if (row !== undefined) return { row, sampleBuffer };
    }
    return undefined;
  }

  /** ISOLATED-3: asks for as long as the longest of the recent runs. */
  #takes({ thread }: ShelfRow): Micros {
    const recent = this.#recent.get(thread) ?? [];
    const profiled = this.#options.modelOf(thread)?.status?.profiles[bucketOf(thread)]?.[0]?.latency ?? millis(1);
    return micros(Math.ceil(recent.length === 0 ? UNSURE * profiled : Math.max(1, ...recent)));
  }

  #onGiven({ gpu, epoch, grantSeq, validUntil, until }: IdleGiven, sender: ActorKey): void {
    const { slots, sequence, onOccupied, modelOf, clock } = this.#options;
    const slot = slots.get(gpu);
    const leader = this.#options.leader();
    if (slot === undefined || sender !== leader?.key || epoch !== leader.epoch) return;
    const now = clock.now();
    const state = this.#stateOf(slot);
    const isIdle = !state.running && slot.accepted === 0 && slot.freeAt(now) <= now;
    // ISOLATED-1; otherwise the time is given back.
    const mayRun = !this.#stopped && isIdle && now <= validUntil && grantSeq === sequence(gpu);
    const next = mayRun ? this.#first(now) : undefined;
    if (next === undefined) return onOccupied(slot, slot.freeAt(now));
    const { row, sampleBuffer } = next;
    sampleBuffer.take();
    this.#isCopysTurn = sampleBuffer === this.#sampleBuffer;
    const model = modelOf(row.thread);
    const buffer = model === undefined ? undefined : rowBuffer(model.spec, bucketOf(row.thread), 1);
    if (model === undefined || buffer?.add(row.bytes) !== true) return onOccupied(slot, slot.freeAt(now));
    state.running = true;
    state.patience = ASK_AGAIN;
    slot.occupy(until);
    const { rows: _, ...inputs } = buffer.whole();
    const batch = { model: model.spec.name, bucket: bucketOf(row.thread), batchSize: 1, ...inputs };
    const lengths = buffer.lengthsOf(0);
    slot.engine.run(batch, (outcome) => {
      this.#onRan(slot, row, outcome);
      if (!this.#stopped) row.onOutcome?.(outcome, lengths);
    });
  }

  #onRan(slot: GpuSlot, row: ShelfRow, outcome: RunOutcome): void {
    const now = this.#now();
    const state = this.#stateOf(slot);
    state.running = false;
    for (const couldStart of state.held.splice(0)) this.#noteDelay(between(couldStart, now));
    if (this.#stopped) return;
    slot.vacate(now);
    this.#options.onOccupied(slot, slot.freeAt(now));
    const { whole } = row;
    if (outcome.kind !== "ran" || outcome.failedRows.length > 0) {
      if (whole !== undefined) whole.left = -1; // The longest will never be known.
      return;
    }
    this.#runs++;
    this.#runUs += outcome.run;
    const share = row.onOutcome === undefined ? this.#options.share : SHADOW_SHARE;
    state.askAt = after(now, micros(Math.ceil(outcome.run / share)));
    if (row.onOutcome === undefined) this.#hunger.ran(now, outcome.run);
    if (row.once !== undefined) return this.#reports.pair(row.thread, row.once, outcome.run);
    if (this.#isRepeated(row)) this.#sampleBuffer.putBack({ ...row, at: now, whole: undefined, once: outcome.run });
    if (row.isSample) this.#note(row.thread, { ...row, alone: outcome.run });
    if (whole === undefined) return;
    whole.longest = Math.max(whole.longest, outcome.run);
    if (--whole.left > 0) return;
    const { batchSize, took, longest } = whole;
    if (whole.left === 0) this.#reports.batch(row.thread, { batchSize, took, alone: micros(longest) });
  }

  #noteDelay(delay: Micros): void {
    if (delay <= 0) return;
    this.#delayed++;
    this.#delayUs += delay;
    this.#delayUsMost = Math.max(this.#delayUsMost, delay);
  }

  #note(thread: ThreadId, sample: Sample): void {
    const { alone } = sample;
    this.#reports.sample(thread, sample);
    this.#lengths.ranAlone(thread, sample);
    if (!this.#recent.has(thread) && this.#recent.size >= MODELS_TIMED) this.#recent.clear();
    this.#recent.set(thread, [...(this.#recent.get(thread) ?? []).slice(1 - RECENT), alone]);
  }

  /** ISOLATED-5: whether a sample runs twice, independent of its time (ISOLATED-3). */
  #isRepeated({ thread, isSample }: ShelfRow): boolean {
    const model = this.#options.modelOf(thread);
    if (!isSample || model === undefined || paddedAxes(model.spec).length > 0) return false;
    if (!this.#sampled.has(thread) && this.#sampled.size >= MODELS_TIMED) this.#sampled.clear();
    const count = (this.#sampled.get(thread) ?? 0) + 1;
    this.#sampled.set(thread, count);
    return count % (count <= REPEATED_OFTEN ? 2 : REPEATED_EVERY) === 0;
  }
}

const keyOf = (run: Run): string => `${run.batcher}/${run.batch.batchId}`;
