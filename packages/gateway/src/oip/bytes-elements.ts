/** Elements of BYTES in the protocol's packed form: each a length of four little-endian bytes, and as many bytes. */
import { type DataType, type Tensor, TuttiError } from "@tutti/protocol";
import type { RegionSlice } from "./given-tensors.ts";

/** An output in the form that clients get; the elements of BYTES are packed. */
export interface OutputTensor {
  readonly name: string;
  readonly type: DataType | "BYTES";
  readonly dims: readonly number[];
  readonly data: Uint8Array;
  /** Place in shared memory where it was written; it has no data then. */
  readonly slice?: RegionSlice | undefined;
}

const LENGTH_BYTES = 4;
/** Largest number of elements of an input or output that is text. */
export const TEXTS_MAX = 16_384;
const LINE_FEED = 10;

export function packElements(elements: readonly Uint8Array[]): Uint8Array {
  const bytes = elements.reduce((sum, { byteLength }) => sum + LENGTH_BYTES + byteLength, 0);
  const packed = new Uint8Array(bytes);
  const view = new DataView(packed.buffer);
  let at = 0;
  for (const element of elements) {
    view.setUint32(at, element.byteLength, true);
    packed.set(element, at + LENGTH_BYTES);
    at += LENGTH_BYTES + element.byteLength;
  }
  return packed;
}

/**
 * Unpacks the elements, as views of `packed`.
 *
 * @param most - the largest number of elements
 * @returns undefined where the lengths don't add up, or there are more elements
 */
export function unpackElements(packed: Uint8Array, most = Infinity): Uint8Array[] | undefined {
  const view = new DataView(packed.buffer, packed.byteOffset, packed.byteLength);
  const elements: Uint8Array[] = [];
  for (let at = 0; at < packed.byteLength;) {
    if (elements.length >= most || at + LENGTH_BYTES > packed.byteLength) return undefined;
    const from = at + LENGTH_BYTES;
    at = from + view.getUint32(at, true);
    if (at > packed.byteLength) return undefined;
    elements.push(packed.subarray(from, at));
  }
  return elements;
}

/**
 * Makes BYTES of a pipeline's text: the cluster has no strings, so UTF-8 with a line for each element stands for them.
 *
 * @throws {TuttiError} TOO_LARGE for more than TEXTS_MAX lines
 */
export function textElements({ name, type, dims, data }: Tensor): OutputTensor {
  if (type !== "UINT8") return { name, type, dims, data };
  const lines: Uint8Array[] = [];
  for (let from = 0; data.byteLength > 0;) {
    const end = data.indexOf(LINE_FEED, from);
    lines.push(data.subarray(from, end < 0 ? undefined : end));
    if (end < 0) break;
    if (lines.length >= TEXTS_MAX) throw tooMany(name);
    from = end + 1;
  }
  return { name, type: "BYTES", dims: [lines.length], data: packElements(lines) };
}

/**
 * The way back: the bytes of the only element, or lines of text.
 *
 * @throws {TuttiError} INVALID_INPUT where the elements are not as many as the shape says, or more than TEXTS_MAX
 */
export function linesOf(name: string, count: number, packed: Uint8Array): Uint8Array {
  if (count > TEXTS_MAX) throw tooMany(name, "TUTTI_INVALID_INPUT");
  const elements = unpackElements(packed, count);
  const fail = (text: string): never => {
    throw new TuttiError("TUTTI_INVALID_INPUT", `input "${name}": ${text}`);
  };
  if (elements?.length !== count) return fail(`its BYTES are not ${count} elements, each behind its length`);
  const [only] = elements;
  if (count === 1 && only !== undefined) return only;
  if (elements.some((element) => element.includes(LINE_FEED)))
    fail("each of several elements is one line of text; send a file as the only element");
  return Buffer.concat(elements.flatMap((element, i) => (i === 0 ? [element] : [SEPARATOR, element])));
}
const SEPARATOR = Uint8Array.of(LINE_FEED);

const tooMany = (name: string, code: "TUTTI_INVALID_INPUT" | "TUTTI_TOO_LARGE" = "TUTTI_TOO_LARGE"): TuttiError =>
  new TuttiError(code, `tensor "${name}": text has at most ${TEXTS_MAX} elements (TEXTS_MAX)`);

/** The elements as texts, for JSON. */
export function textsOf(packed: Uint8Array): string[] {
  const decoder = new TextDecoder();
  return (unpackElements(packed) ?? []).map((element) => decoder.decode(element));
}
