import type { DesiredModel } from "@tutti/client/registries";
import { type ModelConfig, describeModel, draftModel, generateMlp, splitFamily } from "@tutti/onnx-tools";
import { type ModelSpec, isModelSpec } from "@tutti/protocol";
import { expect, test } from "vitest";
import { type FamilyMember, familyFile, familySpec, likelyFamilies, mismatchOf } from "./index.ts";

const member = (name: string, config: ModelConfig = {}, bytes = head(3)): FamilyMember => {
  const { sha256: _, bytes: __, ...model } = draftModel({ slo: "50ms", ...config, name }, describeModel(bytes));
  return { model, bytes };
};
const head = (classes: number): Uint8Array => generateMlp({ seed: 7, widths: [8, 16, classes] });
const other = (name: string, more: Partial<DesiredModel>): FamilyMember => {
  const { model, bytes } = member(name);
  return { model: { ...model, ...more }, bytes };
};

test("models that ask otherwise of requests, or of those that serve them, can't share batches, and it is said in what they differ", () => {
  const a = member("a");
  expect(mismatchOf([a, member("b")])).toBeUndefined();
  expect(mismatchOf([a])).toBe("one model alone shares nothing");
  expect(mismatchOf([a, member("a")])).toBe("a is there twice");
  expect(mismatchOf([a, member("b", { shares: { shop: 2 } })])).toBe("a and b differ in their shares");
  expect(mismatchOf([a, member("b", {}, generateMlp({ widths: [9, 3] }))])).toBe("a and b differ in their inputs");
  expect(mismatchOf([a, other("b", { name: "b/2" })])).toBe(
    "b/2 is one version of a model, which a family can't stand for",
  );
  expect(mismatchOf([a, other("b", { profile: [[]] })])).toBe(
    "the latencies of b are given, those of a family are measured",
  );
  expect(mismatchOf([other("a", { engine: "emulated" }), member("b")])).toBe("a is no ONNX model");
});

test("a family is a model that every reader takes: the least SLO, batch and patience, its members' outputs, and one file", () => {
  const members = [
    member("a", { slo: "50ms", max_batch_size: 16 }),
    member("b", { slo: "30ms", patience: 0.5 }, head(5)),
  ];
  const split = splitFamily(members.map(({ bytes }) => bytes));
  if (typeof split === "string") throw new Error(split);
  const file = familyFile(split);
  const axes = new Map(split.prefix.cut.map((name) => [name, 0]));
  const model = familySpec({ name: "ab", members, split, file, axes, sha256: () => "hash" });
  expect(model).toMatchObject({ slo: 30_000, batchSizeMax: 16, patience: 0.5, outputs: [] });
  expect(model.family!.variants.map(({ name, slo, outputs }) => [name, slo, outputs[0]!.dims])).toEqual([
    ["a", 50_000, ["batch", 3]],
    ["b", 30_000, ["batch", 5]],
  ]);
  const stored: ModelSpec = {
    ...model,
    number: 1,
    version: "1",
    file: { object: "o", sha256: "s", bytes: file.bytes.byteLength },
  };
  expect(isModelSpec(JSON.parse(JSON.stringify(stored)))).toBe(true);
  const { prefix } = model.family!;
  expect(Buffer.compare(file.bytes.subarray(prefix!.offset, prefix!.offset + prefix!.bytes), split.prefix.bytes)).toBe(
    0,
  );
});

test("a family leaves its executors when all its members may, after the longest of their times", () => {
  const scales = [
    { idle: "10m", cold_start: "10s" },
    { idle: "5m", cold_start: "20s" },
  ];
  const familyOf = (members: readonly FamilyMember[]): DesiredModel => {
    const split = splitFamily(members.map(({ bytes }) => bytes));
    if (typeof split === "string") throw new Error(split);
    const axes = new Map(split.prefix.cut.map((name) => [name, 0]));
    return familySpec({ name: "ab", members, split, file: familyFile(split), axes, sha256: () => "hash" });
  };
  const [a, b] = scales.map((scale_to_zero, i) => member("ab"[i]!, { scale_to_zero }, head(3 + i)));
  expect(familyOf([a!, b!]).scaleToZero).toEqual({ idle: 600e6, coldStart: 20e6 });
  expect(familyOf([a!, member("b", {}, head(4))]).scaleToZero).toBeUndefined();
});

test("likely families are those of models that take the same and begin alike", () => {
  const strange = member("s", {}, generateMlp({ seed: 9, widths: [8, 16, 3] }));
  const groups = likelyFamilies([
    member("a"),
    strange,
    member("b", {}, head(5)),
    member("wide", {}, generateMlp({ widths: [9, 3] })),
  ]);
  expect(groups.map((group) => group.map(({ model }) => model.name))).toEqual([["a", "b"]]);
});
