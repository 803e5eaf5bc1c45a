/** Counts the bytes that one call holds, from the pieces of its messages as they come. */
import { INFLATION } from "../http/body-reader.ts";

/** A flag and four bytes of length stand before each message. */
const PREFIX_BYTES = 5;
/**
 * A piece is a view of a socket's read buffer, all of which it keeps alive. The whole buffer counts for small pieces;
 * large ones fill most of it.
 */
const SMALL_PIECE_BYTES = 4_096;
/** Memory that a piece takes beside its bytes. */
const PIECE_BYTES = 256;

export interface MeterPorts {
  readonly messageBytesMax: number;
  /** @returns whether there is room; only then are the bytes counted */
  readonly hold: (bytes: number) => boolean;
  readonly release: (bytes: number) => void;
}

export class MessageMeter {
  readonly #ports: MeterPorts;
  #prefixBytes = 0;
  #isCompressed = false;
  #length = 0;
  /** The message being received: bytes still to come, and bytes counted for it. */
  #left = 0;
  #coming = 0;
  #lastBuffer: ArrayBufferLike | undefined;
  /** Bytes counted for each whole message without an answer. */
  readonly #whole: number[] = [];

  constructor(ports: MeterPorts) {
    this.#ports = ports;
  }

  /** Whether a message is partly received. */
  get isWithin(): boolean {
    return this.#left > 0 || this.#prefixBytes > 0;
  }
  get hasWhole(): boolean {
    return this.#whole.length > 0;
  }

  /** @returns whether there is room for the piece */
  take(piece: Uint8Array): boolean {
    for (let at = 0; at < piece.byteLength;) {
      if (this.#left > 0) {
        const taken = Math.min(this.#left, piece.byteLength - at);
        this.#left -= taken;
        at += taken;
      } else {
        const byte = piece[at++]!;
        if (this.#prefixBytes === 0) [this.#isCompressed, this.#length] = [byte !== 0, 0];
        else this.#length = this.#length * 256 + byte;
        if (++this.#prefixBytes < PREFIX_BYTES) continue;
        this.#prefixBytes = 0;
        this.#left = this.#length;
      }
      if (this.#left === 0 && !this.#finish()) return false;
    }
    if (!this.isWithin) return true;
    const keepsMore = piece.byteLength < SMALL_PIECE_BYTES && piece.buffer !== this.#lastBuffer;
    this.#lastBuffer = piece.buffer;
    const bytes = PIECE_BYTES + (keepsMore ? piece.buffer.byteLength : piece.byteLength);
    if (!this.#ports.hold(bytes)) return false;
    this.#coming += bytes;
    return true;
  }

  /** Counts an answer with its request. @returns whether there is room for it */
  addAnswer(bytes: number): boolean {
    if (!this.hasWhole || !this.#ports.hold(bytes)) return !this.hasWhole;
    this.#whole[0]! += bytes;
    return true;
  }

  /** Releases one message: its client has read the answer. */
  answered(): void {
    this.#ports.release(this.#whole.shift() ?? 0);
  }

  /** Releases everything: the call has ended. */
  end(): void {
    while (this.hasWhole) this.answered();
    this.#ports.release(this.#coming);
    this.#coming = 0;
  }

  /**
   * Counts a whole message, whose pieces become one buffer; a compressed one counts as the largest that it can become.
   */
  #finish(): boolean {
    const { messageBytesMax, hold, release } = this.#ports;
    release(this.#coming);
    this.#coming = 0;
    this.#lastBuffer = undefined;
    const bytes = this.#isCompressed ? Math.min(messageBytesMax, INFLATION * this.#length) : this.#length;
    if (!hold(bytes)) return false;
    this.#whole.push(bytes);
    return true;
  }
}
