/**
 * PL2: a batcher that has been shown that a model moved to another sub-cluster sends no more batches of it under grants
 * of the leader that the model has left.
 */
import { type BatchDispatched, type Placement, isPlacement } from "@tutti/protocol";
import { type ActorKey, modelNumberOf } from "@tutti/units";
import { fromJson } from "@tutti/wire";
import type { Incarnation } from "../fixtures/actor-cluster/process.ts";
import type { Report } from "./violation.ts";

interface Shown {
  /** In true time. */
  readonly at: number;
  readonly placement: Placement;
}

export class PlacementChecker {
  readonly #report: Report;
  readonly #now: () => number;
  /** By the revision of the store. */
  readonly #written = new Map<number, Placement>();
  readonly #shown = new Map<ActorKey, Shown>();

  constructor(report: Report, now: () => number) {
    this.#report = report;
    this.#now = now;
  }

  placementWritten(value: Uint8Array, revision: number): void {
    const placement = fromJson(value);
    if (isPlacement(placement)) this.#written.set(revision, placement);
  }

  /** The store has shown an actor a placement. It ignores one that is older than what it knows. */
  shown({ key }: Incarnation, revision: number): void {
    const placement = this.#written.get(revision);
    if (placement !== undefined && placement.epoch > (this.#shown.get(key)?.placement.epoch ?? -1))
      this.#shown.set(key, { at: this.#now(), placement });
  }

  /** @param from - the sub-cluster of the grant's leader; undefined: nobody holds its epoch */
  dispatched({ key, name, process }: Incarnation, { batchId, thread, sentAt }: BatchDispatched, from?: string): void {
    const shown = this.#shown.get(key);
    // A placement that is shown at the moment of the batch may come after it.
    if (shown === undefined || from === undefined || sentAt - process.skew <= shown.at) return;
    const model = modelNumberOf(thread);
    const at = shown.placement.models.find(({ number }) => number === model)?.subCluster;
    if (at !== from)
      this.#report(
        "PL2",
        `${name} sends batch ${batchId} by a grant of ${from}, and knows model ${model} in ${at ?? "none"}`,
      );
  }
}
