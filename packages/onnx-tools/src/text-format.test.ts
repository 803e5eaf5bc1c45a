import fc from "fast-check";
import { expect, test } from "vitest";
import { parseTextFormat } from "./text-format.ts";

test("fields, lists, messages, strings and numbers are read as protobuf's text format has them", () => {
  const text = String.raw`# a comment
    name: "a\"b\n\x41\101" 'c' on: true off: false kind: KIND_GPU
    count: 3 share: -0.5e-3 half: .5f hex: 0x10 many: [1, 2,3] none: [ ] many: 4;
    one { two < three: "3" > }, list [ { a: 1 }, { a: 2 } ] list { a: 3 }`;
  expect(parseTextFormat(text)).toEqual({
    ...{ name: 'a"b\nAAc', on: true, off: false, kind: "KIND_GPU", count: 3, share: -0.0005, half: 0.5, hex: 16 },
    ...{ many: [1, 2, 3, 4], none: [], one: { two: { three: "3" } }, list: [{ a: 1 }, { a: 2 }, { a: 3 }] },
  });
  expect(parseTextFormat(" # nothing")).toEqual({});
});

test("what is no text format is refused with its line, and nothing else is thrown (T8)", () => {
  for (const [text, fault] of [
    ["a", "line 1: a value is expected"],
    ["a: 1\n}", "line 2: the name of a field is expected"],
    ["a: \n'", "line 2: "],
    ["a { b: [1 2] }", "a list ends with ]"],
    ["a: 1x", "'1x' is no value"],
    ["a 1", "a value is expected"],
    ["a {".repeat(50), "too deep"],
    ["a [" + "[".repeat(50), "too deep"],
  ] as const)
    expect(() => parseTextFormat(text), text).toThrow(fault);
  const pieces = fc.constantFrom("a", ":", "{", "}", "[", "]", "<", ">", ",", '"', "'", "\\", "1", "#", "\n", " ");
  fc.assert(
    fc.property(fc.string({ unit: pieces, maxLength: 30 }), (text) => {
      try {
        expect(parseTextFormat(text)).toBeTypeOf("object");
      } catch (error) {
        expect(error).toBeInstanceOf(SyntaxError);
      }
    }),
  );
});
