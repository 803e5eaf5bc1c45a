/** Reads and writes the heads of data-plane frames: small steps that keep the bounds in one place. */
import { BATCH_SIZE_MAX, TOKEN_BYTES, alignTo8 } from "@tutti/protocol";
import { ACTOR_KEY_MAX, GPUS_MAX } from "@tutti/units";

const PREFIX_BYTES = 16;
const ABSENT = 0xffff_ffff;
const encoder = new TextEncoder();
const decoder = new TextDecoder();
const NO_TOKEN = new Uint8Array(TOKEN_BYTES);

export class HeadWriter {
  readonly view: DataView;
  readonly #bytes: Uint8Array;
  #at = PREFIX_BYTES;

  /** @param bytesMax - upper bound of the head's length, the prefix included */
  constructor(bytesMax: number) {
    this.#bytes = new Uint8Array(alignTo8(bytesMax));
    this.view = new DataView(this.#bytes.buffer);
  }

  u32(value: number): this {
    this.view.setUint32(this.#at, value, true);
    this.#at += 4;
    return this;
  }
  f64(value: number): this {
    this.view.setFloat64(this.#at, value, true);
    this.#at += 8;
    return this;
  }
  bytes(value: Uint8Array): this {
    this.#bytes.set(value, this.#at);
    this.#at += value.byteLength;
    return this;
  }
  text(value: string): this {
    if (value !== "") this.#at += encoder.encodeInto(value, this.#bytes.subarray(this.#at)).written;
    return this;
  }
  /** The head, padded to a multiple of 8. */
  end(): Uint8Array {
    return this.#bytes.subarray(0, alignTo8(this.#at));
  }
}

/**
 * A reader of a frame. The first fault stays; after it everything reads as zero, so decoders need no check after every
 * step.
 */
export class FrameCursor {
  fault = "";
  at: number;
  readonly #frame: Uint8Array;
  readonly #view: DataView;
  readonly #headEnd: number;
  #bodyAt: number;

  constructor(frame: Uint8Array, start: number, headEnd: number) {
    this.#frame = frame;
    this.#view = new DataView(frame.buffer, frame.byteOffset, frame.byteLength);
    this.#headEnd = headEnd;
    this.#bodyAt = headEnd;
    this.at = start;
  }

  /** Bytes of the head that are still to come. */
  get left(): number {
    return this.#headEnd - this.at;
  }

  fail(fault: string): void {
    if (this.fault === "") this.fault = fault;
  }

  u32(): number {
    if (this.left < 4) return this.#endsEarly();
    const value = this.#view.getUint32(this.at, true);
    this.at += 4;
    return value;
  }
  gpu(): number {
    const gpu = this.u32();
    if (gpu >= GPUS_MAX) this.fail(`accelerator ${gpu}`);
    return gpu;
  }
  #f64(): number {
    if (this.left < 8) return this.#endsEarly();
    const value = this.#view.getFloat64(this.at, true);
    this.at += 8;
    return value;
  }
  count(): number {
    const value = this.#f64();
    if (!(value >= 0 && value <= Number.MAX_SAFE_INTEGER && Math.floor(value) === value))
      this.fail(`${value} is no count`);
    return value;
  }
  seq(): number {
    const value = this.count();
    if (value === 0) this.fail("0 is no request");
    return value;
  }
  actor(): number {
    const value = this.count();
    if (value < 1 || value >= ACTOR_KEY_MAX) this.fail(`${value} is no actor`);
    return value;
  }
  token(): Uint8Array {
    const start = this.at;
    if (this.left < TOKEN_BYTES) {
      this.#endsEarly();
      return NO_TOKEN;
    }
    this.at += TOKEN_BYTES;
    const token = new Uint8Array(TOKEN_BYTES);
    token.set(this.#frame.subarray(start, this.at));
    return token;
  }
  /** A count and its padding word, of items with `itemBytes` each in the head. */
  itemCount(itemBytes: number): number {
    const count = this.u32();
    this.u32();
    if (count <= BATCH_SIZE_MAX && count * itemBytes <= this.left) return count;
    this.fail(`${count} items`);
    return 0;
  }
  textAt(start: number, byteLength: number): string {
    if (byteLength === 0) return "";
    if (start + byteLength <= this.#headEnd) return decoder.decode(this.#frame.subarray(start, start + byteLength));
    this.fail("a text ends early");
    return "";
  }
  /** The next segment of the body; undefined for ABSENT. */
  segment(byteLength: number): Uint8Array | undefined {
    if (byteLength === ABSENT) return undefined;
    const start = this.#bodyAt;
    if (byteLength > this.#frame.byteLength - start) {
      this.fail("the body ends early");
      return undefined;
    }
    this.#bodyAt = start + alignTo8(byteLength);
    return this.#frame.subarray(start, start + byteLength);
  }
  /** All of the body. */
  rest(): Uint8Array {
    return this.#frame.subarray(this.#headEnd);
  }
  #endsEarly(): number {
    this.fail("the header ends early");
    return 0;
  }
}
