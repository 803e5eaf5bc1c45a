import { expect, test } from "vitest";
import { PipelineDeclarationError, parsePipeline } from "./declaration.ts";

const OCR = {
  name: "ocr",
  slo: "400ms",
  stages: [
    { name: "detect", model: "ocr-det", before: "./ocr.ts#toDetectorInput" },
    { name: "recognise", model: "ocr-rec", after: ["detect"], before: "./ocr.ts#toLines" },
  ],
  finish: "./ocr.ts#toText",
};

test("a declaration becomes a spec, with its defaults", () => {
  expect(parsePipeline(OCR, "ocr.yaml")).toEqual({
    ...OCR,
    version: "1",
    slo: 400_000,
    split: "planned",
    stages: [{ ...OCR.stages[0], after: [] }, OCR.stages[1]],
  });
});

test("a declaration says what clients send and get", () => {
  const tensors = {
    inputs: [{ name: "image", datatype: "UINT8", shape: [-1] }],
    outputs: [{ name: "boxes", datatype: "FP32", shape: [-1, 4, 2] }],
  };
  expect(parsePipeline({ ...OCR, ...tensors }, "ocr.yaml")).toMatchObject(tensors);
});

const stage = (name: string, after: unknown = []): object => ({ name, model: "m", after, before: "./f.ts#f" });
test.each<[text: string, change: object]>([
  [`a pipeline has no key "stage"`, { stage: [] }],
  ["name is letters, digits", { name: "o.cr" }],
  ["slo is the time for the whole", { slo: 400 }],
  ["slo is the time for the whole", { slo: "700s" }],
  ["split is planned", { split: "odd" }],
  ["stages is a list of 1 to 32", { stages: [] }],
  ["stages is a list of 1 to 32", { stages: Array.from({ length: 33 }, (_, i) => stage(`s${i}`)) }],
  ["finish names a function of a module beside this file", { finish: "../evil.ts#f" }],
  ["finish names a function of a module beside this file", { finish: "./a/../../evil.ts#f" }],
  ["finish names a function of a module beside this file", { finish: "/etc/evil.ts#f" }],
  ["finish names a function of a module beside this file", { finish: "https://evil.example/a.ts#f" }],
  ["finish names a function of a module beside this file", { finish: "./f.ts" }],
  ["inputs is a list of at most 64 tensors", { inputs: { image: "UINT8" } }],
  ["inputs[0].datatype is a type of the protocol", { inputs: [{ name: "x", datatype: "TEXT", shape: [1] }] }],
  ["outputs[0].shape is a list of at most 8 sizes", { outputs: [{ name: "x", datatype: "FP32", shape: [-2] }] }],
  ["outputs[0].name is a text", { outputs: [{ datatype: "FP32", shape: [] }] }],
  ["two stages are called a", { stages: [stage("a"), stage("a", ["a"])] }],
  [`stage b comes after "c", which is no stage`, { stages: [stage("a"), stage("b", ["c"])] }],
  ["after of stage b is a list of stages", { stages: [stage("a"), stage("b", "a")] }],
  ["a and b come after no stage", { stages: [stage("a"), stage("b")] }],
  ["0 stages are fed by no other", { stages: [stage("a", ["b"]), stage("b", ["a"])] }],
  [
    "branches that part have to meet again in one stage, or not at all",
    {
      stages: [
        stage("a"),
        stage("b", ["a"]),
        stage("c", ["a"]),
        stage("d", ["a"]),
        stage("e", ["b", "c"]),
        stage("f", ["c", "d"]),
      ],
    },
  ],
])("%s", (text, change) => {
  expect(() => parsePipeline({ ...OCR, ...change }, "ocr.yaml")).toThrow(text);
});

test("all that is wrong is told at once, with where", () => {
  try {
    parsePipeline({ name: 1, stages: [{}] }, "bad.yaml");
    expect.unreachable();
  } catch (error) {
    expect(error).toBeInstanceOf(PipelineDeclarationError);
    expect((error as PipelineDeclarationError).problems.length).toBeGreaterThanOrEqual(5);
    expect((error as Error).message).toMatch(/^bad\.yaml: /);
  }
});
