/** Malicious changes to a message: seeded, so that each case can be repeated. */
import type { Prng } from "@tutti/units";

const EXTREMES = [0, 1, 7, 8, 9, 0x7f, 0x80, 0xff, 0x7fff, 0xffff, 0x7fff_ffff, 0x8000_0000, 0xffff_ffff];
const DOUBLES = [NaN, Infinity, -Infinity, -1, 0.5, 2 ** 53, 2 ** 48, -0, Number.MAX_VALUE];
/** Fragments of the encodings in use: heads of msgpack that claim a lot, magic numbers, pieces of JSON. */
const TOKENS = [
  ...[
    "dfffffffff",
    "ddffffffff",
    "dbffffffff",
    "c6ffffffff",
    "c9ffffffff7f",
    "d47300",
    "d57800",
    "c7ff",
    "54544e31",
    "44540105",
    "7574",
  ],
  ...['{"', '":', "[[[[", "null", "1e999", '"__proto__":', "-", "\\ud800", "\u0000", "\r\n", "NaN"].map((text) =>
    Buffer.from(text).toString("hex"),
  ),
].map((hex) => new Uint8Array(Buffer.from(hex, "hex")));

/** A copy of `message` with one to four changes; `other` provides pieces. */
export function mutated(message: Uint8Array, other: Uint8Array, prng: Prng): Uint8Array {
  let bytes = new Uint8Array(message);
  for (let changes = 1 + prng.nextInt(4); changes > 0; changes--) bytes = changed(bytes, other, prng);
  return bytes;
}

function changed(bytes: Uint8Array, other: Uint8Array, prng: Prng): Uint8Array<ArrayBuffer> {
  const copy = new Uint8Array(bytes);
  const view = new DataView(copy.buffer);
  const at = prng.nextInt(copy.byteLength + 1);
  const pick = <T>(list: readonly T[]): T => list[prng.nextInt(list.length)]!;
  switch (prng.nextInt(10)) {
    case 0:
      if (at < copy.byteLength) copy[at]! ^= 1 << prng.nextInt(8);
      return copy;
    case 1:
      if (at < copy.byteLength) copy[at] = prng.nextInt(256);
      return copy;
    case 2: // a length or a count that claims too much
      if (at + 4 <= copy.byteLength) view.setUint32(at & ~3, pick(EXTREMES), prng.nextInt(2) === 0);
      return copy;
    case 3:
      if (at + 8 <= copy.byteLength) view.setFloat64(at & ~7, pick(DOUBLES), true);
      return copy;
    case 4:
      return copy.slice(0, at);
    case 5:
      return copy.slice(at);
    case 6:
      return joined(copy.subarray(0, at), pick(TOKENS), copy.subarray(at));
    case 7: // a piece twice
      return joined(copy.subarray(0, at), copy.subarray(prng.nextInt(at + 1)));
    case 8: {
      const from = prng.nextInt(other.byteLength + 1);
      return joined(copy.subarray(0, at), other.subarray(from, from + 1 + prng.nextInt(64)), copy.subarray(at));
    }
    default:
      return joined(copy.subarray(0, at), other.subarray(prng.nextInt(other.byteLength + 1)));
  }
}

const LENGTH_MAX = 65_536;

/** Concatenates with a bound: repeated duplication would grow without end. */
function joined(...parts: readonly Uint8Array[]): Uint8Array<ArrayBuffer> {
  const length = Math.min(
    LENGTH_MAX,
    parts.reduce((sum, part) => sum + part.byteLength, 0),
  );
  const whole = new Uint8Array(length);
  let at = 0;
  for (const part of parts) {
    const fitting = part.subarray(0, length - at);
    whole.set(fitting, at);
    at += fitting.byteLength;
  }
  return whole;
}

export function randomBytes(prng: Prng, lengthMax: number): Uint8Array {
  return Uint8Array.from({ length: prng.nextInt(lengthMax + 1) }, () => prng.nextInt(256));
}

const nested = (depth: number): unknown => (depth === 0 ? 1 : [nested(depth - 1)]);
const STRANGE: readonly unknown[] = [
  ...[null, true, false, 0, -1, 0.5, 1e308, 2 ** 31, 2 ** 32, 2 ** 53, "", "x", "-1", "NaN", "\ud800", "n".repeat(300)],
  ...[[], {}, [[]], [null], { a: 1 }, nested(40), Array(70).fill(1), { __proto__: null }, { length: 4_294_967_295 }],
];

/** A value that is well-formed and altered: one to three members are replaced, left out, doubled or renamed. */
export function mutatedValue(value: unknown, prng: Prng): unknown {
  let copy: unknown = structuredClone(value);
  for (let changes = 1 + prng.nextInt(3); changes > 0; changes--) copy = changedValue(copy, prng);
  return copy;
}

const strange = (prng: Prng): unknown => structuredClone(STRANGE[prng.nextInt(STRANGE.length)]);
const OPEN = { enumerable: true, configurable: true, writable: true } as const;

function changedValue(value: unknown, prng: Prng): unknown {
  const isBranch = typeof value === "object" && value !== null && !ArrayBuffer.isView(value);
  const keys = isBranch ? Object.keys(value) : [];
  const key = keys[prng.nextInt(Math.max(1, keys.length))];
  if (key === undefined || prng.nextInt(16) === 0) return strange(prng);
  const branch = value as Record<string, unknown>;
  switch (prng.nextInt(6)) {
    case 0:
      branch[key] = strange(prng);
      return branch;
    case 1:
      if (Array.isArray(value)) value.splice(Number(key), 1);
      else delete branch[key];
      return branch;
    case 2:
      if (Array.isArray(value)) value.push(structuredClone(value[Number(key)]));
      else Object.defineProperty(branch, "__proto__", { ...OPEN, value: structuredClone(branch[key]) });
      return branch;
    default:
      branch[key] = changedValue(branch[key], prng);
      return branch;
  }
}
