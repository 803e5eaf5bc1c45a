import type { RunOutcome } from "@tutti/ports/engine";
import type { SamplesWanted } from "@tutti/protocol";
import type { Instant, Micros, ThreadId } from "@tutti/units";

/** A batch whose possible longest members all run again in isolation. */
export interface WholeBatch {
  readonly batchSize: number;
  readonly took: Micros;
  /** Members that have not run yet. */
  left: number;
  longest: number;
}

/** The input of a request that ran in a batch, kept until it has run in isolation. */
export interface ShelfRow {
  readonly thread: ThreadId;
  readonly app: number;
  readonly units: number;
  readonly bytes: Uint8Array;
  /** When its batch ended. */
  readonly at: Instant;
  readonly whole: WholeBatch | undefined;
  /** Whether it was drawn at random, so that its running time stands for others'. */
  readonly isSample: boolean;
  /** Time of its first isolated run, if it runs a second time. */
  readonly once?: Micros;
  /** Gets the outcome of a copy on another version (ShadowRuns). @param lengths - those of its padded axes */
  readonly onOutcome?: (outcome: RunOutcome, lengths: readonly number[]) => void;
}

/** Bounds of the rows that wait for idle time, and of their bytes; further rows are not sampled (T7). */
export const SHELF_ROWS_MAX = 64;
export const SHELF_BYTES_MAX = 33_554_432;
/** Marked batches that have not ended. */
export const MARKED_MAX = 64;

/** Rows in the order of arrival: which row runs next must not depend on how long it takes. */
export class SampleBuffer {
  readonly #keptFor: Micros;
  #rows: ShelfRow[] = [];
  #bytes = 0;
  /** Rows that found no room, or waited too long. */
  lost = 0;

  /** @param keptFor - how long a row is kept: an older one says nothing of today's requests */
  constructor(keptFor: Micros) {
    this.#keptFor = keptFor;
  }

  get size(): number {
    return this.#rows.length;
  }

  /** Adds all rows or none: the longest of an incomplete batch would not be known. */
  add(rows: readonly ShelfRow[]): boolean {
    const bytes = rows.reduce((sum, row) => sum + row.bytes.byteLength, 0);
    if (this.#rows.length + rows.length > SHELF_ROWS_MAX || this.#bytes + bytes > SHELF_BYTES_MAX) {
      this.lost += rows.length;
      return false;
    }
    this.#rows.push(...rows);
    this.#bytes += bytes;
    return true;
  }

  /** The next row to run, which stays until it is taken. */
  first(now: Instant): ShelfRow | undefined {
    for (let row = this.#rows[0]; row !== undefined; row = this.#rows[0]) {
      if (now - row.at <= this.#keptFor) return row;
      this.take();
      this.lost++;
    }
    return undefined;
  }
  /**
   * Puts a row behind all others, since the present delays of this machine may be over then. It is dropped if its room
   * is taken.
   */
  putBack(row: ShelfRow): void {
    if (this.#rows.length >= SHELF_ROWS_MAX || this.#bytes + row.bytes.byteLength > SHELF_BYTES_MAX) return;
    this.#rows.push(row);
    this.#bytes += row.bytes.byteLength;
  }
  take(): ShelfRow | undefined {
    const row = this.#rows.shift();
    if (row !== undefined) this.#bytes -= row.bytes.byteLength;
    return row;
  }
  clear(): void {
    this.#rows = [];
    this.#bytes = 0;
  }
}

/** The inputs of a marked batch. `rows`: by their place in `wanted`. */
export interface MarkedBatch {
  readonly wanted: SamplesWanted;
  readonly rows: ReadonlyMap<number, Uint8Array>;
}

/** Rows of marked batches that have not ended. */
export class MarkedBatches {
  readonly #byKey = new Map<string, { readonly wanted: SamplesWanted; readonly rows: Map<number, Uint8Array> }>();

  expect(key: string, wanted: SamplesWanted): void {
    this.#byKey.set(key, { wanted, rows: new Map() });
    // A batch that was lost or refused would stay forever.
    for (const oldest of this.#byKey.keys()) {
      if (this.#byKey.size <= MARKED_MAX) break;
      this.#byKey.delete(oldest);
    }
  }
  get size(): number {
    return this.#byKey.size;
  }

  /** Copies an input if it is marked. */
  pulled(key: string, ingress: number, item: { readonly seq: number; readonly row: Uint8Array | undefined }): void {
    const marked = this.#byKey.get(key);
    if (marked === undefined || item.row === undefined) return;
    const place = marked.wanted.rows.findIndex((row) => row.ingress === ingress && row.seq === item.seq);
    if (place >= 0) marked.rows.set(place, new Uint8Array(item.row)); // Buffer.slice would share borrowed memory
  }

  /** Removes and returns a marked batch. */
  take(key: string): MarkedBatch | undefined {
    const marked = this.#byKey.get(key);
    this.#byKey.delete(key);
    return marked;
  }
}
