import { frameBytesAt } from "@tutti/wire";

const CHUNK_BYTES = 65_536;
export interface FrameAssemblerOptions {
  /**
   * Memory that a frame gets at once for the size that it claims; beyond, memory grows with its bytes. Default 1 MB.
   */
  readonly claimBytesMax?: number;
  /** A buffer larger than this is let go when it is empty. Default 1 MB. */
  readonly keptBytesMax?: number;
}

/**
 * Cuts a stream into frames. Where the socket supports it, it reads straight into the buffer in which the frame is
 * assembled (`space`, `filled`); a frame is then handed over as a view of this buffer, without a copy, at a multiple of
 * 8 bytes.
 *
 *   ASSEMBLER-1. Memory follows the bytes that came, not those that a frame claims (past claimBytesMax).
 */
export class FrameAssembler {
  readonly #claimBytesMax: number;
  readonly #keptBytesMax: number;
  #buffer = allocate(CHUNK_BYTES);
  #start = 0;
  #end = 0;

  constructor(options: FrameAssemblerOptions = {}) {
    this.#claimBytesMax = options.claimBytesMax ?? 1_048_576;
    this.#keptBytesMax = options.keptBytesMax ?? 1_048_576;
  }

  /** Bytes of memory held. */
  get capacity(): number {
    return this.#buffer.byteLength;
  }

  /** Buffer for the next bytes. */
  space(): Uint8Array {
    if (this.#start === this.#end) {
      this.#start = this.#end = 0;
      if (this.#buffer.byteLength > this.#keptBytesMax) this.#buffer = allocate(CHUNK_BYTES);
    }
    const have = this.#end - this.#start;
    const frame = Math.max(0, frameBytesAt(this.#buffer, this.#start, have));
    const wanted = Math.min(Math.max(frame, have + 1), Math.max(this.#claimBytesMax, 2 * have));
    this.#reserve(Math.max(wanted, Math.min(have + CHUNK_BYTES / 4, this.#buffer.byteLength)));
    return this.#buffer.subarray(this.#end);
  }

  /**
   * `count` bytes were read into `space()`. `onFrame` is called for each whole frame, borrowed until it returns; false
   * from it stops.
   * @returns false if the stream is no stream of frames
   */
  filled(count: number, onFrame: (frame: Uint8Array) => boolean): boolean {
    this.#end += count;
    for (;;) {
      const have = this.#end - this.#start;
      const frame = frameBytesAt(this.#buffer, this.#start, have);
      if (frame < 0) return false;
      if (frame === 0 || frame > have) return true;
      const start = this.#start;
      this.#start += frame;
      if (!onFrame(this.#buffer.subarray(start, start + frame))) return false;
    }
  }

  /** As `filled`, for bytes that lie elsewhere: whole frames are handed over from there, only the rest is copied. */
  take(chunk: Uint8Array, onFrame: (frame: Uint8Array) => boolean): boolean {
    let at = 0;
    while (this.#start === this.#end && at < chunk.byteLength) {
      const frame = frameBytesAt(chunk, at, chunk.byteLength - at);
      if (frame < 0) return false;
      if (frame === 0 || frame > chunk.byteLength - at) break;
      at += frame;
      if (!onFrame(chunk.subarray(at - frame, at))) return false;
    }
    while (at < chunk.byteLength) {
      const piece = chunk.subarray(at, at + this.space().byteLength);
      this.#buffer.set(piece, this.#end);
      at += piece.byteLength;
      if (!this.filled(piece.byteLength, onFrame)) return false;
    }
    return true;
  }

  /**
   * Makes room for `byteLength` bytes from #start on. Frames are multiples of 8 bytes, so bytes moved to 0 stay
   * aligned.
   */
  #reserve(byteLength: number): void {
    if (this.#buffer.byteLength - this.#start >= byteLength) return;
    const held = this.#buffer.subarray(this.#start, this.#end);
    if (this.#buffer.byteLength >= byteLength) this.#buffer.set(held, 0);
    else {
      const grown = allocate(Math.ceil((byteLength + CHUNK_BYTES) / CHUNK_BYTES) * CHUNK_BYTES);
      grown.set(held);
      this.#buffer = grown;
    }
    this.#end -= this.#start;
    this.#start = 0;
  }
}

/** Not cleared: only received bytes are ever handed over. Unpooled, so that it starts aligned. */
const allocate = (byteLength: number): Uint8Array => Buffer.allocUnsafeSlow(byteLength);
