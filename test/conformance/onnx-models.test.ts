/** The demo models, from a user's file to a readable answer; and every element type, to the engine and back. */
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import type { Engine, EngineBatch, EngineModel, LoadOutcome, RunOutcome } from "@tutti/ports/engine";
import { randomBatch, startOnnxEngine } from "@tutti/engine-onnx";
import {
  type AudioInput,
  DEMO_MODELS,
  type ImageInput,
  OCR_KEYS,
  audioFrames,
  completeSpec,
  decodeCtc,
  demoModel,
  demoModelPath,
  describeModel,
  draftModel,
  floatsOf,
  imageTensor,
  initialState,
  onnxGraph,
  parseKeys,
  parseWav,
  presentationOf,
  resizedTo,
  resolveAsset,
} from "@tutti/onnx-tools";
import { DATA_TYPES, type DataType, type Tensor, bytesOf } from "@tutti/protocol";
import sharp from "sharp";
import { afterAll, beforeAll, expect, test } from "vitest";

const cacheDir = mkdtempSync(join(tmpdir(), "tutti-models-"));
let engine: Engine;
beforeAll(async () => {
  engine = await startOnnxEngine();
});
afterAll(async () => {
  await new Promise<void>((done) => engine.stop(done));
  rmSync(cacheDir, { recursive: true });
});

const load = (model: EngineModel): Promise<LoadOutcome> => new Promise((done) => engine.load(model, done));
const run = async (batch: EngineBatch): Promise<readonly Tensor[]> => {
  const outcome = await new Promise<RunOutcome>((done) => engine.run(batch, done));
  expect(outcome.kind === "failed" ? outcome.reason : outcome.failedRows).toEqual([]);
  return (outcome as Extract<RunOutcome, { kind: "ran" }>).outputs;
};
async function loadDemo(name: string): Promise<EngineModel> {
  const model = demoModel(name);
  const bytes = readFileSync(demoModelPath(model, { cacheDir }));
  const draft = draftModel(model.config, describeModel(bytes));
  const made = { spec: completeSpec(draft, { number: 1, object: name }), bytes };
  expect(await load(made)).toMatchObject({ kind: "loaded" });
  return made;
}
const fixture = (name: string): string =>
  fileURLToPath(new URL(`../../packages/onnx-tools/fixtures/${name}`, import.meta.url));
const expected = JSON.parse(readFileSync(fixture("expected.json"), "utf8")) as {
  text: Record<string, { text: string; confidence: number }>;
  speech: Record<string, number[]>;
  firstFrame: Record<string, { frame: number; probability: number }>;
};

for (const { config } of DEMO_MODELS) {
  test(`${config.name} runs in every bucket, alone and in its largest batch, with outputs of the declared shapes`, async () => {
    const { spec } = await loadDemo(config.name);
    for (const [bucket, sizes] of spec.buckets.entries()) {
      for (const batchSize of new Set([1, spec.batchSizeMax])) {
        const outputs = await run(randomBatch(spec, { bucket, batchSize, seed: 1 }));
        for (const [i, { dims }] of spec.outputs.entries()) {
          const known = dims.map((dim) => (dim === "batch" ? batchSize : typeof dim === "number" ? dim : sizes[dim]));
          const found = outputs[i]?.dims.map((dim, axis) => (known[axis] === undefined ? undefined : dim));
          expect([bucket, batchSize, found]).toEqual([bucket, batchSize, known]);
        }
      }
    }
  });
}

test("a picture of a line of text is read word for word", async () => {
  const { spec } = await loadDemo("ocr-rec");
  const input = presentationOf(spec.presentation).input as ImageInput;
  const keys = parseKeys(readFileSync(resolveAsset(OCR_KEYS), "utf8"));
  for (const [name, { text, confidence }] of Object.entries(expected.text)) {
    const { width = 0, height = 0 } = await sharp(fixture(name)).metadata();
    const size = resizedTo(input, { width, height });
    const rgb = await sharp(fixture(name))
      .resize({ ...size, fit: "fill" })
      .removeAlpha()
      .raw()
      .toBuffer();
    const tensor = imageTensor({ rgb, ...size }, input);
    const bucket = spec.buckets.findIndex(({ W = 0 }) => W >= size.width);
    const padded = padWidth(tensor, spec.buckets[bucket]?.["W"] as number);
    const [output] = await run({ model: "ocr-rec", bucket, batchSize: 1, inputs: [padded] });
    const read = decodeCtc(output as Tensor, keys);
    expect([name, read.text]).toEqual([name, text]);
    expect(read.confidence).toBeGreaterThan(confidence);
  }
});

test("a voice is told from silence, frame by frame, as onnxruntime alone tells it", async () => {
  const { spec } = await loadDemo("silero-vad");
  const input = presentationOf(spec.presentation).input as AudioInput;
  for (const [name, probabilities] of Object.entries(expected.speech)) {
    let state = initialState(input);
    const heard: number[] = [];
    for (const frame of audioFrames(parseWav(readFileSync(fixture(name))), input)) {
      const [output, next] = await run({ model: "silero-vad", bucket: 0, batchSize: 1, inputs: [frame, state] });
      heard.push(floatsOf(output as Tensor)[0] as number);
      state = { ...(next as Tensor), name: input.state.input };
    }
    expect(heard.length).toBe(probabilities.length);
    for (const [i, probability] of heard.entries()) expect(probability).toBeCloseTo(probabilities[i] as number, 2);
  }
});

test("a single frame with a zero state is answered as the fixtures say, whoever shares its batch (T2)", async () => {
  const { spec } = await loadDemo("silero-vad");
  const input = presentationOf(spec.presentation).input as AudioInput;
  const rows = Object.entries(expected.firstFrame).map(([name, { frame, probability }]) => {
    const frames = audioFrames(parseWav(readFileSync(fixture(name))), input);
    return { frame: frames[frame] as Tensor, probability };
  });
  const data = new Uint8Array(Buffer.concat(rows.map(({ frame }) => frame.data)));
  const frames: Tensor = { name: "input", type: "FP32", dims: [rows.length, 576], data };
  const state: Tensor = {
    name: "state",
    type: "FP32",
    dims: [2, rows.length, 128],
    data: new Uint8Array(rows.length * 1024),
  };
  const [output] = await run({ model: "silero-vad", bucket: 0, batchSize: rows.length, inputs: [frames, state] });
  for (const [i, { probability }] of rows.entries()) {
    expect(floatsOf(output as Tensor)[i]).toBeCloseTo(probability, 2);
  }
});

test("tensors of every element type go through onnxruntime and come back byte for byte", async () => {
  const { DataType: OnnxType, modelBytes, node, value } = onnxGraph;
  const names: Record<DataType, keyof typeof OnnxType> = {
    BOOL: "BOOL",
    UINT8: "UINT8",
    UINT16: "UINT16",
    UINT32: "UINT32",
    UINT64: "UINT64",
    INT8: "INT8",
    INT16: "INT16",
    INT32: "INT32",
    INT64: "INT64",
    FP16: "FLOAT16",
    FP32: "FLOAT",
    FP64: "DOUBLE",
  };
  for (const type of Object.keys(DATA_TYPES) as DataType[]) {
    const onnxType = OnnxType[names[type]];
    const bytes = modelBytes({
      name: type,
      inputs: [value("x", onnxType, ["batch", 3])],
      outputs: [value("y", onnxType, ["batch", 3])],
      nodes: [node("Identity", ["x"], ["y"])],
    });
    const draft = draftModel({ name: type, slo: "50ms" }, describeModel(bytes));
    const spec = completeSpec(draft, { number: 1, object: type });
    expect(await load({ spec, bytes })).toMatchObject({ kind: "loaded" });
    const pattern = (): Uint8Array =>
      Uint8Array.from({ length: 6 * bytesOf(type) }, (_, i) => (type === "BOOL" ? i % 2 : i + 1));
    const [y] = await run({
      model: type,
      bucket: 0,
      batchSize: 2,
      inputs: [{ name: "x", type, dims: [2, 3], data: pattern() }],
    });
    expect([type, y]).toEqual([type, { name: "y", type, dims: [2, 3], data: pattern() }]);
  }
});

/** Pads a bucketed axis with zeros to the right, as the ingress does. */
function padWidth(tensor: Tensor, width: number): Tensor {
  const [, channels = 0, height = 0, from = 0] = tensor.dims;
  const values = new Float32Array(channels * height * width);
  const source = floatsOf(tensor);
  for (let row = 0; row < channels * height; row++)
    values.set(source.subarray(row * from, (row + 1) * from), row * width);
  return { ...tensor, dims: [1, channels, height, width], data: new Uint8Array(values.buffer) };
}
