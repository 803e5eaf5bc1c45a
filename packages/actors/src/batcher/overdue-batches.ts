import type { Clock } from "@tutti/ports/clock";
import { type DispatchedBatch, eachInFlight, worthUntil } from "@tutti/scheduling";
import type { Instant } from "@tutti/units";
import type { ActorRuntime } from "../runtime/actor-runtime.ts";
import type { Dispatcher } from "./dispatcher.ts";
import type { ThreadTable } from "./thread-table.ts";

export interface OverdueBatchesOptions {
  readonly runtime: ActorRuntime;
  readonly clock: Clock;
  readonly threads: ThreadTable;
  readonly dispatcher: Pick<Dispatcher, "ask">;
  /** Puts the batch's requests back into their queue. */
  readonly giveUp: (batch: DispatchedBatch) => void;
}

/** Unanswered questions after which the executor never received the batch, or is gone. */
const ASKINGS_MAX = 4;

/** Asks executors about batches that should have ended, and gives up those that nobody will report. */
export class OverdueBatches {
  readonly #options: OverdueBatchesOptions;

  constructor(options: OverdueBatchesOptions) {
    this.#options = options;
  }

  look(): void {
    const now = this.#options.clock.now();
    for (const { core } of this.#options.threads.values())
      eachInFlight(core, (batch) => batch.askAt <= now && this.#askFor(batch, now));
  }

  #askFor(batch: DispatchedBatch, now: Instant): void {
    const { runtime, dispatcher, giveUp } = this.#options;
    const { grant, requests } = batch;
    // While an executor lives, silence means that the batch still runs: putting it back would run it twice. An executor
    // that is gone answers nothing. No ingress waits for any of its requests after the last deadline.
    const mayRun = now <= worthUntil(requests) && runtime.registry.get(grant.executor) !== undefined;
    const mayAnswer = batch.askings < ASKINGS_MAX && !runtime.registry.isGone(grant.executor);
    if (mayRun || mayAnswer) return dispatcher.ask(batch, now);
    const said = { batch: batch.batchId, gpu: grant.gpu };
    runtime.log.warn(said, "an executor never reported a batch; its requests go back");
    giveUp(batch);
  }
}
