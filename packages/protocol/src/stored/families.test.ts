import type { Micros } from "@tutti/units";
import { expect, test } from "vitest";
import {
  type FamilySpec,
  type ModelSpec,
  isModelSpec,
  rowLayout,
  variantInput,
  variantView,
  writeVariant,
} from "../index.ts";

const slo = 50_000 as Micros;
const part = (offset: number, bytes: number) => ({ offset, bytes, nodes: 1, inputs: ["x"] });
const FAMILY: FamilySpec = {
  prefix: { ...part(0, 60), cut: [{ name: "h", batchAxis: 0 }] },
  variants: ["a", "b"].map((name, i) => ({
    ...{ name, version: "1", slo, outputs: [{ name: `y${i}`, type: "FP32" as const, dims: ["batch", 3] }] },
    suffix: { ...part(60 + 20 * i, 20), inputs: [], feeds: [{ from: "h", to: "h" }] },
  })),
};
const specWith = (family: unknown = FAMILY, more: object = {}): unknown => ({
  ...{ name: "ab", number: 1, version: "1", engine: "onnx", slo, batchSizeMax: 8, patience: 1 },
  file: { object: "o", sha256: "s", bytes: 100 },
  inputs: [{ name: "x", type: "FP32", dims: ["batch", 3] }, variantInput()],
  ...{ outputs: [], constants: [], axes: {}, buckets: [{}], family },
  ...more,
});

test("a family is a model whose last input says whose a row is", () => {
  expect(isModelSpec(specWith())).toBe(true);
  expect(isModelSpec(specWith(FAMILY, { family: undefined }))).toBe(false);
  expect(isModelSpec(specWith(FAMILY, { inputs: [{ name: "x", type: "FP32", dims: ["batch", 3] }] }))).toBe(false);
  expect(isModelSpec(specWith(FAMILY, { inputs: [variantInput(), ...(specWith() as ModelSpec).inputs] }))).toBe(false);
  expect(isModelSpec(specWith(FAMILY, { variant: { family: "ab", index: 0 } }))).toBe(false);
});

test("a family with anything out of place is none (T8)", () => {
  const [a, b] = FAMILY.variants as [FamilySpec["variants"][0], FamilySpec["variants"][0]];
  const bad: unknown[] = [
    "no family",
    { variants: FAMILY.variants },
    { ...FAMILY, variants: [] },
    { ...FAMILY, variants: [a, a] },
    { ...FAMILY, variants: [a, { ...b, name: "b.c" }] },
    { ...FAMILY, variants: [a, { ...b, slo: 0 }] },
    { ...FAMILY, variants: [a, { ...b, outputs: [{ name: "y" }] }] },
    { ...FAMILY, variants: [a, { ...b, suffix: undefined }] },
    { ...FAMILY, variants: [a, { ...b, suffix: { ...b.suffix, offset: 90, bytes: 20 } }] },
    { ...FAMILY, variants: [a, { ...b, suffix: { ...b.suffix, feeds: [{ from: "h" }] } }] },
    { ...FAMILY, prefix: { ...FAMILY.prefix, cut: [{ name: "h", batchAxis: -1 }] } },
    { variants: [a], pace: { prefix: { alphaMs: 1 }, suffix: { alphaMs: 1, betaMs: 1 } } },
    { ...FAMILY, pace: { prefix: { alphaMs: 1 }, suffix: { alphaMs: 1, betaMs: 1 } } },
    { ...FAMILY, variants: [a, { ...b, whole: { bytes: 1 } }] },
    { ...FAMILY, variants: Array.from({ length: 257 }, (_, i) => ({ ...a, name: `a${i}` })) },
  ];
  for (const family of bad) expect(isModelSpec(specWith(family)), JSON.stringify(family)?.slice(0, 200)).toBe(false);
});

test("a variant's view takes what its publisher sends, answers its own outputs, and has the family's thread and rows", () => {
  const spec = specWith() as ModelSpec;
  const view = variantView(spec, 1);
  expect(view).toMatchObject({ name: "b", number: 1, outputs: [{ name: "y1" }], variant: { family: "ab", index: 1 } });
  expect(view.inputs.map(({ name }) => name)).toEqual(["x"]);
  expect(view.family).toBeUndefined();
  expect(variantView(spec, 1)).toBe(view);
  expect(rowLayout(view, 0).byteLength).toBe(rowLayout(spec, 0).byteLength);
});

test("the index stands where the family's layout has its input", () => {
  const spec = specWith() as ModelSpec;
  const { byteLength, inputs } = rowLayout(spec, 0);
  const row = new Uint8Array(byteLength);
  writeVariant(row, 0x0102);
  expect([...row.subarray(inputs[1]!.offset, inputs[1]!.offset + 2)]).toEqual([2, 1]);
});
