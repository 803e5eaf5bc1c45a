import type { RunOutcome } from "@tutti/ports/engine";
import type { SamplesWanted } from "@tutti/protocol";
import type { Instant, Micros, ThreadId } from "@tutti/units";

/** A batch that ran, of which all members are run again alone that could be its longest. */
export interface WholeBatch {
  readonly batchSize: number;
  readonly took: Micros;
  /** Members that have not run yet. */
  left: number;
  longest: number;
}

/** The input of a request that ran in a batch, kept until it has run alone. */
export interface ShelfRow {
  readonly thread: ThreadId;
  readonly app: number;
  readonly units: number;
  readonly bytes: Uint8Array;
  /** When its batch ended. */
  readonly at: Instant;
  readonly whole: WholeBatch | undefined;
  /** It was drawn, so that its running time stands for others'. */
  readonly isSample: boolean;
  /** What it took alone already, where it runs once more. */
  readonly once?: Micros;
  /** Of a copy that runs on another version (ShadowRuns): told what came of it. @param lengths - of its padded axes */
  readonly onOutcome?: (outcome: RunOutcome, lengths: readonly number[]) => void;
}

/** Rows that wait for idle time, and the bytes of them; what comes beyond is not sampled (T7). */
export const SHELF_ROWS_MAX = 64;
export const SHELF_BYTES_MAX = 33_554_432;
/** Batches that are marked and have not ended. */
export const MARKED_MAX = 64;

/** First in, first out: which row runs next must not depend on how long it takes. */
export class SampleBuffer {
  readonly #keptFor: Micros;
  #rows: ShelfRow[] = [];
  #bytes = 0;
  /** Rows that found no room, or waited for too long. */
  lost = 0;

  /** @param keptFor - longer, a row says nothing of today's requests */
  constructor(keptFor: Micros) {
    this.#keptFor = keptFor;
  }

  get size(): number {
    return this.#rows.length;
  }

  /** All of them or none: of a batch that is there in part the longest would not be known. */
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

  /** The next to run, which stays until it is taken. */
  first(now: Instant): ShelfRow | undefined {
    for (let row = this.#rows[0]; row !== undefined; row = this.#rows[0]) {
      if (now - row.at <= this.#keptFor) return row;
      this.take();
      this.lost++;
    }
    return undefined;
  }
  /**
   * To run after all others: what delays this machine now may be over then. Its room may have been given away: it runs
   * no more then.
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

/** What came of one: rows by their place in `wanted`. */
export interface MarkedBatch {
  readonly wanted: SamplesWanted;
  readonly rows: ReadonlyMap<number, Uint8Array>;
}

/** Rows of batches that are marked and have not ended. */
export class MarkedBatches {
  readonly #byKey = new Map<string, { readonly wanted: SamplesWanted; readonly rows: Map<number, Uint8Array> }>();

  expect(key: string, wanted: SamplesWanted): void {
    this.#byKey.set(key, { wanted, rows: new Map() });
    // A batch that was lost or refused would stay for ever.
    for (const oldest of this.#byKey.keys()) {
      if (this.#byKey.size <= MARKED_MAX) break;
      this.#byKey.delete(oldest);
    }
  }
  get size(): number {
    return this.#byKey.size;
  }

  /** An input came; it is copied if it is marked. */
  pulled(key: string, ingress: number, item: { readonly seq: number; readonly row: Uint8Array | undefined }): void {
    const marked = this.#byKey.get(key);
    if (marked === undefined || item.row === undefined) return;
    const place = marked.wanted.rows.findIndex((row) => row.ingress === ingress && row.seq === item.seq);
    if (place >= 0) marked.rows.set(place, new Uint8Array(item.row)); // Buffer.slice would share what is borrowed
  }

  /** Of a marked batch, which is not waited for any more. */
  take(key: string): MarkedBatch | undefined {
    const marked = this.#byKey.get(key);
    this.#byKey.delete(key);
    return marked;
  }
}
