import type { EngineBatch } from "@tutti/ports/engine";
import type { ModelSpec } from "@tutti/protocol";

/** Runs of a model that are looked at: its warm-up has no more shapes, and reading the memory takes microseconds. */
const RUNS_LOOKED_AT = 256;

interface Measured {
  readonly batchSizeMax: number;
  bytes: number;
  /** Runs that are still looked at: none after the first of the largest batch. */
  left: number;
}

/**
 * Memory that a model's runs take besides its weights (d of docs/algorithms.md, E1): the engine's growth in the model's
 * first runs, up to the first of the largest batch. Later runs take no more.
 *
 *   MEM-1. Only a run that the engine had to itself is looked at, so that no other model's growth is counted.
 */
export class RunMemory {
  readonly #resident: () => number;
  readonly #models = new Map<string, Measured>();

  /** @param resident - bytes of the engine's memory now */
  constructor(resident: () => number) {
    this.#resident = resident;
  }

  loaded({ name, batchSizeMax }: Pick<ModelSpec, "name" | "batchSizeMax">): void {
    this.#models.set(name, { batchSizeMax, bytes: 0, left: RUNS_LOOKED_AT });
  }
  unloaded(name: string): void {
    this.#models.delete(name);
  }

  /** @returns what the engine holds before this run; undefined: the run isn't looked at */
  before({ model }: Pick<EngineBatch, "model">, isAlone: boolean): number | undefined {
    return isAlone && (this.#models.get(model)?.left ?? 0) > 0 ? this.#resident() : undefined;
  }
  after({ model, batchSize }: Pick<EngineBatch, "model" | "batchSize">, before: number, isAlone: boolean): void {
    const measured = this.#models.get(model);
    if (measured === undefined || !isAlone) return;
    measured.bytes += Math.max(0, this.#resident() - before);
    measured.left = batchSize >= measured.batchSizeMax ? 0 : measured.left - 1;
  }

  /** Bytes, as far as they are measured; undefined: the model hasn't run. */
  of(name: string): number | undefined {
    const measured = this.#models.get(name);
    return measured === undefined || measured.left === RUNS_LOOKED_AT ? undefined : measured.bytes;
  }
}
