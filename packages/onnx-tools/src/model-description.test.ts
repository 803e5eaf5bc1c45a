import { readFileSync } from "node:fs";
import { create } from "@bufbuild/protobuf";
import { TypeProtoSchema, TypeProto_SequenceSchema, type ValueInfoProto, ValueInfoProtoSchema } from "onnx-buf";
import { expect, test } from "vitest";
import { DataType, floats, modelBytes, node, value } from "./graph-builder.ts";
import {
  type ModelFileError,
  damaged,
  demoModel,
  demoModelPath,
  describeModel,
  generateAddOne,
  generateMlp,
} from "./index.ts";

const fileOf = (name: string): Uint8Array => readFileSync(demoModelPath(demoModel(name), { cacheDir: "unused" }));
const faultOf = (bytes: Uint8Array): { fault: string; text: string } => {
  try {
    describeModel(bytes);
  } catch (error) {
    const { fault, message, code } = error as ModelFileError;
    expect(code).toBe("TUTTI_INVALID_INPUT");
    return { fault, text: message };
  }
  return { fault: "none", text: "" };
};

test("a real file is described without onnxruntime: axes keep the file's names, scalars have no axes", () => {
  const { inputs, outputs, opsets, sha256, bytes, producer } = describeModel(fileOf("silero-vad"));
  expect(inputs).toEqual([
    { name: "input", type: "FP32", dims: ["batch", "sequence"] },
    { name: "state", type: "FP32", dims: [2, "batch", 128] },
    { name: "sr", type: "INT64", dims: [] },
  ]);
  expect(outputs.map(({ name }) => name)).toEqual(["output", "stateN"]);
  expect({ opsets, bytes, producer }).toEqual({
    opsets: [{ domain: "", version: 15 }],
    bytes: 1_289_603,
    producer: "pytorch",
  });
  expect(sha256).toBe(demoModel("silero-vad").sha256);
});

test("an initializer that is listed among the inputs is no input", () => {
  const bytes = modelBytes({
    name: "old",
    inputs: [value("x", DataType.FLOAT, ["batch", 2]), value("w", DataType.FLOAT, [2])],
    outputs: [value("y", DataType.FLOAT, ["batch", 2])],
    nodes: [node("Add", ["x", "w"], ["y"])],
    initializers: [floats("w", [2], Float32Array.of(1, 2))],
  });
  expect(describeModel(bytes).inputs.map(({ name }) => name)).toEqual(["x"]);
});

test("bytes that are no model are refused with what they are and what to do", () => {
  const text = (content: string): Uint8Array => new TextEncoder().encode(content);
  expect(faultOf(damaged(generateAddOne(), "empty"))).toEqual({
    fault: "empty",
    text: "the model file is empty: copy or download it again",
  });
  expect(faultOf(damaged(generateAddOne(), "text"))).toMatchObject({
    fault: "not-onnx",
    text: expect.stringContaining("download"),
  });
  expect(faultOf(text("version https://git-lfs.github.com/spec/v1\n"))).toMatchObject({
    text: expect.stringContaining("git lfs pull"),
  });
  expect(faultOf(text("hello"))).toMatchObject({ fault: "not-onnx", text: expect.stringContaining(".onnx") });
  expect(faultOf(Uint8Array.of(0x50, 0x4b, 3, 4, 0, 0))).toMatchObject({ text: expect.stringContaining("zip") });
});

test("a model is never mistaken for whole when it breaks off, wherever that is", () => {
  const whole = generateMlp({ widths: [3, 4, 2] });
  for (let length = 1; length < whole.length; length++) {
    expect([length, faultOf(whole.subarray(0, length)).fault]).toEqual([
      length,
      expect.stringMatching(/^(damaged|not-onnx)$/),
    ]);
  }
  expect(faultOf(whole).fault).toBe("none");
});

test("any bytes at all give a description or a typed refusal, never another error", () => {
  const whole = generateMlp({ widths: [3, 4, 2] });
  for (let at = 0; at < whole.length; at++) {
    const broken = whole.slice();
    broken[at] = (broken[at] as number) ^ 0xff;
    expect(faultOf(broken).fault).toMatch(/^(none|damaged|not-onnx|unsupported)$/);
  }
});

test("a value that is no tensor of a served type is refused by name", () => {
  const strings = modelBytes({
    name: "strings",
    inputs: [value("words", DataType.STRING, ["batch"])],
    outputs: [value("y", DataType.STRING, ["batch"])],
    nodes: [node("Identity", ["words"], ["y"])],
  });
  expect(faultOf(strings)).toMatchObject({
    fault: "unsupported",
    text: expect.stringMatching(/input 'words' has elements of type STRING; served are .*: encode strings before/),
  });
});

test("outputs that classifiers get by default are refused with how to export others", () => {
  const x = value("x", DataType.FLOAT, ["batch", 4]);
  const [label, half] = [value("label", DataType.STRING, ["batch"]), value("y", DataType.BFLOAT16, ["batch", 4])];
  const maps = create(ValueInfoProtoSchema, {
    name: "probabilities",
    type: create(TypeProtoSchema, { value: { case: "sequenceType", value: create(TypeProto_SequenceSchema) } }),
  });
  const textOf = (output: ValueInfoProto): string =>
    faultOf(modelBytes({ name: "m", inputs: [x], outputs: [output], nodes: [node("Identity", ["x"], [output.name])] }))
      .text;
  expect(textOf(label)).toMatch(/output 'label' has elements of type STRING; .*: train on numbered labels/);
  expect(textOf(half)).toMatch(/of type BFLOAT16; .*: cast it to FP32 or FP16/);
  expect(textOf(maps)).toBe(
    "output 'probabilities' is no tensor (a sequence): export the model with tensors only; skl2onnx and onnxmltools do that with `zipmap: False`",
  );
});
