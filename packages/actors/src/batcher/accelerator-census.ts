import type { Clock } from "@tutti/ports/clock";
import type { Heartbeat } from "@tutti/protocol";
import { eachInFlight } from "@tutti/scheduling";
import { ALWAYS, type GpuId, type Instant, millis } from "@tutti/units";
import type { ThreadEntry } from "./thread-table.ts";

/** Shorter than most runs. */
const COUNTED_EVERY = millis(5);

/** Accelerators of a sub-cluster, as far as a batcher knows. */
export interface Census {
  /** Those that serve. */
  readonly accelerators: number;
  readonly idle: number;
}

interface Options {
  /** A PeerRegistry is one. */
  readonly registry: { ofRole(role: "executor"): Iterable<Heartbeat> };
  /** A ThreadTable is one. */
  readonly threads: { values(): Iterable<Pick<ThreadEntry, "core">> };
  readonly clock: Clock;
}

/**
 * Counts the accelerators of each sub-cluster. One is idle if its executor said so last, which may be a tenth of a
 * second ago, and no batch of this batcher is in flight on it. Thousands of refusals a second may ask, so counts are
 * kept for a while.
 */
export class AcceleratorCensus {
  readonly #options: Options;
  #counts = new Map<string, { accelerators: number; idle: number }>();
  #countedAt: Instant = ALWAYS;

  constructor(options: Options) {
    this.#options = options;
  }

  /** @param subCluster - undefined: of a model that has no place yet, which no accelerator serves */
  of(subCluster: string | undefined): Census {
    const now = this.#options.clock.now();
    if (now - this.#countedAt >= COUNTED_EVERY) this.#count(now);
    return (subCluster === undefined ? undefined : this.#counts.get(subCluster)) ?? NONE;
  }

  #count(now: Instant): void {
    this.#countedAt = now;
    this.#counts = new Map();
    const used = this.#used();
    for (const { gpus = [] } of this.#options.registry.ofRole("executor"))
      for (const { gpu, subCluster, serving, idle } of gpus) {
        if (!serving) continue;
        let counts = this.#counts.get(subCluster);
        if (counts === undefined) this.#counts.set(subCluster, (counts = { accelerators: 0, idle: 0 }));
        counts.accelerators++;
        if (idle === true && !used.has(gpu)) counts.idle++;
      }
  }

  #used(): Set<GpuId> {
    const used = new Set<GpuId>();
    for (const { core } of this.#options.threads.values()) eachInFlight(core, ({ grant }) => void used.add(grant.gpu));
    return used;
  }
}

const NONE: Census = { accelerators: 0, idle: 0 };
