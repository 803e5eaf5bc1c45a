/**
 * PL2: a batcher that has been shown that a model moved to another sub-cluster sends no more batches of it under grants
 * of the leader that the model has left. A planner's placements follow one another (PN1), and a model that is parked
 * was marked for long enough before (PL6, PARK-1).
 */
import { type BatchDispatched, type Placement, isPlacement } from "@tutti/protocol";
import { type ActorKey, type GpuId, modelNumberOf } from "@tutti/units";
import { fromJson } from "@tutti/wire";
import type { Incarnation } from "../fixtures/actor-cluster/process.ts";
import { memoryOf } from "./memory.ts";
import type { Plan } from "./plan.ts";
import type { Report } from "./violation.ts";

/** Time between the mark and the leaving (PARK-1), less what two planners' clocks may differ. */
const LEAVES_US = 2_000_000 - 1_000;

interface Shown {
  /** In true time. */
  readonly at: number;
  readonly placement: Placement;
}

export class PlacementChecker {
  readonly #report: Report;
  readonly #now: () => number;
  readonly #plan: Plan;
  /** Bytes that the last executor in each place may use. */
  readonly #memory = new Map<string, number>();
  /** By the revision of the store. */
  readonly #written = new Map<number, Placement>();
  readonly #shown = new Map<ActorKey, Shown>();

  constructor(report: Report, now: () => number, plan: Plan) {
    this.#plan = plan;
    this.#report = report;
    this.#now = now;
  }

  started({ slot, key }: Incarnation): void {
    const bytes = slot.startsWith("executor") ? memoryOf(this.#plan, key) : undefined;
    if (bytes !== undefined) this.#memory.set(slot, bytes);
  }

  placementWritten(value: Uint8Array, revision: number): void {
    const placement = fromJson(value);
    if (!isPlacement(placement)) return;
    this.#written.set(revision, placement);
    if (this.#last !== undefined && this.#plan.planned !== undefined) this.#follows(this.#last, placement);
    this.#last = placement;
  }
  #last: Placement | undefined;

  #follows(before: Placement, { epoch, madeAt, models, gpus, parked = [] }: Placement): void {
    if (epoch <= before.epoch) this.#report("PN1", `placement ${epoch} is written over ${before.epoch}`);
    // Accelerators that were away for an epoch lose their places, or come back with less memory, and perhaps no others
    // hold their models. While all are away, models stay without any.
    const placed = new Set(gpus.map(({ gpu }) => gpu));
    const givesUp = (subCluster: string): boolean => {
      const there = before.gpus.filter((one) => one.subCluster === subCluster);
      if (there.length === 0 || there.some(({ gpu }) => !placed.has(gpu))) return true;
      const bytes = before.models.map((one) => (one.subCluster === subCluster ? this.#bytesOf(one.number) : 0));
      const all = bytes.reduce((sum, one) => sum + one, 0);
      return there.every(({ gpu }) => this.#memoryOf(gpu) < all);
    };
    const served = new Set(models.map(({ number }) => number));
    for (const { number, subCluster } of before.models) {
      if (served.has(number) || givesUp(subCluster)) continue;
      const mark = before.parked?.find((one) => one.number === number);
      if (mark === undefined || !parked.some((one) => one.number === number))
        this.#report("PL6", `placement ${epoch} takes model ${number} from all, which was not about to be parked`);
      else if (madeAt - mark.since < LEAVES_US)
        this.#report("PARK-1", `model ${number} leaves ${madeAt - mark.since} µs after it was marked`);
    }
  }

  #bytesOf(model: number): number {
    return this.#plan.memory?.models[model - 1] ?? 0;
  }

  #memoryOf(gpu: GpuId): number {
    return this.#memory.get(`executor-${Math.floor(gpu / this.#plan.gpusPerExecutor)}`) ?? Infinity;
  }

  /** The store has shown an actor a placement. It ignores one that is older than what it knows. */
  shown({ key }: Incarnation, revision: number): void {
    const placement = this.#written.get(revision);
    if (placement !== undefined && placement.epoch > (this.#shown.get(key)?.placement.epoch ?? -1))
      this.#shown.set(key, { at: this.#now(), placement });
  }

  /** Whether an actor has been shown the model as parked. */
  isParked({ key }: Incarnation, model: number): boolean {
    return this.#shown.get(key)?.placement.parked?.some(({ number }) => number === model) === true;
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
