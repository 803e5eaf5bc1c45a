/**
 * Reads the typed contents of an input (InferTensorContents) into the bytes of its tensor: no value becomes a string, a
 * bigint or an object.
 *
 *   TYPED-1. No more elements are read than the shape has, and no more memory is taken than these or the contents need.
 */
import { type DataType, TuttiError, bytesOf, elementCount } from "@tutti/protocol";
import type { GivenType } from "../oip/given-tensors.ts";
import { DELIMITED, FIXED32, FIXED64, MessageReader, VARINT, unreadable } from "./message-reader.ts";

/** Fields of the protocol's contents by number, and the type of one element's tag. */
const FIELDS = [
  ["", -1],
  ["bool_contents", VARINT],
  ["int_contents", VARINT],
  ["int64_contents", VARINT],
  ["uint_contents", VARINT],
  ["uint64_contents", VARINT],
  ["fp32_contents", FIXED32],
  ["fp64_contents", FIXED64],
  ["bytes_contents", DELIMITED],
] as const;
const BYTES_FIELD = 8;

/** Field that holds a type's elements: FP16 and BF16 travel as raw bytes only. */
const FIELD_OF: Readonly<Partial<Record<GivenType, number>>> = {
  ...{ BOOL: 1, INT8: 2, INT16: 2, INT32: 2, INT64: 3, UINT8: 4, UINT16: 4, UINT32: 4, UINT64: 5, FP32: 6, FP64: 7 },
  BYTES: BYTES_FIELD,
};

/** Types that are narrower than the 32 bits of their elements. */
const NARROW = {
  BOOL: Uint8Array,
  INT8: Int8Array,
  INT16: Int16Array,
  UINT8: Uint8Array,
  UINT16: Uint16Array,
} as const;

/** Fields without elements that contents may have besides: of another protocol's version, or empty ones. */
const OTHER_FIELDS = 64;
/** Elements of BYTES up to which a copy by bytes is faster than one by a view. */
const SHORT_BYTES = 64;
/** Bytes of the length that stands before each element of packed BYTES. */
const LENGTH_BYTES = 4;

/** Contents of one input: the encoded messages, which the protocol has joined where there are several. */
export type Contents = readonly Buffer[];
interface Wanted {
  readonly name: string;
  readonly type: GivenType;
  readonly dims: readonly number[];
}

/** Name of the first field that has elements. @throws {TuttiError} INVALID_INPUT: the contents can't be read */
export function filledField(contents: Contents): string | undefined {
  const field = filled(contents)[0];
  return field === undefined ? undefined : FIELDS[field]![0];
}

/** @throws {TuttiError} INVALID_INPUT naming the tensor and the problem */
export function bytesFromContents(wanted: Wanted, contents: Contents): Uint8Array {
  const { name, type } = wanted;
  const field = FIELD_OF[type];
  if (field === undefined) throw invalid(`input "${name}": ${type} has no typed contents; send raw_input_contents`);
  const elements = new Elements(wanted, field, contents);
  return type === "BYTES" ? packed(elements) : field >= 6 ? fixed(elements, type) : integers(elements, type);
}

/** The fields that have elements, among the first ones: enough to know the first two. */
function filled(contents: Contents): number[] {
  const found = new Set<number>();
  for (const bytes of contents) {
    const budget = { left: OTHER_FIELDS, spent: unreadable };
    const reader = new MessageReader(bytes, budget);
    while (found.size < 2 && budget.left > 0 && reader.next()) {
      reader.skip();
      if (hasElements(reader)) found.add(reader.field);
    }
  }
  return [...found].sort((a, b) => a - b);
}

const hasElements = ({ field, type, low }: MessageReader): boolean =>
  field < FIELDS.length && (type !== DELIMITED || field === BYTES_FIELD || low > 0);

/** The places of an input's elements in its contents. */
class Elements {
  readonly count: number;
  /** Bytes of the contents, which have no more elements. */
  readonly bytes: number;
  readonly #wanted: Wanted;
  readonly #field: number;
  readonly #contents: Contents;

  constructor(wanted: Wanted, field: number, contents: Contents) {
    this.count = elementCount(wanted.dims);
    this.bytes = contents.reduce((sum, { byteLength }) => sum + byteLength, 0);
    this.#wanted = wanted;
    this.#field = field;
    this.#contents = contents;
  }

  /**
   * Calls with each run of elements: one element, or several that are packed.
   *
   * @param take - reads from `at` to `end`, as element `first` and the following. @returns how many there were
   */
  each(take: (bytes: Buffer, at: number, end: number, first: number) => number): void {
    let given = 0;
    for (const bytes of this.#contents) {
      const budget = { left: this.count + OTHER_FIELDS, spent: () => this.#unlike("more") };
      const reader = new MessageReader(bytes, budget);
      while (reader.next()) {
        const { field, type } = reader;
        const at = reader.skip();
        if (!hasElements(reader)) continue;
        if (field !== this.#field) throw this.#misplaced();
        if (type !== DELIMITED && type !== FIELDS[field]![1]) throw unreadable();
        given += take(bytes, at, reader.at, given);
        if (given > this.count) throw this.#unlike("more");
      }
    }
    if (given < this.count) throw this.#unlike(String(given));
  }

  refusal(place: number, value: number): TuttiError {
    const { name, type } = this.#wanted;
    return invalid(`tensor "${name}": element ${place} is ${value}, which is no ${type}`);
  }

  #unlike(given: string): TuttiError {
    const { name, type, dims } = this.#wanted;
    const shape = `[${dims.join(", ")}]`;
    if (type !== "BYTES")
      return invalid(`tensor "${name}": shape ${shape} has ${this.count} elements, data has ${given}`);
    return invalid(`tensor "${name}": BYTES of shape ${shape} has ${this.count} elements, bytes_contents has ${given}`);
  }

  #misplaced(): TuttiError {
    const { name, type } = this.#wanted;
    const [first = 0, second] = filled(this.#contents);
    if (second !== undefined)
      return invalid(`input "${name}" has both ${FIELDS[first]![0]} and ${FIELDS[second]![0]}: send one of them`);
    const [found, own] = [FIELDS[first]![0], FIELDS[this.#field]![0]];
    return invalid(`input "${name}": its elements are in ${found}, those of ${type} are read from ${own}`);
  }
}

/** Little-endian already: FP32 and FP64 are copied. */
function fixed(elements: Elements, type: GivenType): Uint8Array {
  const width = bytesOf(type as DataType);
  const copied = new Uint8Array(Math.min(width * elements.count, elements.bytes));
  elements.each((bytes, at, end, first) => {
    const given = (end - at) / width;
    if (!Number.isInteger(given)) throw unreadable();
    if (first + given > elements.count) return given;
    if (given === 1) for (let i = 0; i < width; i++) copied[width * first + i] = bytes[at + i]!;
    else copied.set(bytes.subarray(at, end), width * first);
    return given;
  });
  return copied;
}

function integers(elements: Elements, type: GivenType): Uint8Array {
  const { count } = elements;
  const wordsEach = type === "INT64" || type === "UINT64" ? 2 : 1;
  const most = Math.min(count, elements.bytes);
  const words = new Int32Array(wordsEach * most);
  const into = { words, wordsEach, most, isFlags: type === "BOOL" };
  elements.each((bytes, at, end, first) => readVarints(bytes, at, end, first, into));
  return type in NARROW
    ? narrowed(elements, words, NARROW[type as keyof typeof NARROW], type === "BOOL")
    : new Uint8Array(words.buffer);
}

interface Words {
  /** The elements' low words; with two each, low and high ones by turns. */
  readonly words: Int32Array;
  readonly wordsEach: number;
  readonly most: number;
  readonly isFlags: boolean;
}

/** @returns the number of varints, at most one more than there is room for */
function readVarints(
  bytes: Buffer,
  from: number,
  end: number,
  first: number,
  { words, wordsEach, most, isFlags }: Words,
): number {
  let element = first;
  let at = from;
  while (at < end && element <= most) {
    let byte = bytes[at++]!;
    let low = byte & 0x7f;
    let high = 0;
    for (let shift = 7; byte >= 0x80; shift += 7) {
      if (at === end || shift === 70) throw unreadable();
      byte = bytes[at++]!;
      const bits = byte & 0x7f;
      if (shift < 28) low |= bits << shift;
      else if (shift > 28) high |= bits << (shift - 32);
      else {
        low |= bits << 28;
        high = bits >>> 4;
      }
    }
    if (element < most) {
      words[wordsEach * element] = isFlags ? Number((low | high) !== 0) : low;
      if (wordsEach === 2) words[2 * element + 1] = high;
    }
    element++;
  }
  return element - first;
}

/** @throws {TuttiError} INVALID_INPUT for an element that the narrower type can't hold */
function narrowed(
  elements: Elements,
  words: Int32Array,
  Narrow: (typeof NARROW)[keyof typeof NARROW],
  isFlags: boolean,
): Uint8Array {
  const narrow = new Narrow(words);
  if (!isFlags) {
    const least = Narrow === Int8Array ? -128 : Narrow === Int16Array ? -32_768 : 0;
    const most = least === 0 ? 2 ** (8 * Narrow.BYTES_PER_ELEMENT) - 1 : -least - 1;
    for (let i = 0; i < words.length; i++) {
      const word = words[i]!;
      if (word < least || word > most) throw elements.refusal(i, least === 0 ? word >>> 0 : word);
    }
  }
  return new Uint8Array(narrow.buffer);
}

/** Packs BYTES: each element behind its length. */
function packed(elements: Elements): Uint8Array {
  let bytesAll = 0;
  elements.each((_, at, end) => {
    bytesAll += LENGTH_BYTES + end - at;
    return 1;
  });
  const all = Buffer.allocUnsafeSlow(bytesAll);
  let to = 0;
  elements.each((bytes, at, end) => {
    to = all.writeUInt32LE(end - at, to);
    if (end - at > SHORT_BYTES) all.set(bytes.subarray(at, end), to);
    else for (let i = 0; i < end - at; i++) all[to + i] = bytes[at + i]!;
    to += end - at;
    return 1;
  });
  return new Uint8Array(all.buffer);
}

const invalid = (text: string): TuttiError => new TuttiError("TUTTI_INVALID_INPUT", text);
