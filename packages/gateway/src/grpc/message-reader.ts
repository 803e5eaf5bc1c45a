/**
 * Reads one message of protocol buffers, field by field, without making objects of it.
 *
 *   READ-1. Every field counts against a budget, which messages within it share.
 *   READ-2. Nothing is read beyond the message's end, and a varint has ten bytes at most.
 */
import { TuttiError } from "@tutti/protocol";

export const VARINT = 0;
export const FIXED64 = 1;
export const DELIMITED = 2;
export const FIXED32 = 5;

/** Number of fields that may still be read. */
export interface FieldBudget {
  left: number;
  /** Thrown beyond it. */
  readonly spent: () => TuttiError;
}

export class MessageReader {
  /** Number and type of the field whose tag was read last. Before the first, packed integers can be read. */
  field = 0;
  type = VARINT;
  /** Bits of the varint that was read last. */
  low = 0;
  high = 0;
  readonly bytes: Buffer;
  readonly end: number;
  readonly #budget: FieldBudget;
  #at: number;

  constructor(bytes: Buffer, budget: FieldBudget, at = 0, end = bytes.byteLength) {
    this.bytes = bytes;
    this.#budget = budget;
    this.#at = at;
    this.end = end;
  }

  get at(): number {
    return this.#at;
  }

  /** Reads the tag of the next field. @returns false at the end. @throws {TuttiError} INVALID_INPUT, `spent` */
  next(): boolean {
    if (this.#at === this.end) return false;
    if (--this.#budget.left < 0) throw this.#budget.spent();
    const tag = this.#count();
    this.field = tag >>> 3;
    this.type = tag & 7;
    if (this.field === 0) throw unreadable();
    return true;
  }

  /** Reads the field's varint to `low` and `high`. @throws {TuttiError} INVALID_INPUT */
  varint(): void {
    this.#expect(VARINT);
    this.#varint();
  }
  int64(): number {
    this.varint();
    return this.high * 2 ** 32 + (this.low >>> 0);
  }
  uint64(): number {
    this.varint();
    return (this.high >>> 0) * 2 ** 32 + (this.low >>> 0);
  }
  flag(): boolean {
    this.varint();
    return (this.low | this.high) !== 0;
  }
  double(): number {
    this.#expect(FIXED64);
    return this.bytes.readDoubleLE(this.#take(8));
  }
  text(): string {
    const at = this.#delimited();
    return this.bytes.toString("utf8", at, this.#at);
  }
  /** The field's bytes, as a view. */
  part(): Buffer {
    const at = this.#delimited();
    return this.bytes.subarray(at, this.#at);
  }
  /** The message that the field holds. */
  message(): MessageReader {
    const at = this.#delimited();
    return new MessageReader(this.bytes, this.#budget, at, this.#at);
  }

  /** Passes over a field of any type but a group, which is obsolete since proto2. @returns its place */
  skip(): number {
    switch (this.type) {
      case VARINT: {
        const at = this.#at;
        this.#varint();
        return at;
      }
      case FIXED64:
        return this.#take(8);
      case FIXED32:
        return this.#take(4);
      default:
        return this.#delimited();
    }
  }

  #delimited(): number {
    this.#expect(DELIMITED);
    return this.#take(this.#count());
  }

  /** @returns where the bytes begin */
  #take(count: number): number {
    const at = this.#at;
    if (count > this.end - at) throw unreadable();
    this.#at = at + count;
    return at;
  }

  #expect(type: number): void {
    if (this.type !== type) throw unreadable();
  }

  /** Reads a varint of 32 bits. */
  #count(): number {
    this.#varint();
    if (this.high !== 0) throw unreadable();
    return this.low >>> 0;
  }

  #varint(): void {
    const { bytes, end } = this;
    let at = this.#at;
    let low = 0;
    let high = 0;
    for (let shift = 0; ; shift += 7) {
      if (at === end || shift === 70) throw unreadable();
      const byte = bytes[at++]!;
      const bits = byte & 0x7f;
      if (shift < 28) low |= bits << shift;
      else if (shift > 28) high |= bits << (shift - 32);
      else {
        low |= bits << 28;
        high = bits >>> 4;
      }
      if (byte < 0x80) break;
    }
    this.#at = at;
    this.low = low;
    this.high = high;
  }
}

export const unreadable = (): TuttiError =>
  new TuttiError("TUTTI_INVALID_INPUT", "the message is no request of this service");
