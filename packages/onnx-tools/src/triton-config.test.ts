/** Triton's keys of a configuration. */
import { expect, test } from "vitest";
import { describeModel, draftModel, generateAddOne, parseModelConfig, passedOverKeys } from "./index.ts";

const parse = (config: object): unknown => parseModelConfig(config, "config");
const refusal = (config: object): string => {
  try {
    return JSON.stringify(parse(config));
  } catch (error) {
    return (error as Error).message;
  }
};

test("a configuration of Triton's serves the model, and what means nothing here is listed", () => {
  const triton = {
    ...{ name: "add", platform: "onnxruntime_onnx", backend: "onnxruntime", max_batch_size: 16 },
    input: [{ name: "x", data_type: "TYPE_FP32", dims: [-1] }],
    output: [{ name: "y", data_type: "TYPE_FP32", dims: [4] }],
    dynamic_batching: { preferred_batch_size: [8], max_queue_delay_microseconds: 500 },
    instance_group: [{ count: 2, kind: "KIND_GPU" }],
    parameters: { slo: { string_value: "30ms" }, intra_op_thread_count: { string_value: "2" } },
  };
  expect(parse(triton)).toEqual({ name: "add", max_batch_size: 16, slo: "30ms" });
  expect(draftModel(parseModelConfig(triton, "config"), describeModel(generateAddOne()))).toMatchObject({
    ...{ name: "add", slo: 30_000, batchSizeMax: 16 },
  });
  expect(passedOverKeys(triton)).toEqual([
    ...["input", "output", "dynamic_batching", "instance_group", "parameters.intra_op_thread_count"],
  ]);
});

test("keys of Tutti's own come before what Triton's mean, and are not listed", () => {
  const input = [{ name: "x", dims: ["batch", 4] }];
  const mixed = {
    slo: "10ms",
    input,
    max_batch_size: 4,
    parameters: { slo_us: "9", batch_size_max: "8", patience: "0" },
  };
  expect(parse(mixed)).toEqual({ slo: "10ms", input, max_batch_size: 4, patience: 0 });
  expect([passedOverKeys(mixed), passedOverKeys({ slo: "10ms" })]).toEqual([[], []]);
  expect(parse({ max_batch_size: 0 })).toEqual({ max_batch_size: 1 });
});

test("what can't be served is refused, naming the key", () => {
  expect(refusal({ backend: "tensorrt" })).toContain("config: backend: 'tensorrt' can't be served");
  expect(refusal({ platform: "ensemble" })).toContain("config: platform: 'ensemble'");
  expect(refusal({ ensemble_scheduling: {} })).toContain("config: ensemble_scheduling: models of models");
  expect(refusal({ parameters: [] })).toContain("config: parameters: a mapping");
  expect(refusal({ parameters: { slo: { string_value: 3 } } })).toContain("config: parameters: slo: {string_value");
  expect(refusal({ parameters: { preprocess: "{" } })).toContain("config: parameters: preprocess: '{' can't be read");
  expect(refusal({ parameters: { patience: "much" } })).toContain("config: parameters: patience: 'much'");
  expect(refusal({ dynamic_batchin: {} })).toContain("unknown key 'dynamic_batchin'");
});
