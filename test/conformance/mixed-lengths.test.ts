/**
 * Rows of different lengths in one batch. Each gets the same result as in isolation, on real models and on generated
 * ones.
 */
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { rowBuffer, rowOfOutput } from "@tutti/executor";
import type { Engine, EngineModel, LoadOutcome, RunOutcome } from "@tutti/ports/engine";
import { startOnnxEngine } from "@tutti/engine-onnx";
import {
  type ImageInput,
  type ModelConfig,
  OCR_KEYS,
  completeSpec,
  decodeCtc,
  demoModel,
  demoModelPath,
  describeModel,
  draftModel,
  floatsOf,
  generateMaskedAttention,
  generateTokenLoop,
  imageTensor,
  parseKeys,
  presentationOf,
  resolveAsset,
} from "@tutti/onnx-tools";
import { type ModelSpec, type Tensor, bytesOf, elementCount } from "@tutti/protocol";
import { Prng } from "@tutti/units";
import { fillRow } from "@tutti/wire";
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

async function load(bytes: Uint8Array, config: ModelConfig): Promise<ModelSpec> {
  const spec = completeSpec(draftModel(config, describeModel(bytes)), { number: 1, object: config.name ?? "" });
  const model: EngineModel = { spec, bytes };
  expect(await new Promise<LoadOutcome>((done) => engine.load(model, done))).toMatchObject({ kind: "loaded" });
  return spec;
}
const loadDemo = (name: string, config: Partial<ModelConfig>): Promise<ModelSpec> => {
  const model = demoModel(name);
  return load(readFileSync(demoModelPath(model, { cacheDir })), { ...model.config, ...config });
};

/** Runs the requests' rows in one batch, as an executor does. @returns each request's result */
async function answers(spec: ModelSpec, requests: readonly (readonly Tensor[])[]) {
  const buffer = rowBuffer(spec, 0, requests.length);
  for (const inputs of requests) expect(buffer.add(fillRow(spec, { inputs }).row)).toBe(true);
  const results: (readonly Tensor[])[] = [];
  const parts = buffer.parts();
  for (const { rows, inputs, units = [] } of parts) {
    const batch = { model: spec.name, bucket: 0, batchSize: rows.length, inputs, units };
    const outcome = await new Promise<RunOutcome>((done) => engine.run(batch, done));
    if (outcome.kind === "failed") throw new Error(outcome.reason);
    expect(outcome.failedRows).toEqual([]);
    rows.forEach((row, at) => {
      const place = { row: at, batchSize: rows.length, lengths: buffer.lengthsOf(row) };
      results[row] = outcome.outputs.map((output) => rowOfOutput(spec, output, place));
    });
  }
  return { results, runs: parts.length };
}

/** @returns the largest difference of any number from the isolated result, and how many runs the batch took */
async function mixedAgainstAlone(spec: ModelSpec, requests: readonly (readonly Tensor[])[]) {
  const together = await answers(spec, requests);
  let worst = 0;
  for (const [i, request] of requests.entries()) {
    const alone = await answers(spec, [request]);
    for (const [k, output] of together.results[i]!.entries()) {
      const expected = alone.results[0]![k]!;
      expect([output.name, output.dims]).toEqual([expected.name, expected.dims]);
      const [own, other] = [floatsOf(output), floatsOf(expected)];
      own.forEach((value, at) => (worst = Math.max(worst, Math.abs(value - other[at]!))));
    }
  }
  return { worst, runs: together.runs, results: together.results };
}

function random(name: string, dims: readonly number[], prng: Prng, type: "FP32" | "INT64" = "FP32"): Tensor {
  const data = new Uint8Array(elementCount(dims) * bytesOf(type));
  const view = new DataView(data.buffer);
  for (let i = 0; i < elementCount(dims); i++) {
    if (type === "FP32") view.setFloat32(4 * i, prng.nextFloat() * 2 - 1, true);
    else view.setBigInt64(8 * i, BigInt(prng.nextInt(1_000)), true);
  }
  return { name, type, dims, data };
}

const LINES = {
  slo: "1s",
  max_batch_size: 8,
  output: [{ name: "softmax_11.tmp_0", dims: ["batch", "T", 6625] }],
  cut: { T: { axis: "W", divide: 8, add: 3 } },
} satisfies Partial<ModelConfig>;
const lines = (widths: readonly number[]): Tensor[][] =>
  widths.map((width) => [random("x", [3, 48, width], new Prng(width))]);

test("PP-OCR rec: lines of unlike widths get in one batch what they get alone, since those that share a run share a width", async () => {
  const axes = { W: { mode: "pad", max: 640, mixed: false, typical: 96 } } as const;
  const spec = await loadDemo("ocr-rec", { ...LINES, axes });
  const { worst, runs, results } = await mixedAgainstAlone(spec, lines([96, 40, 131, 96, 40]));
  expect(runs).toBe(3);
  expect(worst).toBeLessThan(1e-4);
  expect(results.map(([output]) => output?.dims[1])).toEqual([12, 5, 16, 12, 5]);
});

test("PP-OCR rec: with a multiple, lines that grow to the same width share a run, and each gets what it gets alone", async () => {
  const axes = { W: { mode: "pad", max: 640, multiple: 32, mixed: false, typical: 96 } } as const;
  const spec = await loadDemo("ocr-rec", { ...LINES, axes });
  const { worst, runs, results } = await mixedAgainstAlone(spec, lines([96, 40, 65, 64, 80]));
  expect(runs).toBe(2);
  expect(worst).toBeLessThan(1e-4);
  expect(results.map(([output]) => output?.dims[1])).toEqual([12, 5, 8, 8, 10]);
});

test("PP-OCR rec sees the padding far from it, which is why its widths are not mixed; the words of a clear line stay", async () => {
  const axes = { W: { mode: "pad", max: 640, typical: 96, mixed: true } } as const;
  const spec = await loadDemo("ocr-rec", { ...LINES, axes });
  const line = await textLine(315);
  const [alone] = (await answers(spec, [[line]])).results[0]!;
  const together = await answers(spec, [[line], lines([630])[0]!]);
  const [padded] = together.results[0]!;
  expect([together.runs, padded!.dims]).toEqual([1, alone!.dims]);
  const keys = parseKeys(readFileSync(resolveAsset(OCR_KEYS), "utf8"));
  expect([alone!, padded!].map((output) => decodeCtc(output, keys).text)).toEqual([
    "The largest batch in time",
    "The largest batch in time",
  ]);
  const [own, other] = [floatsOf(alone!), floatsOf(padded!)];
  const leftHalf = own.subarray(0, own.length / 2);
  expect(leftHalf.reduce((most, value, i) => Math.max(most, Math.abs(value - other[i]!)), 0)).toBeGreaterThan(0.5);
});

/** The line of the fixture, `width` pixels wide. */
async function textLine(width: number): Promise<Tensor> {
  const path = new URL("../../packages/onnx-tools/fixtures/text-line.png", import.meta.url);
  const { data } = await sharp(readFileSync(path))
    .resize({ width, height: 48, fit: "fill" })
    .removeAlpha()
    .raw()
    .toBuffer({ resolveWithObject: true });
  const { input } = presentationOf(demoModel("ocr-rec").config.presentation);
  return imageTensor({ rgb: data, width, height: 48 }, { ...(input as ImageInput), resize: "stretch", width });
}

test("Silero VAD, with Ifs inside: frames of two lengths get what they get alone, states included", async () => {
  const spec = await loadDemo("silero-vad", {
    input: [
      { name: "input", dims: ["batch", "S"] },
      { name: "state", dims: [2, "batch", 128] },
    ],
    max_batch_size: 8,
    axes: { S: { mode: "pad", max: 576, mixed: false } },
  });
  const requests = [576, 320, 576, 320, 320].map((samples, i) => {
    const prng = new Prng(i + 1);
    return [random("input", [1, samples], prng), random("state", [2, 1, 128], prng)];
  });
  const { worst, runs } = await mixedAgainstAlone(spec, requests);
  expect(runs).toBe(2);
  expect(worst).toBeLessThan(1e-4);
});

test("a Loop over tokens runs as long as its longest row, and every row gets what it gets alone", async () => {
  const spec = await load(generateTokenLoop({ width: 64 }), {
    name: "token-loop",
    slo: "1s",
    axes: { T: { mode: "pad", max: 200, multiple: 8, typical: 32, lengths: "lengths" } },
  });
  expect([spec.inputs.map(({ name }) => name), spec.made?.map(({ name }) => name)]).toEqual([["x"], ["lengths"]]);
  const requests = [5, 64, 1, 17, 200].map((length) => [random("x", [length, 8], new Prng(length))]);
  const { worst, runs } = await mixedAgainstAlone(spec, requests);
  expect(runs).toBe(1);
  expect(worst).toBeLessThan(1e-4);
});

test("attention with a mask sees no padding: tokens are cut back and means are a row's own", async () => {
  const spec = await load(generateMaskedAttention(), {
    name: "masked-attention",
    slo: "1s",
    axes: { L: { mode: "pad", max: 128, multiple: 4, pad_value: { ids: 3 }, mask: "mask" } },
  });
  const requests = [3, 50, 1, 128, 50].map((length, i) => [random("ids", [length], new Prng(i + 9), "INT64")]);
  const { worst, runs, results } = await mixedAgainstAlone(spec, requests);
  expect(runs).toBe(1);
  expect(worst).toBeLessThan(1e-4);
  expect(results.map(([tokens]) => tokens?.dims)).toEqual([3, 50, 1, 128, 50].map((length) => [1, length, 64]));
});

test("a model that sees the padding is refused at load, with what to write, unless its operator has judged it", async () => {
  const bytes = generateMaskedAttention();
  const L = { mode: "pad", max: 128, multiple: 4, pad_value: { ids: 3, mask: 1 } } as const;
  const outcomeOf = async (mixed?: boolean): Promise<LoadOutcome> => {
    const config = { name: "unmasked", slo: "1s", axes: { L: { ...L, ...(mixed !== undefined && { mixed }) } } };
    const spec = completeSpec(draftModel(config, describeModel(bytes)), { number: 1, object: "unmasked" });
    return new Promise((done) => engine.load({ spec, bytes }, done));
  };
  const refused = await outcomeOf();
  expect(refused).toMatchObject({ kind: "failed" });
  expect(JSON.stringify(refused)).toMatch(
    /padding changes what it answers: a row of L 64 padded to 128 differs by .*axes\.L in config\.yaml: `mixed: false`/,
  );
  expect(await outcomeOf(false)).toMatchObject({ kind: "loaded" });
  expect(await outcomeOf(true)).toMatchObject({ kind: "loaded" });
});

test("the same holds for an axis in mode bucket: padding of 0 masks itself there, padding of 3 is refused", async () => {
  const bytes = generateMaskedAttention();
  const outcomeOf = async (more: { pad_value: number; mixed?: true }): Promise<LoadOutcome> => {
    const config = { name: "bucketed", slo: "1s", axes: { L: { sizes: [64, 128], ...more } } };
    const spec = completeSpec(draftModel(config, describeModel(bytes)), { number: 1, object: "bucketed" });
    return new Promise((done) => engine.load({ spec, bytes }, done));
  };
  expect(await outcomeOf({ pad_value: 0 })).toMatchObject({ kind: "loaded" });
  expect(JSON.stringify(await outcomeOf({ pad_value: 3 }))).toMatch(/a row of L 64 padded to 128 differs by/);
  expect(await outcomeOf({ pad_value: 3, mixed: true })).toMatchObject({ kind: "loaded" });
});
