/**
 * Models whose batches run on the caller's thread. A short run costs less than the two wakes and two messages of a
 * round trip to the session worker: at 300 requests a second of the demo's MLP 150 µs of processor time each.
 *
 *   INLINE-1. Only models whose largest batch takes QUICK_US at most: nothing else waits longer for this thread.
 *   INLINE-2. A run here can hang the thread that would notice it, so the session worker watches: see RunWatch.
 */
import type { EngineBatch, RunOutcome } from "@tutti/ports/engine";
import type { ModelSpec } from "@tutti/protocol";
import type { LoadedModel } from "./loaded-model.ts";
import { mayTakeLong } from "./may-take-long.ts";
import type { SessionSettings } from "./provider.ts";
import { type NoteOptions, NoteWriter, inlineNotePath } from "./run-note.ts";

/** Larger files are loaded on the worker alone: making their session would block this thread. */
const FILE_BYTES_MAX = 16_777_216;

/** Whether a trial can measure the model's run time. */
export const mayRunInline = (spec: ModelSpec, bytes: Uint8Array): boolean =>
  bytes.byteLength <= FILE_BYTES_MAX && !mayTakeLong(spec, bytes);

export class InlineModels {
  readonly #models = new Map<string, LoadedModel>();
  readonly #settings: SessionSettings;
  readonly #noteOptions: NoteOptions | undefined;
  #note: NoteWriter | undefined;
  /** Odd while a run is in progress; the worker reads it. */
  readonly #runs = new Int32Array(new SharedArrayBuffer(4));

  constructor(settings: SessionSettings, note: NoteOptions | undefined) {
    this.#settings = settings;
    this.#noteOptions = note && { ...note, path: inlineNotePath(note.path) };
  }

  /** The run counter, for the worker's watch. */
  get shared(): Int32Array {
    return this.#runs;
  }
  has(name: string): boolean {
    return this.#models.has(name);
  }

  /**
   * Loads a model that the worker has loaded for this thread; `put` makes it active. @throws {LoadRefusal} @throws
   * onnxruntime's errors
   */
  async prepare(spec: ModelSpec, bytes: Uint8Array): Promise<LoadedModel> {
    // Only here: most processes that import this start no engine.
    const { LoadedModel: Loaded } = await import("./loaded-model.ts");
    return Loaded.load({ spec, bytes, settings: this.#settings, isChecked: true });
  }

  /** Sets or removes a model between two runs. @param model - undefined: the worker has it, or it is unloaded */
  async put(name: string, model: LoadedModel | undefined): Promise<void> {
    const old = this.#models.get(name);
    if (model === undefined) this.#models.delete(name);
    else this.#models.set(name, model);
    await old?.release();
  }

  async run(batch: EngineBatch): Promise<RunOutcome> {
    const model = this.#models.get(batch.model);
    if (model === undefined)
      return {
        ...{ kind: "failed", reason: `model '${batch.model}' isn't loaded on this executor` },
        ...{ fault: false, isUnloaded: true },
      };
    if (this.#noteOptions !== undefined) this.#note ??= new NoteWriter(this.#noteOptions);
    this.#note?.begin(model.spec, "run");
    Atomics.add(this.#runs, 0, 1);
    try {
      return await model.run(batch);
    } finally {
      Atomics.add(this.#runs, 0, 1);
      this.#note?.end();
    }
  }

  async close(): Promise<void> {
    for (const name of [...this.#models.keys()]) await this.put(name, undefined);
    this.#note?.close();
  }
}
