import { TuttiError } from "@tutti/protocol";
import fc from "fast-check";
import { Packr } from "msgpackr";
import { expect, test } from "vitest";
import { JSON_KEYS_MAX } from "./json-bounds.ts";
import { decodeRequest, fromJson, hasFewValues, pack, toJson, unpack } from "./index.ts";

const value = fc.anything({
  maxDepth: 3,
  values: [
    fc.string(),
    fc.integer(),
    fc.double({ noNaN: true }),
    fc.boolean(),
    fc.constant(null),
    fc.bigInt({ min: 2n ** 53n + 1n, max: 2n ** 64n - 1n }),
    fc.bigInt({ min: -(2n ** 63n), max: -(2n ** 53n) - 1n }),
    fc.uint8Array(),
  ],
});
const withoutProto = (v: unknown): boolean =>
  typeof v !== "object" ||
  v === null ||
  Object.entries(v).every(([key, member]) => key !== "__proto__" && withoutProto(member));

test("any plain value comes back as it was", () => {
  fc.assert(
    fc.property(value.filter(withoutProto), (sent) => {
      expect(plain(unpack(pack(sent).slice()))).toEqual(plain(sent));
    }),
  );
});

test("a 64-bit integer that a double holds exactly comes back as a number", () => {
  for (const sent of [2n ** 53n, 2n ** 53n - 1n, -(2n ** 53n), 5n]) expect(unpack(pack(sent))).toBe(Number(sent));
});

/** Buffers and their views as plain byte lists, so that only contents count; -0 travels as the integer 0. */
const plain = (v: unknown): unknown =>
  v === 0
    ? 0
    : v instanceof Uint8Array
      ? { bytes: [...v] }
      : Array.isArray(v)
        ? v.map(plain)
        : typeof v === "object" && v !== null
          ? Object.fromEntries(Object.entries(v).map(([key, member]) => [key, plain(member)]))
          : v;

test("garbage is INVALID_INPUT and nothing else", () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 64 }), (bytes) => {
      try {
        unpack(bytes);
      } catch (error) {
        expect(error).toBeInstanceOf(TuttiError);
        expect((error as TuttiError).code).toBe("TUTTI_INVALID_INPUT");
      }
    }),
    { numRuns: 2_000 },
  );
});

test("lengths that the bytes can't hold, extensions that build objects, and deep nesting are refused", () => {
  const refused = (bytes: number[] | Uint8Array): string => {
    try {
      unpack(new Uint8Array(bytes));
    } catch (error) {
      return (error as Error).message;
    }
    return "read";
  };
  expect(refused([0xdd, 0xff, 0xff, 0xff, 0xff])).toMatch("ends early");
  expect(refused([0xdf, 0x7f, 0xff, 0xff, 0xff])).toMatch("ends early");
  expect(refused([0xc6, 0x7f, 0xff, 0xff, 0xff, 1])).toMatch("ends early");
  expect(refused([])).toMatch("ends early");
  expect(refused([1, 2])).toMatch("1 bytes are left over");
  expect(refused(new Array(100).fill(0x91))).toMatch("nested");
  expect(refused(new Packr({ useRecords: true }).pack([{ a: 1 }]))).toMatch("not allowed");
  expect(refused(new Packr({ moreTypes: true }).pack(/a+/))).toMatch("not allowed");
});

test("binaries in an unpacked value don't alias the bytes they came from", () => {
  const bytes = pack({ data: new Uint8Array([1, 2, 3]) }).slice();
  const { data } = unpack(bytes) as { data: Uint8Array };
  bytes.fill(0);
  expect([...data]).toEqual([1, 2, 3]);
});

test("JSON of the store comes back, and what is no JSON says so", () => {
  expect(fromJson(toJson({ a: [1, "ö", null] }))).toEqual({ a: [1, "ö", null] });
  expect(() => fromJson(new TextEncoder().encode("{nope"))).toThrow(/unreadable JSON/);
  for (const text of ["secret 1234", `{"pin": 1234, "x": y, "secret": "1234"}`, `["secret\n1234", y]`]) {
    const read = (): unknown => fromJson(new TextEncoder().encode(text));
    expect(read).toThrow(/unreadable JSON: \w/);
    expect(read, "an error quotes no input").not.toThrow(/secret|1234/);
  }
  expect(() => fromJson(new Uint8Array([0xff, 0xfe]))).toThrow(TuttiError);
});

test("NaN and Infinity as Python writes them are told from other mistakes", () => {
  const read = (text: string) => (): unknown => fromJson(new TextEncoder().encode(text));
  for (const text of ["[1, NaN]", '{"a":Infinity}', "[ -Infinity, 2]", '{"a": [[\n NaN]]}'])
    expect(read(text)).toThrow(/JSON has no NaN and no Infinity: write them as strings/);
  for (const text of ["[1, Nothing]", '["NaN", x]', '[", NaN", x]', "[1, -]"])
    expect(read(text)).not.toThrow(/JSON has no NaN/);
});

test("a request in msgpack of more lists than may be is refused before they are made", () => {
  const message = new Uint8Array(5 + 2 ** 20).fill(0x90);
  message.set([0xdd, 0, 0x10, 0, 0]); // a list of 2^20 empty ones
  expect(() => decodeRequest("msgpack", message)).toThrow("JSON_LISTS_MAX");
});

test("a request in msgpack of more keys than may be is refused before they are made, wherever they are", () => {
  const keys = (count: number): object => Object.fromEntries(Array.from({ length: count }, (_, i) => [`k${i}`, 0]));
  const asked = (rest: object): (() => unknown) => {
    const bytes = pack({ inputs: [], ...rest });
    return () => decodeRequest("msgpack", bytes);
  };
  expect(asked(keys(JSON_KEYS_MAX - 1))).not.toThrow();
  expect(asked(keys(JSON_KEYS_MAX))).toThrow("JSON_KEYS_MAX");
  expect(asked({ more: [keys(JSON_KEYS_MAX / 2), keys(JSON_KEYS_MAX / 2)] })).toThrow("JSON_KEYS_MAX");
  // Refused by the map's own length: its members are not even looked at.
  const claimed = new Uint8Array(400_000).fill(0xff);
  claimed.set([0xdf, 0, 2, 0, 0]);
  expect(() => decodeRequest("msgpack", claimed)).toThrow("JSON_KEYS_MAX");
});

test("a message of few values is told from one of many, however long it is", () => {
  const few = pack({ inputs: [{ data: new Uint8Array(1_000_000) }] });
  expect([hasFewValues(few, 10), hasFewValues(few, 5)]).toEqual([true, false]);
  expect(hasFewValues(pack(Array(1_000_000).fill(1)), 10)).toBe(false);
  expect(hasFewValues(new Uint8Array([0xc1]), 10)).toBe(false);
});
