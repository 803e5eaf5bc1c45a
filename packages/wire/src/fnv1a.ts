const encoder = new TextEncoder();

/** FNV-1a, 32 bits, over the UTF-8 bytes: the number by which an application's name travels in records. */
export function fnv1a(text: string): number {
  let hash = 0x811c9dc5;
  for (const byte of encoder.encode(text)) hash = Math.imul(hash ^ byte, 0x01000193);
  return hash >>> 0;
}
