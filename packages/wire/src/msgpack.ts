import { TuttiError } from "@tutti/protocol";
import { Packr } from "msgpackr";
import { JSON_KEYS_MAX, JSON_LISTS_MAX, checkJsonBounds } from "./json-bounds.ts";

/**
 * Plain maps and no records: every language reads them, and two processes need no shared structures. 64-bit integers
 * that a double can't hold are read as bigint. `copyBuffers`: unpacked values may be kept, while the bytes that they
 * came from are borrowed.
 */
const options = { useRecords: false, int64AsType: "auto" } as object; // "auto" is missing in its declarations
const packr = new Packr({ ...options, copyBuffers: true });
const borrowing = new Packr(options);

export const pack = (value: unknown): Uint8Array => packr.pack(value);

/** @throws {TuttiError} INVALID_INPUT for anything that isn't exactly one msgpack value */
export const unpack = (bytes: Uint8Array): unknown => unpackWith(packr, bytes, UNBOUNDED);
/** As `unpack`, for values from outside: no more keys and lists than JSON may have. Binaries are views of `bytes`. */
export const unpackOutside = (bytes: Uint8Array): unknown => unpackWith(borrowing, bytes, OUTSIDE);

/** Whether the bytes hold at most so many values, and end with the last: no more are looked at. */
export function hasFewValues(bytes: Uint8Array, valuesMax: number): boolean {
  return faultOf(bytes, { ...UNBOUNDED, values: valuesMax }) === undefined;
}

interface Bounds {
  readonly values: number;
  readonly lists: number;
  readonly keys: number;
}
const UNBOUNDED: Bounds = { values: Infinity, lists: Infinity, keys: Infinity };
const OUTSIDE: Bounds = { values: Infinity, lists: JSON_LISTS_MAX, keys: JSON_KEYS_MAX };

function unpackWith(codec: Packr, bytes: Uint8Array, bounds: Bounds): unknown {
  const fault = faultOf(bytes, bounds);
  if (fault !== undefined) throw new TuttiError("TUTTI_INVALID_INPUT", `unreadable msgpack: ${fault}`);
  try {
    return codec.unpack(bytes) as unknown;
  } catch (cause) {
    throw new TuttiError("TUTTI_INVALID_INPUT", "unreadable msgpack", { cause });
  }
}

const DEPTH_MAX = 32;

/**
 * Reason why msgpackr can't read `bytes` safely. It trusts the lengths it reads, so that five bytes can make it
 * allocate an array of 2^32 places. Some of its extension types build regular expressions, errors or code: only
 * nil-like `undefined` (type 0) and timestamps pass.
 */
function faultOf(bytes: Uint8Array, most: Bounds): string | undefined {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const left: number[] = [1]; // values still to come, by depth
  let at = 0;
  let [values, lists, keys] = [0, 0, 0];
  while (left.length > 0) {
    if (left[left.length - 1]! === 0) {
      left.pop();
      continue;
    }
    left[left.length - 1]!--;
    if (at >= bytes.length) return "it ends early";
    if (++values > most.values) return `it has more than ${most.values} values`;
    const head = bytes[at]!;
    const span = spanOf(head, view, at);
    if (span === undefined) return `byte 0x${head.toString(16)} at ${at} is not allowed`;
    if (isList(head) && ++lists > most.lists) return `it has more than ${most.lists} lists and maps (JSON_LISTS_MAX)`;
    if (isMap(head)) keys += span.members / 2;
    if (keys > most.keys) return `it has more than ${most.keys} keys (JSON_KEYS_MAX)`;
    at += span.bytes;
    if (at > bytes.length || span.members > bytes.length - at) return "it ends early";
    if (span.members > 0) {
      if (left.length >= DEPTH_MAX) return `it is nested more than ${DEPTH_MAX} deep`;
      left.push(span.members);
    }
  }
  return at === bytes.length ? undefined : `${bytes.length - at} bytes are left over`;
}

/** True for arrays and maps, including empty ones. */
const isList = (head: number): boolean => (head >= 0x80 && head <= 0x9f) || (head >= 0xdc && head <= 0xdf);

const isMap = (head: number): boolean => (head >= 0x80 && head <= 0x8f) || head === 0xde || head === 0xdf;

interface Span {
  bytes: number;
  members: number;
}
const span: Span = { bytes: 0, members: 0 };
function spanning(bytes: number, members: number): Span {
  span.bytes = bytes;
  span.members = members;
  return span;
}
/** Bytes of fixed-width values by head byte − 0xca: float32, float64, uint8 … uint64, int8 … int64. */
const WIDTHS = [5, 9, 2, 3, 5, 9, 2, 3, 5, 9];

/** Bytes of a value itself (head and contents), and the number of values that it holds. */
function spanOf(head: number, view: DataView, at: number): Span | undefined {
  if (head <= 0x7f || head >= 0xe0) return spanning(1, 0);
  if (head <= 0x8f) return spanning(1, (head & 15) * 2);
  if (head <= 0x9f) return spanning(1, head & 15);
  if (head <= 0xbf) return spanning(1 + (head & 31), 0);
  if (head === 0xc0 || head === 0xc2 || head === 0xc3) return spanning(1, 0);
  if (head >= 0xca && head <= 0xd3) return spanning(WIDTHS[head - 0xca]!, 0);
  const room = view.byteLength - at - 1;
  const length = (width: number): number =>
    room < width
      ? Infinity
      : width === 1
        ? view.getUint8(at + 1)
        : width === 2
          ? view.getUint16(at + 1)
          : view.getUint32(at + 1);
  switch (head) {
    case 0xc4: // bin
    case 0xd9: // str
      return spanning(2 + length(1), 0);
    case 0xc5:
    case 0xda:
      return spanning(3 + length(2), 0);
    case 0xc6:
    case 0xdb:
      return spanning(5 + length(4), 0);
    case 0xdc:
      return spanning(3, length(2));
    case 0xdd:
      return spanning(5, length(4));
    case 0xde:
      return spanning(3, 2 * length(2));
    case 0xdf:
      return spanning(5, 2 * length(4));
    case 0xd4: // undefined, as msgpackr writes it
      return room >= 1 && view.getUint8(at + 1) === 0 ? spanning(3, 0) : undefined;
    case 0xd6: // timestamps of 32 and 64 bits
      return room >= 1 && view.getInt8(at + 1) === -1 ? spanning(6, 0) : undefined;
    case 0xd7:
      return room >= 1 && view.getInt8(at + 1) === -1 ? spanning(10, 0) : undefined;
    default:
      return undefined;
  }
}

const encoder = new TextEncoder();
const decoder = new TextDecoder("utf-8", { fatal: true });

/** Encodes values for the store, which people read. */
export const toJson = (value: unknown): Uint8Array => encoder.encode(JSON.stringify(value));

/**
 * As `fromJson`, for JSON from outside: long texts are checked before they are parsed. @throws {TuttiError}
 * INVALID_INPUT
 */
export function fromOutsideJson(bytes: Uint8Array): unknown {
  return parse(bytes, bytes.byteLength > UNCHECKED_BYTES ? checkJsonBounds : undefined);
}
/** Bytes up to which JSON is parsed unchecked: whatever it holds, that takes at most a millisecond. */
const UNCHECKED_BYTES = 16_384;

/** @throws {TuttiError} INVALID_INPUT */
export const fromJson = (bytes: Uint8Array): unknown => parse(bytes);

function parse(bytes: Uint8Array, check?: (text: string) => void): unknown {
  let text = "";
  try {
    text = decoder.decode(bytes);
    check?.(text);
    return JSON.parse(text) as unknown;
  } catch (cause) {
    if (cause instanceof TuttiError) throw cause;
    const message = cause instanceof Error ? cause.message.replace(EXCERPT, "") : "";
    const reason = AT_NON_FINITE.test(message) && NON_FINITE.test(text) ? NO_NON_FINITE : message;
    throw new TuttiError("TUTTI_INVALID_INPUT", `unreadable JSON: ${reason}`, { cause });
  }
}
/** V8 quotes the text around a mistake. Refusals' texts are kept and shown to operators, who must not see inputs. */
const EXCERPT = /, (?:\.{3})?".*"(?:\.{3})? is not valid JSON$/s;
/** V8 says this of a bare NaN, Infinity or -Infinity, among other mistakes. */
const AT_NON_FINITE = /^(?:Unexpected token '[NI]'|No number after minus sign)/;
/** These as Python's json.dumps writes them, outside of strings. */
const NON_FINITE = /[[,:]\s*-?(?:NaN|Infinity)\b/;
const NO_NON_FINITE = 'JSON has no NaN and no Infinity: write them as strings ("NaN"), or send the bytes of the tensor';
