/**
 * Control frames: many records in one bus message to one destination. All numbers are little-endian.
 *
 *   frame  = u16 magic · u8 version · u8 0 · u32 recordCount · f64 sender's ActorKey · records
 *   record = u16 tag · u16 0 · u32 bodyBytes · body, padded to a multiple of 8
 */
import { type MessageType, alignTo8 } from "@tutti/protocol";
import { ACTOR_KEY_MAX, type ActorKey } from "@tutti/units";
import { pack, unpack } from "./msgpack.ts";
import { RecordCursor, type RecordLayout, layoutOf } from "./record-layout.ts";

const MAGIC = 0x7475; // "ut"
const VERSION = 1;
const HEADER_BYTES = 16;
const RECORD_HEADER_BYTES = 8;

/** Writes frames for one destination. The writer is reused: in the steady state a fixed record allocates nothing. */
export class FrameWriter {
  readonly #sender: ActorKey;
  #bytes = new Uint8Array(1_024);
  #view = new DataView(this.#bytes.buffer);
  #end = HEADER_BYTES;
  #count = 0;

  constructor(sender: ActorKey) {
    this.#sender = sender;
  }

  /** Bytes of the frame so far. The caller flushes past FRAME_BYTES_MAX; nothing is split here. */
  get byteLength(): number {
    return this.#end;
  }
  get recordCount(): number {
    return this.#count;
  }

  /**
   * Appends a record.
   * @throws {AssertionError} a member is out of its field's range, which every reader would refuse; the frame stays as
   *   it was
   */
  add<T>(type: MessageType<T>, value: T): void {
    const start = this.#end;
    const body = start + RECORD_HEADER_BYTES;
    let end: number;
    if (type.fields === undefined) {
      const packed = pack(value);
      end = body + packed.byteLength;
      this.#reserve(end + 8);
      this.#bytes.set(packed, body);
    } else {
      const layout = layoutOf(type.fields);
      this.#reserve(body + layout.sizeOf(value) + 8);
      end = layout.write(this.#view, this.#bytes, body, value);
    }
    this.#view.setUint32(start, type.tag, true);
    this.#view.setUint32(start + 4, end - body, true);
    const padded = alignTo8(end);
    while (end < padded) this.#bytes[end++] = 0;
    this.#end = padded;
    this.#count++;
  }

  /** Returns the frame, a view that is valid until the next add(), and empties the writer. */
  take(): Uint8Array {
    this.#view.setUint16(0, MAGIC, true);
    this.#view.setUint16(2, VERSION, true);
    this.#view.setUint32(4, this.#count, true);
    this.#view.setFloat64(8, this.#sender, true);
    const frame = this.#bytes.subarray(0, this.#end);
    this.#end = HEADER_BYTES;
    this.#count = 0;
    return frame;
  }

  #reserve(byteLength: number): void {
    if (byteLength <= this.#bytes.byteLength) return;
    const grown = new Uint8Array(Math.max(byteLength, 2 * this.#bytes.byteLength));
    grown.set(this.#bytes.subarray(0, this.#end));
    this.#bytes = grown;
    this.#view = new DataView(grown.buffer);
  }
}

export interface FrameFault {
  readonly fault: string;
  /** The frame is of a version that a newer release writes. */
  readonly isNewer?: boolean;
}

interface Reading {
  readonly name: string;
  readonly layout: RecordLayout | undefined;
  readonly handler: (value: never, sender: ActorKey) => void;
}

/**
 * Reads frames and calls a handler for each record, in order. Records with tags without a handler are skipped: newer
 * writers send them. A record that is longer than its fields is read as far as they go, for the same reason.
 */
export class FrameReader {
  readonly #byTag: (Reading | undefined)[] = [];

  on<T>(type: MessageType<T>, handler: (value: T, sender: ActorKey) => void): this {
    while (this.#byTag.length <= type.tag) this.#byTag.push(undefined);
    const layout = type.fields === undefined ? undefined : layoutOf(type.fields);
    this.#byTag[type.tag] = { name: type.name, layout, handler };
    return this;
  }

  /**
   * Reads a frame; values are fresh objects. It never throws by itself, whatever the bytes; a handler's exception
   * passes through.
   * @returns the first fault: a record with bad values is left out, and one whose length is wrong ends the reading
   */
  read(frame: Uint8Array): FrameFault | undefined {
    if (frame.byteLength < HEADER_BYTES) return { fault: `a frame of ${frame.byteLength} bytes` };
    const cursor = new RecordCursor(frame);
    const { view } = cursor;
    if (view.getUint16(0, true) !== MAGIC) return { fault: "not a frame" };
    const version = view.getUint8(2);
    if (version !== VERSION)
      return { fault: `a frame of version ${version}, and this release reads ${VERSION}`, isNewer: version > VERSION };
    const count = view.getUint32(4, true);
    const sender = view.getFloat64(8, true);
    if (!(sender >= 1 && sender < ACTOR_KEY_MAX && Math.floor(sender) === sender))
      return { fault: `sender ${sender} is no actor` };
    let fault: FrameFault | undefined;
    let next = HEADER_BYTES;
    for (let i = 0; i < count; i++) {
      if (frame.byteLength - next < RECORD_HEADER_BYTES) return fault ?? { fault: `${count - i} records are missing` };
      const tag = view.getUint16(next, true);
      const bodyBytes = view.getUint32(next + 4, true);
      cursor.at = next + RECORD_HEADER_BYTES;
      cursor.end = cursor.at + bodyBytes;
      if (cursor.end > frame.byteLength) return fault ?? { fault: `record ${i} (tag ${tag}) ends early` };
      next = cursor.at + 8 * Math.ceil(bodyBytes / 8);
      const reading = this.#byTag[tag];
      if (reading === undefined) continue;
      const value = readValue(reading, cursor);
      if (value === undefined) fault ??= { fault: `${reading.name}: ${cursor.fault}` };
      else reading.handler(value as never, sender as ActorKey);
    }
    return fault ?? (next < frame.byteLength ? { fault: `${frame.byteLength - next} bytes are left over` } : undefined);
  }
}

/** Reads one record's value; undefined: a fault, which the cursor holds. */
function readValue({ layout }: Reading, cursor: RecordCursor): unknown {
  if (layout !== undefined) return layout.read(cursor);
  try {
    const value = unpack(cursor.bytes.subarray(cursor.at, cursor.end));
    if (typeof value === "object" && value !== null && !Array.isArray(value)) return value;
    return cursor.fail("not a map");
  } catch (error) {
    return cursor.fail(error instanceof Error ? error.message : String(error));
  }
}
