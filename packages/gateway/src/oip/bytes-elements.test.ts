import fc from "fast-check";
import { expect, test } from "vitest";
import { packElements, textsOf, unpackElements } from "./bytes-elements.ts";

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
