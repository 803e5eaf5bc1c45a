import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import {
  DEMO_MODELS,
  type ModelConfig,
  completeSpec,
  demoModel,
  demoModelPath,
  describeModel,
  draftModel,
  generateAddOne,
  generateLoop,
  parseModelConfig,
} from "./index.ts";
import { DataType, modelBytes, node, value } from "./graph-builder.ts";

const cacheDir = mkdtempSync(join(tmpdir(), "tutti-models-"));
afterAll(() => rmSync(cacheDir, { recursive: true }));
const draftOf = (name: string): ReturnType<typeof draftModel> => {
  const model = demoModel(name);
  return draftModel(model.config, describeModel(readFileSync(demoModelPath(model, { cacheDir }))));
};

test("every demo model becomes a spec", () => {
  const table = DEMO_MODELS.map(({ config }) => {
    const draft = draftOf(config.name);
    return `${draft.name} ${draft.inputs.map(({ dims }) => `[${dims}]`).join(" ")} ×${draft.buckets.length} ≤${draft.batchSizeMax}`;
  });
  expect(table).toEqual([
    "ocr-rec [batch,3,48,W] ×3 ≤4",
    "ocr-cls [batch,3,48,192] ×1 ≤8",
    "ocr-det [batch,3,H,W] ×4 ≤2",
    "silero-vad [batch,576] [2,batch,128] ×1 ≤32",
    "mlp [batch,256] ×1 ≤32",
    "ctr [batch,16] ×1 ≤32",
    "cnn [batch,3,32,32] ×1 ≤8",
  ]);
});

test("a constant is taken from the inputs, and a state's batch axis may come second", () => {
  const draft = draftOf("silero-vad");
  expect(draft.constants).toEqual([{ name: "sr", type: "INT64", dims: [], values: [16_000] }]);
  expect(draft.outputs.map(({ dims }) => dims)).toEqual([
    ["batch", 1],
    [2, "batch", 128],
  ]);
  const spec = completeSpec(draft, { number: 7, object: "silero" });
  expect(spec).toMatchObject({
    number: 7,
    file: { object: "silero", sha256: demoModel("silero-vad").sha256, bytes: 1_289_603 },
  });
});

test("a cached model that was damaged is made again", () => {
  const model = demoModel("cnn");
  const path = demoModelPath(model, { cacheDir });
  const whole = readFileSync(path);
  writeFileSync(path, whole.subarray(0, 1000));
  expect(readFileSync(demoModelPath(model, { cacheDir })).equals(whole)).toBe(true);
});

const addOne = describeModel(generateAddOne());
const refusal = (config: ModelConfig, description = addOne): string => {
  try {
    draftModel({ name: "m", slo: "30ms", ...config }, description);
  } catch (error) {
    expect(error).toMatchObject({ code: "TUTTI_INVALID_INPUT" });
    return (error as Error).message;
  }
  return "accepted";
};

test("a config that can't be served is refused by the key to change", () => {
  expect(refusal({})).toBe("accepted");
  expect(refusal({ name: "a.b" })).toContain("'a.b' is no name");
  expect(refusal({ slo: "0ms" })).toContain("slo: '0ms'");
  expect(refusal({ slo: "1000s" })).toContain("up to 10 min (SLO_US_MAX)");
  expect(refusal({ slo: "soon" })).toContain("slo: 'soon'");
  expect(refusal({ max_batch_size: 0 })).toContain("max_batch_size: 1 to 1024");
  expect(refusal({ patience: 2 })).toContain("patience: 0 (eager) to 1");
  expect(refusal({ run_deadline: "1ms" })).toContain("run_deadline: '1ms' is no duration from 10 ms");
  expect(refusal({ independent_rows: true })).toBe("accepted");
  expect(refusal({ scale_to_zero: { idle: "10m", cold_start: "30s" } })).toBe("accepted");
  expect(refusal({ scale_to_zero: { idle: "1s", cold_start: "30s" } })).toContain("idle: '1s' is no duration from 5 s");
  expect(refusal({ scale_to_zero: { idle: "10m", cold_start: 0 } })).toContain("cold_start: '0' is no duration above");
  expect(refusal({ memory: "much" })).toContain("memory: 'much' is no size, such as 512MB");
  expect(refusal({ axes: { W: { sizes: [1] } } })).toContain("no input has an axis 'W'");
  expect(refusal({ constants: { x: [1, 2, 3] } })).toContain("3 values don't fill its shape [batch, 4]");
  expect(refusal({ constants: { x: [1, 2, 3, 4] } })).toContain("no input is left");
  expect(refusal({ input: [{ name: "z", dims: [1] }] })).toContain("has no input 'z'; it has x");
  expect(refusal({ input: [{ name: "x", dims: ["batch", 5] }] })).toContain("don't agree with the file's [batch, 4]");
  expect(refusal({ output: [{ name: "y", dims: ["T", "batch", 9] }] })).toBe("accepted");
});

test("a variable axis must be given sizes, and their combinations are bounded", () => {
  const image = describeModel(
    modelBytes({
      name: "image",
      inputs: [value("x", DataType.FLOAT, ["n", 3, "H", "W"])],
      outputs: [value("y", DataType.FLOAT, ["n", 3, "H", "W"])],
      nodes: [node("Relu", ["x"], ["y"])],
    }),
  );
  expect(refusal({ axes: { H: { sizes: [32] } } }, image)).toContain(
    "axis 'W' of input 'x' is variable: say in config.yaml how it is served, as axes: {W: {sizes: [128]}} (that length alone)",
  );
  expect(refusal({ axes: { H: { sizes: [32, 0] }, W: { sizes: [32] } } }, image)).toContain("whole numbers above zero");
  const many = { sizes: Array.from({ length: 9 }, (_, i) => 32 * (i + 1)) };
  expect(refusal({ axes: { H: many, W: many } }, image)).toContain("81 combinations of sizes, at most 64");
  const draft = draftModel({ name: "m", slo: 30, axes: { H: { sizes: [64, 32] }, W: { sizes: [32] } } }, image);
  expect(draft.inputs[0]?.dims).toEqual(["batch", 3, "H", "W"]);
  expect(draft.buckets).toEqual([
    { H: 32, W: 32 },
    { H: 64, W: 32 },
  ]);
});

test("a model without a variable batch axis serves one item a run, and says so when asked for more", () => {
  const fixed = describeModel(
    modelBytes({
      name: "fixed",
      inputs: [value("x", DataType.FLOAT, [1, 4])],
      outputs: [value("y", DataType.FLOAT, [1, 4])],
      nodes: [node("Relu", ["x"], ["y"])],
    }),
  );
  expect(draftModel({ name: "m", slo: 30 }, fixed)).toMatchObject({
    batchSizeMax: 1,
    inputs: [{ dims: ["batch", 4] }],
  });
  expect(refusal({ max_batch_size: 8 }, fixed)).toContain("export the model with a dynamic batch axis");
  // Unless it is a constant, a scalar can't be batched.
  expect(refusal({ max_batch_size: 8 }, describeModel(generateLoop()))).toContain("'trips' has no variable batch axis");
});

test("what a config file holds is checked before it is believed", () => {
  const parse = (config: unknown): unknown => {
    try {
      return parseModelConfig(config, "m/config.yaml");
    } catch (error) {
      return (error as Error).message;
    }
  };
  const good = { name: "m", slo: "30ms", axes: { W: { mode: "pad", sizes: [80] } }, constants: { sr: 16_000 } };
  expect(parse(good)).toBe(good);
  expect(parse(null)).toBe("m/config.yaml: a mapping of keys is expected");
  expect(parse({ max_batchsize: 3 })).toContain("unknown key 'max_batchsize'");
  expect(parse({ slo: [1] })).toContain("slo: 25ms");
  const zero = "scale_to_zero: {idle: 10m, cold_start: 30s}";
  for (const scale_to_zero of [true, { idle: "10m" }, { idle: "10m", coldstart: "30s" }, { idle: [], cold_start: 1 }])
    expect(parse({ scale_to_zero })).toContain(zero);
  expect(parse({ version: 1 })).toContain("put quotes");
  expect(parse({ patience: "1" })).toContain("patience: a number");
  expect(parse({ input: [{ name: "x", dims: [-1] }] })).toContain("input: a list of {name, dims}");
  expect(parse({ axes: { W: [80, 160] } })).toContain("axes.W:");
  expect(parse({ axes: null })).toContain("axes: a mapping");
  expect(parse({ constants: { sr: "16000" } })).toContain("constants.sr");
});

test("weights of applications come into the spec, and bad ones are refused with their key", () => {
  const description = describeModel(readFileSync(demoModelPath(demoModel("mlp"), { cacheDir })));
  const shares = { camera: 3, "*": 1 };
  const draft = draftModel({ ...demoModel("mlp").config, shares, priority_floor: 0.2 }, description);
  expect(draft).toMatchObject({ shares, priorityFloor: 0.2 });
  expect(draftModel(demoModel("mlp").config, description)).not.toHaveProperty("shares");
  const drafting = (config: ModelConfig) => (): unknown =>
    draftModel({ ...demoModel("mlp").config, ...config }, description);
  expect(drafting({ shares: { camera: 0 } })).toThrow(/shares: the weight of 'camera'/);
  expect(drafting({ priority_floor: 2 })).toThrow(/priority_floor: 0 to 1/);
});
