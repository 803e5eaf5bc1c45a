import { type DataType, type ModelSpec, type Tensor, TuttiError } from "@tutti/protocol";
import { bytesFromValues } from "@tutti/wire";
import fc from "fast-check";
import { expect, test } from "vitest";
import { twice } from "../testing/gateway-scene.ts";
import { textsOf } from "./bytes-elements.ts";
import { CLASSIFICATION_MAX, classified } from "./classification.ts";

const spec: ModelSpec = { ...twice, number: 1, version: "1" };
const tensor = (type: DataType, dims: number[], values: readonly unknown[]): Tensor => ({
  ...{ name: "y", type, dims, data: bytesFromValues("y", type, dims, values) },
});

test("the greatest elements are those of a naive sort, equal ones by their index", () => {
  const value = fc.oneof(fc.integer({ min: -3, max: 3 }), fc.constantFrom(NaN, Infinity, -Infinity, 0.5));
  fc.assert(
    fc.property(
      fc.integer({ min: 1, max: 3 }),
      fc.integer({ min: 1, max: 12 }),
      fc.integer({ min: 1, max: 14 }),
      fc.array(value, { minLength: 36, maxLength: 36 }),
      (rows, length, classes, all) => {
        const values = all.slice(0, rows * length);
        const answer = classified(spec, tensor("FP32", [rows, length], values), classes);
        const expected = Array.from({ length: rows }, (_, row) =>
          values
            .slice(row * length, (row + 1) * length)
            .map((own, index) => ({ own, index }))
            .sort((a, b) => rank(b.own) - rank(a.own) || a.index - b.index)
            .slice(0, classes)
            .map(({ own, index }) => `${own}:${index}`),
        );
        expect([answer.type, answer.dims]).toEqual(["BYTES", [rows, Math.min(classes, length)]]);
        expect(textsOf(answer.data)).toEqual(expected.flat());
      },
    ),
  );
});
/** Ranks NaN below all numbers, and clamps infinities so that ranks can be subtracted. */
const rank = (value: number): number => (Number.isNaN(value) ? -1e9 : Math.max(-1e6, Math.min(1e6, value)));

test("every type of numbers is taken: floats as short as they are exact, BOOL as 0 and 1, 64 bits without loss", () => {
  const texts = (type: DataType, values: readonly unknown[]): string[] =>
    textsOf(classified(spec, tensor(type, [1, values.length], values), 2).data);
  expect(texts("FP32", [0.1, 0.7, 0.2])).toEqual(["0.7:1", "0.2:2"]);
  expect(texts("FP16", [0.5, NaN, 2])).toEqual(["2:2", "0.5:0"]);
  expect(texts("FP64", [0.1, 1e-9, 0.3])).toEqual(["0.3:2", "0.1:0"]);
  expect(texts("BOOL", [false, true, true])).toEqual(["1:1", "1:2"]);
  expect(texts("INT8", [-5, 5, 0])).toEqual(["5:1", "0:2"]);
  expect(texts("UINT64", ["18446744073709551614", "18446744073709551615", 7])).toEqual([
    "18446744073709551615:1",
    "18446744073709551614:0",
  ]);
  expect(texts("INT64", ["-9007199254740993", "-9007199254740994", "-9223372036854775808"])).toEqual([
    "-9007199254740993:0",
    "-9007199254740994:1",
  ]);
});

test("labels follow the index where the presentation has them, and a model without a batch axis has one row", () => {
  const output = { kind: "classes", tensor: "y", labels: ["cat", "dog"] };
  const y = tensor("FP32", [1, 3], [0.25, 0.5, 0.75]);
  const named = classified({ ...spec, presentation: { output } }, y, 3);
  expect(textsOf(named.data)).toEqual(["0.75:2", "0.5:1:dog", "0.25:0:cat"]);
  const other = classified({ ...spec, presentation: { output: { ...output, tensor: "n" } } }, y, 1);
  expect(textsOf(other.data)).toEqual(["0.75:2"]);
  const flat = { ...spec, outputs: [{ name: "y", type: "FP32", dims: [2, 3] }] } as const;
  const six = tensor("FP32", [2, 3], [1, 2, 3, 4, 5, 6]);
  expect([classified(flat, six, 2).dims, textsOf(classified(flat, six, 2).data)]).toEqual([[2], ["6:5", "5:4"]]);
  expect(classified(undefined, six, 9).dims).toEqual([6]);
  expect(classified(spec, tensor("FP32", [0, 3], []), 2).dims).toEqual([0, 0]);
});

test("more elements of a row than are named are refused, and a row of fewer is named whole", () => {
  const long = tensor("UINT8", [1, CLASSIFICATION_MAX + 1], new Array(CLASSIFICATION_MAX + 1).fill(1));
  expect(classified(spec, long, CLASSIFICATION_MAX).dims).toEqual([1, CLASSIFICATION_MAX]);
  expect(() => classified(spec, long, CLASSIFICATION_MAX + 1)).toThrow(TuttiError);
  expect(() => classified(spec, long, CLASSIFICATION_MAX + 1)).toThrow("CLASSIFICATION_MAX");
  expect(classified(spec, tensor("UINT8", [1, 2], [1, 2]), 1_000_000).dims).toEqual([1, 2]);
});
