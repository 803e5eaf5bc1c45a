import type { Delivery } from "@tutti/ports/bus";
import { type DecodedFrame, type FragmentFrame, decodeFrame, frameBytesAt, isFrameFault } from "@tutti/wire";

/** Frames in fragments that one side may assemble at once; a new one displaces the oldest. */
const ASSEMBLIES_MAX = 64;
const ASSEMBLED_BYTES_MAX = 268_435_456;
/** Overhead counted per piece, so that a frame in the smallest pieces costs no more memory than another. */
const PIECE_BYTES = 256;

interface Assembly {
  readonly total: number;
  readonly pieces: Uint8Array[];
  byteLength: number;
}

/**
 * Cuts messages into frames, and reassembles those that come in fragments. Malformed ones are reported and dropped;
 * nothing throws.
 */
export class FrameIntake {
  readonly #onFault: (text: string) => void;
  readonly #onFrame: (frame: DecodedFrame, delivery: Delivery) => void;
  readonly #assemblies = new Map<string, Assembly>();
  #assembledBytes = 0;

  constructor(onFault: (text: string) => void, onFrame: (frame: DecodedFrame, delivery: Delivery) => void) {
    this.#onFault = onFault;
    this.#onFrame = onFrame;
  }

  /** Frames are views of the delivery's payload, borrowed until the call returns. */
  take(delivery: Delivery): void {
    const { payload } = delivery;
    let at = 0;
    do {
      const byteLength = frameBytesAt(payload, at, payload.byteLength - at);
      if (byteLength <= 0 || at + byteLength > payload.byteLength) return this.#onFault("a message that is no frames");
      this.#decode(payload.subarray(at, at + byteLength), delivery, "whole");
      at += byteLength;
    } while (at < payload.byteLength);
  }

  #decode(bytes: Uint8Array, delivery: Delivery, origin: "whole" | "fragments"): void {
    const frame = decodeFrame(bytes);
    if (isFrameFault(frame)) this.#onFault(frame.fault);
    else if (frame.kind !== "fragment") this.#onFrame(frame, delivery);
    else if (origin === "fragments") this.#onFault("a fragment within fragments");
    else this.#onFragment(frame, delivery);
  }

  #onFragment(fragment: FragmentFrame, delivery: Delivery): void {
    const key = `${fragment.sender}:${fragment.correlation}`;
    const known = this.#assemblies.get(key);
    // A fragment that doesn't continue where the last one ended means that a fragment in between was lost.
    const fits = known !== undefined && fragment.offset === known.byteLength && fragment.total === known.total;
    if (known !== undefined && !fits) this.#drop(key, known);
    if (!fits && fragment.offset !== 0) return this.#onFault("a fragment whose predecessor is missing");
    const assembly = fits ? known : this.#begin(key, fragment.total);
    assembly.pieces.push(new Uint8Array(fragment.piece));
    assembly.byteLength += fragment.piece.byteLength;
    this.#assembledBytes += fragment.piece.byteLength + PIECE_BYTES;
    if (assembly.byteLength < assembly.total) return this.#makeRoom();
    this.#drop(key, assembly);
    const whole = new Uint8Array(assembly.total);
    let at = 0;
    for (const piece of assembly.pieces) {
      whole.set(piece, at);
      at += piece.byteLength;
    }
    this.#decode(whole, delivery, "fragments");
  }

  #begin(key: string, total: number): Assembly {
    const assembly: Assembly = { total, pieces: [], byteLength: 0 };
    this.#assemblies.set(key, assembly);
    return assembly;
  }

  #makeRoom(): void {
    while (this.#assemblies.size > ASSEMBLIES_MAX || this.#assembledBytes > ASSEMBLED_BYTES_MAX) {
      const oldest = this.#assemblies.entries().next().value;
      if (oldest === undefined) return;
      this.#drop(oldest[0], oldest[1]);
      this.#onFault("a frame whose fragments don't all come is given up");
    }
  }

  #drop(key: string, assembly: Assembly): void {
    this.#assemblies.delete(key);
    this.#assembledBytes -= assembly.byteLength + assembly.pieces.length * PIECE_BYTES;
  }
}
