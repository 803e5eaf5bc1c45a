import fc from "fast-check";
import { expect, test } from "vitest";
import { TEXTS_MAX, linesOf, packElements, textElements, textsOf, unpackElements } from "./bytes-elements.ts";

test("elements of BYTES come back as they were packed, also from the middle of a buffer", () => {
  const elements = fc.array(fc.uint8Array({ maxLength: 300 }), { maxLength: 10 });
  fc.assert(
    fc.property(elements, fc.nat(5), (given, offset) => {
      const packed = packElements(given);
      const buffer = new Uint8Array(offset + packed.byteLength);
      buffer.set(packed, offset);
      expect(unpackElements(buffer.subarray(offset))?.map((one) => [...one])).toEqual(given.map((one) => [...one]));
    }),
  );
  expect([...packElements([Uint8Array.of(7, 8)])]).toEqual([2, 0, 0, 0, 7, 8]);
  expect(textsOf(packElements(["a", "ü"].map((text) => new TextEncoder().encode(text))))).toEqual(["a", "ü"]);
});

test("whatever the bytes are, elements are whole, no more than may be, or none (T8)", () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 40 }), fc.nat(3), (bytes, most) => {
      const elements = unpackElements(bytes, most);
      if (elements === undefined) return;
      expect(elements.length).toBeLessThanOrEqual(most);
      expect([...packElements(elements)]).toEqual([...bytes]);
    }),
  );
  expect(unpackElements(Uint8Array.of(0, 0, 0, 0, 0, 0, 0, 0), 1)).toBeUndefined();
  expect(unpackElements(Uint8Array.of(5, 0, 0, 0, 1))).toBeUndefined();
  expect(unpackElements(Uint8Array.of(5, 0, 0))).toBeUndefined();
});

test("text is a line for each element, and comes back as it was", () => {
  const line = fc.string().map((text) => text.replaceAll("\n", ""));
  const utf8 = (text: string): Uint8Array => new TextEncoder().encode(text);
  const lines = (text: string): unknown[] => {
    const { type, dims, data } = textElements({ name: "t", type: "UINT8", dims: [], data: utf8(text) });
    return [type, dims, textsOf(data)];
  };
  fc.assert(
    fc.property(fc.array(line, { minLength: 2, maxLength: 6 }), (texts) => {
      const packed = packElements(texts.map(utf8));
      const joined = linesOf("t", texts.length, packed);
      expect(new TextDecoder().decode(joined)).toBe(texts.join("\n").toWellFormed());
      expect(lines(texts.join("\n"))).toEqual(["BYTES", [texts.length], texts.map((text) => text.toWellFormed())]);
    }),
  );
  expect(lines("")).toEqual(["BYTES", [0], []]);
  const file = Uint8Array.of(10, 0, 10);
  expect(linesOf("f", 1, packElements([file]))).toEqual(file);
  expect(() => linesOf("f", 2, packElements([file, file]))).toThrow("one line of text");
  expect(() => linesOf("f", 2, packElements([file]))).toThrow("not 2 elements");
});

test("more elements of text than are taken are refused, before any is unpacked", () => {
  const many = new Uint8Array(TEXTS_MAX).fill(10);
  expect(() => textElements({ name: "t", type: "UINT8", dims: [TEXTS_MAX], data: many })).toThrow("TEXTS_MAX");
  expect(textElements({ name: "t", type: "UINT8", dims: [], data: many.subarray(1) }).dims).toEqual([TEXTS_MAX]);
  expect(() => linesOf("t", TEXTS_MAX + 1, new Uint8Array(4 * TEXTS_MAX + 4))).toThrow("TEXTS_MAX");
});
