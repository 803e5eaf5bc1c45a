import fc from "fast-check";
import { expect, test } from "vitest";
import { JSON_KEYS_MAX, JSON_LISTS_MAX, checkJsonBounds } from "./json-bounds.ts";

const check = (text: string): string => {
  try {
    checkJsonBounds(text);
    return "ok";
  } catch (error) {
    return (error as { code: string }).code;
  }
};

test("JSON of a few lists and keys is within the bounds, whatever its texts hold", () => {
  fc.assert(fc.property(fc.json({ maxDepth: 5 }), (text) => void expect(check(text)).toBe("ok")));
  const texts = fc.array(fc.string({ unit: fc.constantFrom('"', "\\", "[", "{", "a", "é"), maxLength: 40 }));
  fc.assert(fc.property(texts, (list) => void expect(check(JSON.stringify(list))).toBe("ok")));
  expect(check(JSON.stringify("[{:".repeat(1e6)))).toBe("ok");
});

test("each bound refuses what is beyond it, and nothing at it", () => {
  const lists = (count: number): string =>
    `[${Array(count - 1)
      .fill("[]")
      .join()}]`;
  expect([check(lists(JSON_LISTS_MAX)), check(lists(JSON_LISTS_MAX + 1))]).toEqual(["ok", "TUTTI_INVALID_INPUT"]);
  const keys = (count: number): string => `{${Array.from({ length: count }, (_, i) => `"k${i}":0`).join()}}`;
  expect([check(keys(JSON_KEYS_MAX)), check(keys(JSON_KEYS_MAX + 1))]).toEqual(["ok", "TUTTI_INVALID_INPUT"]);
  const nested = (depth: number): string => "[".repeat(depth) + "]".repeat(depth);
  expect([check(nested(32)), check(nested(33)), check("[".repeat(1e6))]).toEqual([
    ...["ok", "TUTTI_INVALID_INPUT", "TUTTI_INVALID_INPUT"],
  ]);
});

test("a large flat tensor is within them", () => {
  expect(check(`{"inputs":[{"name":"x","data":[${Array(1_000_000).fill("0.5").join()}]}]}`)).toBe("ok");
});
