import type { Clock } from "@tutti/ports/clock";
import type { GpuFreed, GpuState } from "@tutti/protocol";
import type { RankEvent, RankThread } from "@tutti/scheduling";
import type { ActorKey, GpuId } from "@tutti/units";
import { fnv1a } from "@tutti/wire";
import { StaleReports } from "./stale-reports.ts";

export interface RankedAcceleratorsOptions {
  readonly clock: Clock;
  readonly isPlausible: (state: GpuState) => boolean;
  /** State that the leader grants with; undefined: we don't lead. */
  readonly leading: () => RankThread | undefined;
  readonly step: (event: RankEvent) => void;
  readonly onLeft: (gpu: GpuId) => void;
}

/** The accelerators that the leader may grant, and the executor of each. It turns their reports into steps. */
export class RankedAccelerators {
  readonly #options: RankedAcceleratorsOptions;
  readonly #executors = new Map<GpuId, ActorKey>();
  readonly #stale = new StaleReports();

  constructor(options: RankedAcceleratorsOptions) {
    this.#options = options;
  }

  get size(): number {
    return this.#executors.size;
  }
  executors(): ReadonlySet<ActorKey> {
    return new Set(this.#executors.values());
  }
  isDrivenBy(gpu: GpuId, executor: ActorKey): boolean {
    return this.#executors.get(gpu) === executor;
  }

  /** Applies an executor's report of an accelerator: it is serving, or not to be granted for now. */
  reported(executor: ActorKey, state: GpuState): void {
    const { clock, isPlausible, leading, step } = this.#options;
    if (!isPlausible(state)) return;
    const { gpu, freeAt, grantSeq } = state;
    const isStale = this.isDrivenBy(gpu, executor) && leading()?.accelerators.isOutdated(gpu, grantSeq) === true;
    if (this.#stale.isLasting(gpu, isStale, clock.now())) {
      this.leave(gpu, executor);
      leading()?.accelerators.forgetSequence(gpu);
    }
    const driver = this.#executors.get(gpu);
    if (!state.serving) {
      if (driver === executor) this.leave(gpu, executor);
      return;
    }
    // This repairs the loss of a gpu-freed; a report of an older grant is ignored.
    if (driver === executor) return this.#freed(executor, state, false);
    if (driver !== undefined) this.leave(gpu, driver);
    this.#executors.set(gpu, executor);
    step({ kind: "gpu-joined", at: clock.now(), gpu, executor, type: fnv1a(state.type), freeAt, grantSeq });
  }

  freed(executor: ActorKey, freed: GpuFreed): void {
    if (this.isDrivenBy(freed.gpu, executor)) this.#freed(executor, freed, true);
  }
  #freed(
    executor: ActorKey,
    { gpu, freeAt, grantSeq }: Pick<GpuFreed, "gpu" | "freeAt" | "grantSeq">,
    ended: boolean,
  ): void {
    const { clock, step } = this.#options;
    step({ kind: "gpu-freed", at: clock.now(), gpu, executor, freeAt, grantSeq, ended });
  }

  leave(gpu: GpuId, executor: ActorKey): void {
    const { clock, step, onLeft } = this.#options;
    this.#executors.delete(gpu);
    onLeft(gpu);
    step({ kind: "gpu-lost", at: clock.now(), gpu, executor });
  }

  /** @returns the accelerators of an executor that is gone */
  lost(executor: ActorKey): GpuId[] {
    const lost = [...this.#executors].filter(([, driver]) => driver === executor).map(([gpu]) => gpu);
    for (const gpu of lost) this.leave(gpu, executor);
    return lost;
  }

  clear(): void {
    this.#executors.clear();
  }
}
