import type { Socket } from "node:net";
import type { DataFrame } from "@tutti/wire";

/** Segments up to this size are packed together: for them a copy costs less than a vector of its own. */
const PACKED_BYTES_MAX = 8_192;
const PACK_BYTES = 65_536;

/**
 * The writing side of a connection. Frames of one turn of the event loop leave in one write, so that small ones share a
 * segment and a system call; large rows are written from where they lie.
 *
 *   SOCKET-1. At most `pendingBytesMax` bytes wait for a peer that doesn't read; beyond, `send` refuses.
 */
export class FrameSocket {
  readonly socket: Socket;
  readonly #pendingBytesMax: number;
  #queue: Uint8Array[] = [];
  #queuedBytes = 0;
  #pack = NOTHING;
  #packed = 0;
  #scheduled = false;

  constructor(socket: Socket, pendingBytesMax: number) {
    this.socket = socket;
    this.#pendingBytesMax = pendingBytesMax;
    socket.setNoDelay(true);
  }

  get pendingBytes(): number {
    return this.socket.writableLength + this.#queuedBytes;
  }

  /**
   * @param segments - `kept`: large ones stay as they are until they are written; `borrowed`: they are copied now
   * @returns false if the connection is gone or too much waits already; nothing of the frame is then sent
   */
  send(frame: DataFrame, segments: "kept" | "borrowed"): boolean {
    if (!this.socket.writable || this.pendingBytes > this.#pendingBytesMax) return false;
    this.#packIn(frame.head);
    for (const segment of frame.body) {
      if (segment.byteLength <= PACKED_BYTES_MAX) this.#packIn(segment);
      else this.#add(segments === "kept" ? segment : Buffer.from(segment));
    }
    this.#queuedBytes += frame.byteLength;
    if (!this.#scheduled) {
      this.#scheduled = true;
      process.nextTick(this.#flushAtEndOfTurn);
    }
    return true;
  }

  readonly #flushAtEndOfTurn = (): void => {
    this.#scheduled = false;
    this.flush();
  };

  flush(): void {
    this.#closePack();
    const queue = this.#queue;
    if (queue.length === 0) return;
    this.#queue = [];
    this.#queuedBytes = 0;
    if (!this.socket.writable) return;
    if (queue.length === 1) this.socket.write(queue[0]!);
    else {
      this.socket.cork();
      for (const segment of queue) this.socket.write(segment);
      this.socket.uncork();
    }
  }

  #packIn(bytes: Uint8Array): void {
    if (bytes.byteLength > this.#pack.byteLength - this.#packed) {
      this.#closePack();
      if (bytes.byteLength > PACKED_BYTES_MAX) return this.#add(bytes); // a long head, which is ours
      if (this.#pack.byteLength < bytes.byteLength) this.#pack = Buffer.allocUnsafeSlow(PACK_BYTES);
    }
    this.#pack.set(bytes, this.#packed);
    this.#packed += bytes.byteLength;
  }

  /** Queues the packed bytes and goes on in the rest of the pack: queued bytes are never overwritten. */
  #closePack(): void {
    if (this.#packed === 0) return;
    this.#queue.push(this.#pack.subarray(0, this.#packed));
    this.#pack = this.#pack.subarray(this.#packed);
    this.#packed = 0;
  }

  #add(segment: Uint8Array): void {
    this.#closePack();
    this.#queue.push(segment);
  }
}

const NOTHING = new Uint8Array(0);
