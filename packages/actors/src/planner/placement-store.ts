import {
  BUCKET,
  PLACEMENT_KEY,
  type PlanReport,
  type Placement,
  REPORT_KEY,
  isPlacement,
  isPlanReport,
} from "@tutti/protocol";
import { type Store, isStoreFailure } from "@tutti/ports/store";
import type { Logger } from "@tutti/ports/telemetry";
import { readStored, writeStored } from "@tutti/wire";

export interface PlacementStoreOptions {
  readonly store: Store;
  readonly log: Logger;
  /** The placement was changed, by this planner or another, or could not be written. */
  readonly onChange: () => void;
}

/**
 * The placement in the store, written by compare-and-set alone. If two planners write at once, one succeeds, and the
 * other goes on from what that one wrote. An unreadable entry counts as none, and is overwritten.
 */
export class PlacementStore {
  readonly #options: PlacementStoreOptions;
  readonly #watch: { stop(): void };
  #placement: Placement | undefined;
  #revision = 0;
  #isRead = false;
  #isWriting = false;
  /** Whether the last write failed. */
  #isFailing = false;
  #isReporting = false;
  written = 0;
  conflicts = 0;
  failures = 0;

  constructor(options: PlacementStoreOptions) {
    this.#options = options;
    const { store, log } = options;
    this.#watch = store.watch(BUCKET.plan, PLACEMENT_KEY, {
      onEntry: ({ key, value, revision }) => this.#onEntry(key, value, revision),
      onDelete: (key, revision) => this.#onEntry(key, undefined, revision),
      onReady: () => {
        if (this.#isRead) return;
        this.#isRead = true;
        options.onChange();
      },
      onFailure: ({ failure }) => log.warn({ failure }, "watching the plan failed; it is tried again"),
    });
  }

  /** The present placement; undefined: there is none yet. */
  get placement(): Placement | undefined {
    return this.#placement;
  }
  /**
   * Epoch of the next placement. It is above any that was ever written, even if that is unreadable here, since readers
   * know it.
   */
  get nextEpoch(): number {
    return (this.#placement?.epoch ?? this.#revision) + 1;
  }
  /** Whether the present placement is known, and no write is under way. */
  get isReady(): boolean {
    return this.#isRead && !this.#isWriting;
  }

  write(placement: Placement): void {
    this.#isWriting = true;
    const { store, log, onChange } = this.#options;
    store.update(BUCKET.plan, PLACEMENT_KEY, writeStored(isPlacement, placement), this.#revision, (result) => {
      this.#isWriting = false;
      if (result === "conflict") this.conflicts++;
      else if (isStoreFailure(result)) {
        this.failures++;
        // The planner tries again with each tick, perhaps for as long as a disk is full.
        if (!this.#isFailing) log.warn({ failure: result.failure }, "the plan can't be written; it is made anew");
        this.#isFailing = true;
      } else {
        this.#isFailing = false;
        this.written++;
        if (result.revision > this.#revision) {
          this.#revision = result.revision;
          this.#placement = placement;
        }
      }
      onChange();
    });
  }

  /** Writes a report for human readers. Only the last one counts, and a lost one does no harm. */
  writeReport(report: PlanReport): void {
    if (this.#isReporting) return;
    this.#isReporting = true;
    this.#options.store.put(
      BUCKET.plan,
      REPORT_KEY,
      writeStored(isPlanReport, report),
      () => (this.#isReporting = false),
    );
  }

  close(): void {
    this.#watch.stop();
  }

  #onEntry(key: string, value: Uint8Array | undefined, revision: number): void {
    if (key !== PLACEMENT_KEY || revision <= this.#revision) return;
    this.#revision = revision;
    this.#placement = value === undefined ? undefined : this.#read(value);
    this.#options.onChange();
  }

  #read(value: Uint8Array): Placement | undefined {
    const placement = readStored(value, isPlacement);
    if (placement === undefined)
      this.#options.log.warn({ key: PLACEMENT_KEY }, "the plan in the store can't be read, and is made anew");
    return placement;
  }
}
