import { frameBytesAt } from "@tutti/wire";
import type { ReceiveBudget } from "./receive-budget.ts";

const CHUNK_BYTES = 65_536;
/** Longest first frame of a peer. A hello has 48 bytes, a welcome 40. */
export const FIRST_FRAME_BYTES_MAX = 64;

/**
 * Cuts a stream into frames. Where the socket supports it, it reads straight into the buffer in which the frame is
 * assembled (`space`, `filled`); a frame is then handed over as a view of this buffer, without a copy, at a multiple of
 * 8 bytes.
 *
 *   ASSEMBLER-1. A peer that was not admitted holds FIRST_FRAME_BYTES_MAX bytes at most, whatever it sends.
 *   ASSEMBLER-2. A frame that is longer than a chunk gets memory once, for its whole length, and only from the budget.
 */
export class FrameAssembler {
  /** Undefined until the peer is admitted. */
  #budget: ReceiveBudget | undefined;
  #keptBytesMax = 0;
  /** Not cleared, since only received bytes are handed over; not of a pool, so that it starts aligned. */
  #buffer: Uint8Array = Buffer.allocUnsafeSlow(FIRST_FRAME_BYTES_MAX);
  /** Part of the buffer that was taken from the budget: all but a chunk. */
  #takenBytes = 0;
  #start = 0;
  #end = 0;
  #frames = 0;
  #fault = "";

  /** Bytes of memory held. */
  get capacity(): number {
    return this.#buffer.byteLength;
  }

  /** Number of the frame that has come in part; 0: none has. */
  get partial(): number {
    return this.#start === this.#end ? 0 : this.#frames + 1;
  }

  /** Bytes of that frame that have come. */
  get partialBytes(): number {
    return this.#end - this.#start;
  }

  /** Why the stream can't go on; "" while it can. */
  get fault(): string {
    return this.#fault;
  }

  /**
   * From now on frames may have any length that the budget holds.
   *
   * @param keptBytesMax - a buffer up to this size is kept for the next frame
   */
  admit(budget: ReceiveBudget, keptBytesMax: number): void {
    this.#budget = budget;
    this.#keptBytesMax = keptBytesMax;
  }

  /** Gives the memory back; nothing can be received afterwards. */
  close(): void {
    this.#budget?.give(this.#takenBytes);
    this.#takenBytes = this.#start = this.#end = 0;
    this.#buffer = NOTHING;
  }

  /** Buffer for the next bytes. */
  space(): Uint8Array {
    return this.#buffer.subarray(this.#end);
  }

  /**
   * `count` bytes were read into `space()`. `onFrame` is called for each whole frame, borrowed until it returns; false
   * from it stops.
   * @returns false if it was stopped, or the stream can't go on
   */
  filled(count: number, onFrame: (frame: Uint8Array) => boolean): boolean {
    this.#end += count;
    for (;;) {
      const have = this.#end - this.#start;
      const frame = frameBytesAt(this.#buffer, this.#start, have);
      if (!this.#isReceivable(frame)) return false;
      if (frame === 0 || frame > have) return this.#makeRoom(frame);
      const start = this.#start;
      this.#start += frame;
      this.#frames++;
      if (!onFrame(this.#buffer.subarray(start, start + frame))) return this.#stop();
    }
  }

  /** As `filled`, for bytes that lie elsewhere: whole frames are handed over from there, only the rest is copied. */
  take(chunk: Uint8Array, onFrame: (frame: Uint8Array) => boolean): boolean {
    let at = 0;
    while (this.#start === this.#end && at < chunk.byteLength) {
      const frame = frameBytesAt(chunk, at, chunk.byteLength - at);
      if (!this.#isReceivable(frame)) return false;
      if (frame === 0 || frame > chunk.byteLength - at) {
        if (!this.#makeRoom(frame)) return false;
        break;
      }
      at += frame;
      this.#frames++;
      if (!onFrame(chunk.subarray(at - frame, at))) return false;
    }
    while (at < chunk.byteLength) {
      const piece = chunk.subarray(at, at + this.#buffer.byteLength - this.#end);
      this.#buffer.set(piece, this.#end);
      at += piece.byteLength;
      if (!this.filled(piece.byteLength, onFrame)) return false;
    }
    return true;
  }

  /** @param frame - its length; 0: not known yet; negative: it is none */
  #isReceivable(frame: number): boolean {
    if (frame < 0) return this.#stop("no frames");
    if (this.#budget !== undefined || frame <= FIRST_FRAME_BYTES_MAX) return true;
    return this.#stop(`it announces ${frame} bytes before it is admitted, ${FIRST_FRAME_BYTES_MAX} are the most`);
  }

  /**
   * Makes room for the rest of a frame that begins at #start. Frames are multiples of 8 bytes, so bytes moved to 0 stay
   * aligned.
   */
  #makeRoom(frame: number): boolean {
    const budget = this.#budget;
    if (budget === undefined) return true; // Any first frame fits, and nothing precedes it.
    const have = this.#end - this.#start;
    if (have === 0) this.#start = this.#end = 0;
    const isKept = this.#buffer.byteLength <= this.#keptBytesMax && budget.isAmple;
    if (have === 0 && this.#takenBytes > 0 && !isKept) this.#reallocate(budget, 0);
    const size = Math.max(this.#buffer.byteLength, CHUNK_BYTES);
    const wanted = Math.max(frame, Math.min(have + CHUNK_BYTES / 4, size));
    if (this.#buffer.byteLength - this.#start >= wanted) return true;
    if (this.#buffer.byteLength < wanted) {
      // A chunk more, in which the next frame begins.
      const taken = frame <= CHUNK_BYTES ? 0 : Math.ceil(frame / CHUNK_BYTES) * CHUNK_BYTES;
      if (!this.#reallocate(budget, taken)) return this.#stop(`no memory is left for a frame of ${frame} bytes`);
    } else this.#buffer.copyWithin(0, this.#start, this.#end);
    this.#start = 0;
    this.#end = have;
    return true;
  }

  /**
   * Moves what was received to the start of a buffer of a chunk and `taken` bytes. @returns false: the budget is spent
   */
  #reallocate(budget: ReceiveBudget, taken: number): boolean {
    if (!budget.take(taken - this.#takenBytes)) return false;
    const buffer = Buffer.allocUnsafeSlow(CHUNK_BYTES + taken);
    buffer.set(this.#buffer.subarray(this.#start, this.#end));
    this.#buffer = buffer;
    this.#takenBytes = taken;
    return true;
  }

  #stop(fault = ""): false {
    this.#fault = fault;
    this.#start = this.#end = 0;
    return false;
  }
}

const NOTHING = new Uint8Array(0);
