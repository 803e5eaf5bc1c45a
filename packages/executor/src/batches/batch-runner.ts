/**
 * Carries accepted batches to their end: pulls inputs, runs them, pushes outputs, reports to the batcher. It implements
 * X2 and X3 of the executor.
 */
import type { Clock } from "@tutti/ports/clock";
import type { RunOutcome } from "@tutti/ports/engine";
import { type BatchDispatched, BatchFinished, type PulledItem } from "@tutti/protocol";
import type { DataClient } from "@tutti/ports/pull";
import { WarmRuns } from "@tutti/profile";
import type { Tracer } from "@tutti/ports/telemetry";
import {
  type ActorKey,
  type BatchId,
  type Instant,
  type Micros,
  after,
  before,
  between,
  isJobThread,
  later,
  micros,
  millis,
  modelNumberOf,
} from "@tutti/units";
import type { CatalogModel, ActorRuntime } from "@tutti/actors/runtime";
import type { IsolatedRuns } from "../measurement/isolated-runs.ts";
import { endBatchSpan, startBatchSpan, traceTextOf } from "./batch-spans.ts";
import { ComputeStats } from "../reports/compute-stats.ts";
import type { GpuSlot } from "./gpu-slot.ts";
import { Run } from "./run.ts";
import type { ShadowRuns } from "../measurement/shadow-runs.ts";

export interface BatchRunnerOptions {
  readonly self: ActorKey;
  readonly clock: Clock;
  readonly data: DataClient;
  readonly tracer: Tracer;
  readonly runtime: ActorRuntime;
  /** Observes batches for isolated runs. */
  readonly isolatedRuns: Pick<IsolatedRuns, "pulled" | "starts" | "ended">;
  /** Observes batches for copies to another version. */
  readonly shadows: Pick<ShadowRuns, "pulled" | "answered" | "ended">;
  /** The accelerator will be free at another time than planned, which the ranker should know. */
  readonly onFreeAt: (slot: GpuSlot, freeAt: Instant) => void;
  /** The batch ran and was reported. */
  readonly onRan: (run: Run, startedAt: Instant) => void;
  /** No accepted batch is left. */
  readonly onIdle: () => void;
}

/**
 * How long an ingress may be late with its rows before a due batch starts without them. The ingress then hears that
 * they did not run.
 */
const PULL_GRACE = millis(2);
/**
 * Longest pull, however late a batch may start. An ingress answers at once, and an absent one must not hold a place for
 * long.
 */
const PULL_MS_MAX = 3_000;
/**
 * Bound of the finished batches that wait to be reported to the profiler. The others of that second are not observed.
 */
const OBSERVED_MAX = 4_096;

export class BatchRunner {
  readonly #options: BatchRunnerOptions;
  /** By batcher and batch: each batcher numbers its own. */
  readonly #runs = new Map<string, Run>();
  readonly #observed: BatchFinished[] = [];
  readonly #warmRuns = new WarmRuns();
  readonly #computed = new ComputeStats();
  #abandoned = false;

  constructor(options: BatchRunnerOptions) {
    this.#options = options;
  }

  get size(): number {
    return this.#runs.size;
  }
  /** Statistics of where the time of each thread's batches went, for reports. */
  get computed(): ComputeStats {
    return this.#computed;
  }
  has(batcher: ActorKey, batchId: BatchId): boolean {
    return this.#runs.has(runKey(batcher, batchId));
  }

  /** Accepted and unfinished batches of a model. */
  acceptedOf(modelNumber: number): number {
    let count = 0;
    for (const { batch } of this.#runs.values()) if (modelNumberOf(batch.thread) === modelNumber) count++;
    return count;
  }

  /** @param accepted - includes the rows, if they came with the batch */
  accept({ batch, batcher, slot, model, rows }: AcceptedBatch): void {
    const now = this.#now();
    const run = new Run({ batch, batcher, slot, model, at: now });
    this.#runs.set(runKey(batcher, batch.batchId), run);
    const news = slot.accept(batch, now);
    if (news !== undefined) this.#options.onFreeAt(slot, news);
    if (rows === undefined || !isWhole(batch, rows)) return this.#pull(run);
    run.waiting = 0;
    this.#take(run, 0, rows);
    this.#start(run);
  }

  #take(run: Run, ingress: number, items: readonly PulledItem[]): void {
    const key = run.batch.ingresses[ingress]!.ingress;
    run.take(ingress, items);
    this.#options.isolatedRuns.pulled(run, key, items);
    if (!isJobThread(run.batch.thread)) this.#options.shadows.pulled(run, key, items);
  }

  /** Drops all runs without a report: the process ends, and they run elsewhere. */
  abandon(): void {
    this.#abandoned = true;
    for (const run of this.#runs.values()) run.cutOff?.clear();
  }

  /** Reports observed batches to the profiler. They are not urgent, so they travel together. */
  tellObserved(): void {
    for (const finished of this.#observed.splice(0))
      this.#options.runtime.broadcast("profiler", BatchFinished, finished);
  }

  #now(): Instant {
    return this.#options.clock.now();
  }

  /** X2: pulls from all ingresses at once. One that does not answer in time costs only its own rows. */
  #pull(run: Run): void {
    const { batch } = run;
    const { runtime, data, self, clock } = this.#options;
    const timeoutMs = Math.min(PULL_MS_MAX, Math.max(20, Math.ceil((batch.latest - run.receivedAt) / 1000) + 20));
    if (run.waiting === 0) return this.#start(run);
    if (run.waiting > 1) {
      // T8: an ingress that hangs must not make the rows of the others late.
      run.cutOff = clock.alarm(() => run.rows > 0 && this.#start(run));
      run.cutOff.set(later(batch.latest, after(run.receivedAt, PULL_GRACE)));
    }
    batch.ingresses.forEach(({ ingress, token }, i) => {
      const peer = { key: ingress, address: runtime.registry.get(ingress)?.address };
      const seqs = run.seqsOf(i);
      const pull = {
        executor: self,
        gpu: batch.gpu,
        thread: batch.thread,
        batchId: batch.batchId,
        batcher: run.batcher,
        token,
        seqs,
      };
      data.pull(peer, pull, timeoutMs, (outcome) => {
        if (run.started || this.#abandoned) return; // Too late: the batch runs without these rows.
        if ("items" in outcome) this.#take(run, i, outcome.items);
        else
          runtime.log.warn(
            { batch: batch.batchId, failure: outcome.failure, items: seqs.length },
            "inputs could not be pulled",
          );
        run.waiting--;
        if (run.waiting === 0) this.#start(run);
      });
    });
  }

  #start(run: Run): void {
    run.started = true;
    run.cutOff?.clear();
    run.readyAt = this.#now();
    if (run.rows === 0) return this.#finish(run, []);
    const model = run.model.spec.name;
    const bucket = run.batch.thread % 64;
    this.#options.isolatedRuns.starts(run);
    const parts = run.parts();
    const outcomes: RunOutcome[] = [];
    let left = parts.length;
    // Start all parts at once: another batch must not come between them (T4).
    parts.forEach(({ rows, inputs, units }, i) => {
      const batch = { model, bucket, batchSize: rows.length, inputs, ...(units !== undefined && { units }) };
      run.slot.engine.run(batch, (outcome) => {
        outcomes[i] = outcome;
        if (--left === 0 && !this.#abandoned) this.#finish(run, outcomes);
      });
    });
  }

  /** @param outcomes - one per part, one for most models; empty if there were no rows */
  #finish(run: Run, outcomes: readonly RunOutcome[]): void {
    const { batch, slot } = run;
    const finishedAt = this.#now();
    const took = micros(outcomes.reduce((sum, outcome) => sum + (outcome.kind === "ran" ? outcome.run : 0), 0));
    const startedAt = before(finishedAt, took);
    const failure = outcomes.find((outcome) => outcome.kind === "failed");
    const ran = { startedAt, finishedAt, error: failure?.reason };
    const span = startBatchSpan(this.#options.tracer, run, ran);
    const trace = span === undefined ? undefined : traceTextOf(span, run);
    const failed = this.#push(run, outcomes, { startedAt, finishedAt, took, trace });
    const pushedAt = this.#now();
    if (span !== undefined) endBatchSpan(this.#options.tracer, span, run, { ...ran, pushedAt });
    if (!isJobThread(batch.thread)) this.#computed.note(run, took, between(finishedAt, pushedAt));
    slot.batches++;
    slot.items += run.rows;
    slot.failedItems += failed;
    this.#runs.delete(runKey(run.batcher, batch.batchId));
    const news = slot.finish(batch, took, finishedAt);
    if (news !== undefined) this.#options.onFreeAt(slot, news);
    this.#reportFinished(run, { startedAt, finishedAt, took, failed });
    this.#options.isolatedRuns.ended(run, outcomes);
    this.#options.shadows.ended(run);
    if (outcomes.some(({ kind }) => kind === "ran")) this.#options.onRan(run, startedAt);
    if (this.#runs.size === 0) this.#options.onIdle();
  }

  /** @returns the number of items answered with an error */
  #push(
    run: Run,
    outcomes: readonly RunOutcome[],
    ran: Pick<Ran, "startedAt" | "finishedAt" | "took"> & { readonly trace: string | undefined },
  ): number {
    const { batch } = run;
    const { data, self, runtime } = this.#options;
    let failed = 0;
    batch.ingresses.forEach(({ ingress, token }, i) => {
      const items = run.results(i, outcomes);
      if (items.length === 0) return;
      if (run.hasTaken(i)) {
        for (const item of items) if (item.outputs === undefined) failed++;
        this.#options.shadows.answered(run, ingress, items);
      }
      const address = runtime.registry.get(ingress)?.address;
      data.push(
        { key: ingress, address },
        {
          executor: self,
          gpu: batch.gpu,
          thread: batch.thread,
          batchId: batch.batchId,
          batcher: run.batcher,
          token,
          batchSize: run.rows,
          startedAt: ran.startedAt,
          finishedAt: ran.finishedAt,
          run: ran.took,
          items,
          ...(ran.trace !== undefined && { trace: ran.trace }),
        },
      );
    });
    return failed;
  }

  #reportFinished(run: Run, ran: Ran): void {
    const { batch } = run;
    const finished: BatchFinished = {
      batchId: batch.batchId,
      thread: batch.thread,
      gpu: batch.gpu,
      batchSize: run.rows,
      failed: ran.failed,
      executor: this.#options.self,
      grantedAt: batch.grantedAt,
      receivedAt: run.receivedAt,
      readyAt: run.readyAt,
      startedAt: ran.startedAt,
      finishedAt: ran.finishedAt,
      run: ran.took,
    };
    // Over a link the results leave at the end of this turn, and the report with them: one write, one wake.
    this.#options.runtime.send(run.batcher, BatchFinished, finished, "at once");
    const tells = run.rows > 0 && ran.took > 0 && this.#warmRuns.count(modelNumberOf(batch.thread), ran.finishedAt);
    if (tells && this.#observed.length < OBSERVED_MAX) this.#observed.push(finished);
  }
}

interface Ran {
  readonly startedAt: Instant;
  readonly finishedAt: Instant;
  readonly took: Micros;
  readonly failed: number;
}

export interface AcceptedBatch {
  readonly batch: BatchDispatched;
  readonly batcher: ActorKey;
  readonly slot: GpuSlot;
  readonly model: CatalogModel;
  readonly rows: readonly PulledItem[] | undefined;
}

/**
 * Whether all rows came with the batch. They come only if it has one ingress, one for each request and in their order.
 */
const isWhole = (batch: BatchDispatched, rows: readonly PulledItem[]): boolean =>
  batch.ingresses.length === 1 &&
  rows.length === batch.requests.length &&
  rows.every(({ seq }, i) => seq === batch.requests[i]!.seq);

const runKey = (batcher: ActorKey, batchId: BatchId): string => `${batcher}/${batchId}`;
