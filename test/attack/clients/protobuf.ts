/** Protocol buffers as an attacker writes them: any field, of any content, without a schema that could object. */
export type Field = Uint8Array;

export function varint(value: number | bigint): Buffer {
  const bytes: number[] = [];
  let left = BigInt.asUintN(64, BigInt(value));
  for (; left >= 0x80n; left >>= 7n) bytes.push(Number(left & 0x7fn) | 0x80);
  bytes.push(Number(left));
  return Buffer.from(bytes);
}

/** An integer, a boolean or an enumeration. */
export const int = (id: number, value: number | bigint): Field => Buffer.concat([varint(id * 8), varint(value)]);

/** A string, bytes, or a message. */
export function bytes(id: number, value: Uint8Array | string): Field {
  const content = typeof value === "string" ? Buffer.from(value) : value;
  return Buffer.concat([varint(id * 8 + 2), varint(content.byteLength), content]);
}

export const message = (...fields: readonly Field[]): Uint8Array => Buffer.concat(fields);
