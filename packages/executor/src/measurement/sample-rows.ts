import { type ModelSpec, variantView } from "@tutti/protocol";
import { type Store, isStoreFailure } from "@tutti/ports/store";
import type { Logger } from "@tutti/ports/telemetry";
import { decodeTensors, fillRow, unpack } from "@tutti/wire";

/**
 * Rows of real inputs to profile with, if the model came with samples (`tutti load --sample dir`). They are a list of
 * binary tensor messages, in msgpack.
 */
export class SampleRows {
  readonly #store: Store;
  readonly #log: Logger;
  readonly #rows = new Map<string, Map<number, Uint8Array[]>>();
  readonly #asked = new Set<string>();
  /** Continuations of those who wait for samples that are being fetched, by object. */
  readonly #waiting = new Map<string, (() => void)[]>();

  constructor(store: Store, log: Logger) {
    this.#store = store;
    this.#log = log;
  }

  rows(model: string, bucket: number): readonly Uint8Array[] {
    return this.#rows.get(model)?.get(bucket) ?? [];
  }

  want(spec: ModelSpec): void {
    const object = spec.samples;
    if (object === undefined || this.#asked.has(object)) return;
    this.#asked.add(object);
    const waiting: (() => void)[] = [];
    this.#waiting.set(object, waiting);
    this.#store.files.get(object, (result) => {
      if (result === "absent" || isStoreFailure(result))
        this.#log.warn({ model: spec.name, object }, "samples can't be fetched; random inputs are used");
      else this.#read(spec, result.bytes);
      this.#waiting.delete(object);
      for (const next of waiting) next();
    });
  }

  /** Goes on when the model's samples are there, or can't be had; at once, if it has none. */
  whenRead(spec: ModelSpec, next: () => void): void {
    this.want(spec);
    const waiting = spec.samples === undefined ? undefined : this.#waiting.get(spec.samples);
    if (waiting === undefined) next();
    else waiting.push(next);
  }

  #read(spec: ModelSpec, bytes: Uint8Array): void {
    try {
      this.#rows.set(spec.name, rowsByBucket(spec, unpack(bytes)));
    } catch (error) {
      this.#log.warn({ model: spec.name, error: String(error) }, "samples can't be read; random inputs are used");
    }
  }
}

function rowsByBucket(spec: ModelSpec, list: unknown): Map<number, Uint8Array[]> {
  const rows = new Map<number, Uint8Array[]>();
  const asked = spec.family === undefined ? spec : variantView(spec, 0);
  if (!Array.isArray(list)) throw new TypeError("the samples are not a list");
  for (const message of list) {
    if (!(message instanceof Uint8Array)) throw new TypeError("a sample is not a binary tensor message");
    const { bucket, row } = fillRow(asked, { inputs: decodeTensors(message) });
    rows.set(bucket, [...(rows.get(bucket) ?? []), row]);
  }
  return rows;
}
