/** The bytes between a process that decodes and its parent: two lengths, a part in JSON, a part of bytes. */
import type { ErrorCode } from "@tutti/protocol";

/** The size of the pixels that follow, and of the picture in the file; or why there are none. */
export type PictureOutcome =
  | { readonly image: Size; readonly width: number; readonly height: number }
  | { readonly code: ErrorCode; readonly text: string };
interface Size {
  readonly width: number;
  readonly height: number;
}
/** `resident`: memory of the process after it, bytes. */
export type FromDecoder = PictureOutcome & { readonly resident: number };

/** Bytes of the two lengths. */
export const LENGTHS_BYTES = 8;

export function headOf(json: object, bytes: Uint8Array): Buffer {
  const text = Buffer.from(JSON.stringify(json));
  const head = Buffer.alloc(LENGTHS_BYTES + text.byteLength);
  head.writeUInt32LE(text.byteLength, 0);
  head.writeUInt32LE(bytes.byteLength, 4);
  text.copy(head, LENGTHS_BYTES);
  return head;
}

export const lengthsOf = (head: Buffer): readonly [json: number, bytes: number] => [
  head.readUInt32LE(0),
  head.readUInt32LE(4),
];
