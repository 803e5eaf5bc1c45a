const encoder = new TextEncoder();
/** Most cached hashes: the same application names recur. */
const KNOWN_MAX = 1_024;
const known = new Map<string, number>();

/** FNV-1a, 32 bits, over the UTF-8 bytes: the number by which an application's name travels in records. */
export function fnv1a(text: string): number {
  const kept = known.get(text);
  if (kept !== undefined) return kept;
  let hash = 0x811c9dc5;
  for (const byte of encoder.encode(text)) hash = Math.imul(hash ^ byte, 0x01000193);
  hash >>>= 0;
  if (known.size >= KNOWN_MAX) known.clear();
  known.set(text, hash);
  return hash;
}
