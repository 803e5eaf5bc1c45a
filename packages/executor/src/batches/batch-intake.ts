import {
  BATCH_REFUSALS,
  BatchAsked,
  BatchDispatched,
  type BatchRefusal,
  BatchRefused,
  type ModelSpec,
  type PulledItem,
} from "@tutti/protocol";
import type { Clock } from "@tutti/ports/clock";
import { type ActorKey, type GpuId, type Instant, between, bucketOf, isJobThread } from "@tutti/units";
import { type ActorRuntime, type Catalog, plausible } from "@tutti/actors/runtime";
import type { BatchRunner } from "./batch-runner.ts";
import type { ExecutorPorts } from "../executor-ports.ts";
import type { Fence } from "./fence.ts";
import type { GpuSlot } from "./gpu-slot.ts";
import type { ModelLoader } from "../models/model-loader.ts";
import type { RankerLink } from "./ranker-link.ts";

export interface BatchIntakeOptions {
  readonly self: ActorKey;
  readonly clock: Clock;
  readonly data: ExecutorPorts["data"];
  readonly runtime: ActorRuntime;
  readonly catalog: Catalog;
  readonly loader: ModelLoader;
  readonly slots: ReadonlyMap<GpuId, GpuSlot>;
  readonly fence: Fence;
  readonly rankerLink: RankerLink;
  readonly runner: BatchRunner;
  /** Most accepted batches per accelerator. */
  readonly acceptedMax: number;
  /** Whether a latency is to be measured on it. */
  readonly isProbing: (slot: GpuSlot) => boolean;
}

/** Accepts dispatched batches, or refuses each with a reason (X1). */
export class BatchIntake {
  readonly #options: BatchIntakeOptions;
  #isClosed = false;

  constructor(options: BatchIntakeOptions) {
    this.#options = options;
    const { runtime, data, runner, clock } = options;
    const { batch: isPlausible } = plausible(() => clock.now());
    runtime.onPlausible(BatchDispatched, isPlausible, (batch, sender) => this.#onBatch(batch, sender));
    data.onBatch?.((batch, sender, rows) => isPlausible(batch) && this.#onBatch(batch, sender, rows));
    runtime.reader.on(BatchAsked, ({ batchId, thread, gpu }, sender) => {
      // Unknown: refused, lost, or finished with the report lost. Putting its requests back is right for the first two
      // and harmless for the third.
      if (!runner.has(sender, batchId)) this.#refuse({ batchId, thread, gpu }, "expired", sender);
    });
  }

  /** Refuses every further batch: the executor is drained, or ends. */
  close(): void {
    this.#isClosed = true;
  }

  /** @param rows - the rows, if they came with the batch */
  #onBatch(batch: BatchDispatched, sender: ActorKey, rows?: readonly PulledItem[]): void {
    const { clock, slots, catalog, loader, runner, fence, acceptedMax, isProbing } = this.#options;
    const slot = slots.get(batch.gpu);
    const model = catalog.ofThread(batch.thread);
    const loaded = model === undefined ? undefined : loader.get(model.spec.name);
    if (slot === undefined) return this.#refuse(batch, "wrong-incarnation", sender);
    if (this.#isClosed) return this.#turnAway(batch, slot, "draining", sender);
    if (runner.has(sender, batch.batchId)) return; // Repeated on the way.
    // Another version of the model may be loaded, with other buckets or smaller batches.
    if (loaded === undefined || !fits(batch, loaded.spec))
      return this.#turnAway(batch, slot, "model-not-loaded", sender);
    // A model that is measured needs an accelerator with nothing to run, and jobs leave none.
    const isFull = slot.accepted >= acceptedMax || (isJobThread(batch.thread) && isProbing(slot));
    if (isFull) return this.#turnAway(batch, slot, "full", sender);
    const refusal = fence.admit(batch, clock.now());
    if (refusal !== undefined) return this.#turnAway(batch, slot, refusal, sender);
    runner.accept({ batch, batcher: sender, slot, model: loaded, rows });
  }

  /** Refuses a batch and uses up its grant: the ranker counts on the time that it would have taken. */
  #turnAway(batch: BatchDispatched, slot: GpuSlot, reason: BatchRefusal, to: ActorKey): void {
    const { self, fence, rankerLink } = this.#options;
    slot.refusedBatches++;
    this.#refuse(batch, reason, to);
    if (batch.executor !== self || batch.epoch !== fence.epoch) return;
    if (batch.grantSeq <= fence.sequence(batch.gpu)) return;
    fence.raiseSequence(batch.gpu, batch.grantSeq);
    rankerLink.tellOccupied(slot, this.#freeAfter(batch, slot, reason));
  }

  /**
   * When the ranker should take the accelerator for free after a refusal. A batch refused because of the executor's own
   * state would otherwise be granted again at once, and refused again.
   */
  #freeAfter({ grantedAt, startAt, expectedRun }: BatchDispatched, slot: GpuSlot, reason: BatchRefusal): Instant {
    const now = this.#options.clock.now();
    if (reason !== "full" && reason !== "model-not-loaded") return slot.freeAt(now);
    return slot.turnAway(now, between(grantedAt, startAt), expectedRun);
  }

  #refuse(batch: Pick<BatchDispatched, "batchId" | "thread" | "gpu">, reason: BatchRefusal, to: ActorKey): void {
    const { batchId, thread, gpu } = batch;
    this.#options.runtime.send(to, BatchRefused, { batchId, thread, gpu, reason: BATCH_REFUSALS.indexOf(reason) });
  }
}

const fits = ({ thread, ingresses, requests }: BatchDispatched, spec: ModelSpec): boolean =>
  bucketOf(thread) < spec.buckets.length &&
  requests.length <= spec.batchSizeMax &&
  requests.length === ingresses.reduce((sum, { count }) => sum + count, 0);
