/** Elements of BYTES in the protocol's packed form: each a length of four little-endian bytes, and as many bytes. */
import type { DataType } from "@tutti/protocol";
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

/** The elements as texts, for JSON. */
export function textsOf(packed: Uint8Array): string[] {
  const decoder = new TextDecoder();
  return (unpackElements(packed) ?? []).map((element) => decoder.decode(element));
}
