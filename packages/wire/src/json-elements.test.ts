import fc from "fast-check";
import { expect, test } from "vitest";
import { jsonFromBytes, jsonTextOf } from "./json-elements.ts";

const bytesOf = (values: readonly number[]): Uint8Array => new Uint8Array(Float32Array.from(values).buffer);

test("the text of floats is that of their shortest values, for every pattern of bits", () => {
  const patterns = fc.uint32Array({ maxLength: 40 });
  fc.assert(
    fc.property(patterns, (bits) => {
      const data = new Uint8Array(bits.slice().buffer);
      expect(jsonTextOf("FP32", data)).toBe(JSON.stringify(jsonFromBytes("FP32", data)));
    }),
    { numRuns: 2_000 },
  );
});

test("decimals as people write them come back as they were written", () => {
  const decimals = fc.tuple(fc.integer({ min: -999_999, max: 999_999 }), fc.integer({ min: -3, max: 11 }));
  fc.assert(
    fc.property(fc.array(decimals, { maxLength: 20 }), (parts) => {
      const values = parts.map(([whole, places]) => Number(`${whole}e${-places}`));
      expect(JSON.parse(jsonTextOf("FP32", bytesOf(values)))).toEqual(values.map((value) => value + 0));
    }),
    { numRuns: 2_000 },
  );
});

test("floats at the edges of what has no exponent, and values without a literal", () => {
  const values = [0, -0, 1e-6, 9.9e-7, 1e9, 999_999_940, 123_456_784, 16_777_217, 3.4028235e38, 1e-45, 0.1, 1000, 1.5];
  const data = bytesOf([...values, NaN, Infinity, -Infinity]);
  expect(jsonTextOf("FP32", data)).toBe(JSON.stringify(jsonFromBytes("FP32", data)));
  expect(jsonTextOf("FP32", bytesOf([0.1, -2.5, 1e-7, NaN]))).toBe('[0.1,-2.5,1e-7,"NaN"]');
  expect(jsonTextOf("FP32", bytesOf([3_291_477.25, -3_291_477.25]))).toBe("[3291477.3,-3291477.2]");
  expect(jsonTextOf("FP32", bytesOf([]))).toBe("[]");
  expect(jsonTextOf("FP32", bytesOf(Array<number>(20_000).fill(0.25)))).toBe(`[${Array(20_000).fill("0.25").join()}]`);
  expect(jsonTextOf("INT64", new Uint8Array(BigInt64Array.of(1n, -5n).buffer))).toBe("[1,-5]");
});
