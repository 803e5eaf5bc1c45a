/** Encodes fields of protocol buffers as no encoder would. */

export function varint(value: number | bigint): Buffer {
  const bytes: number[] = [];
  let left = BigInt.asUintN(64, BigInt(value));
  for (; left > 127n; left >>= 7n) bytes.push(Number(left & 127n) | 128);
  return Buffer.from([...bytes, Number(left)]);
}

/** A field by its number, the type of its tag, and its content; a length stands before that of type 2. */
export const field = (number: number, type: number, content: Uint8Array): Buffer =>
  Buffer.concat([varint(8 * number + type), ...(type === 2 ? [varint(content.byteLength)] : []), content]);
