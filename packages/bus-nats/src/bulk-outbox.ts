import type { Bus } from "@tutti/ports/bus";
import type { ActorKey } from "@tutti/units";
import { type DataFrame, encodeFragments, joinFrame, writeFrame } from "@tutti/wire";

/** Frames up to this size wait for the end of the turn and travel together. */
const JOINED_BYTES_MAX = 32_768;
/** The library queues without a bound: after so many bytes a flush confirms that what was published has left. */
const CONFIRM_BYTES = 2_097_152;
const UNCONFIRMED_BYTES_MAX = 134_217_728;

interface Waiting {
  readonly subject: string;
  readonly reply: string | undefined;
  frames: DataFrame[];
  byteLength: number;
}

/**
 * Data frames on their way to the bus. Small ones to one subject in one turn of the event loop travel as one message (a
 * message alone costs 9 µs of CPU, within another 1), larger ones at once, and those that no message can hold in
 * fragments.
 */
export class BulkOutbox {
  readonly #bus: Bus;
  readonly #sender: ActorKey;
  readonly #later: (run: () => void) => void;
  readonly #waiting = new Map<string, Waiting>();
  #scratch = new Uint8Array(0);
  #scheduled = false;
  #fragmented = 0;
  #sinceConfirmed = 0;
  #unconfirmed = 0;

  /** @param later - runs at the end of this turn */
  constructor(bus: Bus, sender: ActorKey, later: (run: () => void) => void = queueMicrotask) {
    this.#bus = bus;
    this.#sender = sender;
    this.#later = later;
  }

  /** Runs of items are cut so that with their heads they fit in one message. */
  get runBytes(): number {
    return Math.max(this.#bus.payloadMax >> 1, this.#bus.payloadMax - 131_072);
  }

  /**
   * Queues or publishes a frame. @returns false if the frame is lost: the receiver isn't near, and the bus is down or
   * too much waits already
   */
  send(subject: string, reply: string | undefined, frame: DataFrame): boolean {
    const takesMore = this.#bus.connected && this.#unconfirmed <= UNCONFIRMED_BYTES_MAX;
    if (!takesMore && !this.#isNear(subject)) return false;
    if (frame.byteLength > JOINED_BYTES_MAX) {
      this.#flushOne(subject);
      return this.#sendNow(subject, reply, frame);
    }
    let waiting = this.#waiting.get(subject);
    if (waiting !== undefined && waiting.byteLength + frame.byteLength > JOINED_BYTES_MAX) {
      this.#flushOne(subject);
      waiting = undefined;
    }
    if (waiting === undefined) this.#waiting.set(subject, (waiting = { subject, reply, frames: [], byteLength: 0 }));
    // A small frame is copied now: its rows are borrowed.
    waiting.frames.push(frame.body.length === 0 ? frame : owned(frame));
    waiting.byteLength += frame.byteLength;
    if (!this.#scheduled) {
      this.#scheduled = true;
      this.#later(this.#flushAtEndOfTurn);
    }
    return true;
  }

  readonly #flushAtEndOfTurn = (): void => {
    this.#scheduled = false;
    this.flush();
  };

  flush(): void {
    for (const subject of [...this.#waiting.keys()]) this.#flushOne(subject);
  }

  #flushOne(subject: string): void {
    const waiting = this.#waiting.get(subject);
    if (waiting === undefined) return;
    this.#waiting.delete(subject);
    const { frames, byteLength, reply } = waiting;
    if (frames.length === 1) this.#publish(subject, reply, this.#joined(frames[0]!));
    else {
      const scratch = this.#scratchOf(byteLength);
      let at = 0;
      for (const frame of frames) at = writeFrame(frame, scratch, at);
      this.#publish(subject, reply, scratch);
    }
  }

  #sendNow(subject: string, reply: string | undefined, frame: DataFrame): boolean {
    if (frame.byteLength <= this.#bus.payloadMax) return this.#publish(subject, reply, this.#joined(frame));
    this.#fragmented = (this.#fragmented + 1) >>> 0;
    const fragments = encodeFragments(frame, this.#sender, this.#fragmented, this.#bus.payloadMax);
    return fragments.every((fragment) => this.#publish(subject, reply, fragment));
  }

  /**
   * One buffer serves all frames, as the bus takes its own copy. Allocating 150 KB each time costs more than the copy.
   */
  #joined(frame: DataFrame): Uint8Array {
    if (frame.body.length === 0) return frame.head;
    const scratch = this.#scratchOf(frame.byteLength);
    writeFrame(frame, scratch, 0);
    return scratch;
  }

  #scratchOf(byteLength: number): Uint8Array {
    if (this.#scratch.byteLength < byteLength) this.#scratch = new Uint8Array(2 * byteLength);
    return this.#scratch.subarray(0, byteLength);
  }

  #isNear(subject: string): boolean {
    return this.#bus.isNear?.(subject) === true;
  }

  #publish(subject: string, reply: string | undefined, payload: Uint8Array): boolean {
    const isNear = this.#isNear(subject);
    const sent = this.#bus.publish(subject, payload, reply === undefined ? undefined : { reply });
    if (!sent || isNear) return sent; // a link has its own bound, and the server can't confirm it
    this.#unconfirmed += payload.byteLength;
    this.#sinceConfirmed += payload.byteLength;
    if (this.#sinceConfirmed >= CONFIRM_BYTES) {
      const confirmed = this.#sinceConfirmed;
      this.#sinceConfirmed = 0;
      this.#bus.flush(() => (this.#unconfirmed -= confirmed)); // also after a broken connection: nothing waits then
    }
    return true;
  }
}

function owned(frame: DataFrame): DataFrame {
  const head = joinFrame(frame);
  return { head, body: [], byteLength: frame.byteLength };
}
