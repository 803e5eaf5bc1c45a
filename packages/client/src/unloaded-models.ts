import { BUCKET, type ModelSpec, Reservation, UNLOADED_MODELS_MAX, publicNameOf, unloadedKeys } from "@tutti/protocol";
import type { Store } from "@tutti/ports/store";
import { readStored, writeStored } from "@tutti/wire";
import { deleteEntry, listEntries, putEntry } from "./store-calls.ts";

/** Models that were unloaded and may be loaded again by name alone, as a repository has them. Their files stay. */
export class UnloadedModels {
  readonly #store: Store;

  constructor(store: Store) {
    this.#store = store;
  }

  /** Those of one public name, or all, the first unloaded first. */
  async list(name?: string): Promise<ModelSpec[]> {
    const entries = await listEntries(this.#store, BUCKET.models, unloadedKeys.prefix);
    return entries
      .sort((a, b) => a.revision - b.revision)
      .map(({ value }) => readStored(value, Reservation)?.unloaded)
      .filter((spec) => spec !== undefined)
      .filter((spec) => name === undefined || publicNameOf(spec.name) === name);
  }

  /** @returns those that had to go for it */
  async keep(spec: ModelSpec): Promise<ModelSpec[]> {
    const value = writeStored(Reservation, { reserved: true, unloaded: spec });
    await putEntry(this.#store, BUCKET.models, unloadedKeys.model(spec.name), value);
    const all = await this.list();
    const first = all.slice(0, Math.max(0, all.length - UNLOADED_MODELS_MAX));
    for (const { name } of first) await this.forget(name);
    return first;
  }

  forget(name: string): Promise<unknown> {
    return deleteEntry(this.#store, BUCKET.models, unloadedKeys.model(name));
  }
}
