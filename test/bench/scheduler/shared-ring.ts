/**
 * A ring of fixed-size records in shared memory, one writer and one reader, each in its own thread.
 *
 *   RING-1. A record is visible once the writer has published; the writer publishes once a turn.
 *   RING-2. A full ring is a broken invariant: the distance that two threads may drift apart bounds the records in
 *           flight.
 */
import { assert } from "@tutti/units";

/** Numbers in a record; the first is the turn in which it was sent. */
export const RECORD = 8;

export interface SharedRingMemory {
  readonly records: SharedArrayBuffer;
  readonly counters: SharedArrayBuffer;
}

export function createRing(recordsMin: number): SharedRingMemory {
  const capacity = 2 ** Math.ceil(Math.log2(Math.max(16, recordsMin)));
  const records = new SharedArrayBuffer(capacity * RECORD * 8);
  return { records, counters: new SharedArrayBuffer(8) };
}

export class RingWriter {
  readonly #records: Float64Array;
  readonly #counters: Int32Array;
  readonly #mask: number;
  #written = 0;

  constructor({ records, counters }: SharedRingMemory) {
    this.#records = new Float64Array(records);
    this.#counters = new Int32Array(counters);
    this.#mask = this.#records.length / RECORD - 1;
  }

  write(turn: number, a: number, b: number, c: number, d: number, e: number, f: number, g: number): void {
    const inFlight = (this.#written - Atomics.load(this.#counters, 1)) | 0;
    assert(inFlight <= this.#mask, "SR2: a ring overflows");
    const records = this.#records;
    const at = (this.#written & this.#mask) * RECORD;
    records[at] = turn;
    records[at + 1] = a;
    records[at + 2] = b;
    records[at + 3] = c;
    records[at + 4] = d;
    records[at + 5] = e;
    records[at + 6] = f;
    records[at + 7] = g;
    this.#written = (this.#written + 1) | 0;
  }
  publish(): void {
    Atomics.store(this.#counters, 0, this.#written);
  }
}

export class RingReader {
  /** The ring's memory; a record starts at the offset that `next` gives. */
  readonly records: Float64Array;
  readonly #counters: Int32Array;
  readonly #mask: number;
  #read = 0;

  constructor({ records, counters }: SharedRingMemory) {
    this.records = new Float64Array(records);
    this.#counters = new Int32Array(counters);
    this.#mask = this.records.length / RECORD - 1;
  }

  /** Offset of the next record sent in `lastTurn` or before; −1 if there is none. Valid until the next call. */
  next(lastTurn: number): number {
    if (this.#read === Atomics.load(this.#counters, 0)) return -1;
    const at = (this.#read & this.#mask) * RECORD;
    if (this.records[at]! > lastTurn) return -1;
    this.#read = (this.#read + 1) | 0;
    return at;
  }
  /** Returns the records read so far to the writer. */
  release(): void {
    Atomics.store(this.#counters, 1, this.#read);
  }
}
