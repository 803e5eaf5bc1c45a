/**
 * The OCR pipeline's three models and its steps, one after the other on one engine. This is the pipeline's result
 * without a cluster.
 */
import { readFileSync } from "node:fs";
import type { Engine, EngineModel, LoadOutcome, RunOutcome } from "@tutti/ports/engine";
import { completeSpec, demoModel, demoModelPath, describeModel, draftModel } from "@tutti/onnx-tools";
import {
  type TextLine,
  textLines,
  toClassifierInput,
  toDetectorInput,
  toRecogniserInput,
  toText,
} from "@tutti/pipeline-ocr";
import { type ModelSpec, type Tensor, rowDims } from "@tutti/protocol";
import type { StageFunction, StepTensor, Tensors } from "@tutti/ports/steps";

const STEPS: readonly (readonly [stage: string, model: string, before: StageFunction])[] = [
  ["detect", "ocr-det", toDetectorInput],
  ["classify", "ocr-cls", toClassifierInput],
  ["recognise", "ocr-rec", toRecogniserInput],
];

export interface OcrChain {
  read(picture: Uint8Array): Promise<{ readonly lines: readonly TextLine[]; readonly requests: readonly number[] }>;
}

export async function loadOcrChain(engine: Engine, { cacheDir }: { readonly cacheDir: string }): Promise<OcrChain> {
  const models: Record<string, EngineModel> = {};
  for (const name of ["ocr-det", "ocr-cls", "ocr-rec"]) {
    const model = demoModel(name);
    const bytes = readFileSync(demoModelPath(model, { cacheDir }));
    const spec = completeSpec(draftModel(model.config, describeModel(bytes)), { number: 1, object: name });
    const outcome = await new Promise<LoadOutcome>((done) => engine.load({ spec, bytes }, done));
    if (outcome.kind === "failed") throw new Error(outcome.reason);
    models[name] = { spec, bytes };
  }
  const stage = (name: string, requests: readonly Tensors[]): Promise<Tensors[]> =>
    Promise.all(requests.map((inputs) => runOne(engine, (models[name] as EngineModel).spec, inputs)));

  return {
    async read(picture) {
      const stages: Record<string, Tensors[]> = {};
      const kept: Record<string, unknown> = {};
      const at = {
        input: { image: { type: "UINT8", dims: [picture.length], data: new Uint8Array(picture) } as const },
        stages,
        kept,
        request: { pipeline: "ocr", app: "test" },
      };
      const requests: number[] = [];
      for (const [name, model, before] of STEPS) {
        // Values are cloned as between threads.
        const result = (await before(structuredClone(at))) as { requests: Tensors[]; keep: unknown };
        kept[name] = result.keep;
        requests.push(result.requests.length);
        stages[name] = await stage(model, result.requests);
      }
      return { lines: textLines(toText(at)), requests };
    },
  };
}

/**
 * Runs one request in the smallest bucket that holds it. As in an ingress, it is padded with zeros to the right and
 * below.
 */
async function runOne(engine: Engine, spec: ModelSpec, inputs: Tensors): Promise<Tensors> {
  const given = inputs["x"] as StepTensor;
  const [declared] = spec.inputs;
  if (declared === undefined) throw new Error(`${spec.name} has no input`);
  const shapes = spec.buckets.map((sizes) => rowDims(declared, sizes));
  const size = (dims: readonly number[]): number => dims.reduce((product, dim) => product * dim, 1);
  const fitting = shapes.filter((dims) => dims.every((dim, axis) => dim >= (given.dims[axis] as number)));
  const dims = fitting.toSorted((a, b) => size(a) - size(b))[0];
  if (dims === undefined) throw new Error(`${spec.name} takes no [${given.dims.join(", ")}]`);
  const x: Tensor = { name: "x", type: "FP32", dims, data: grown(given, dims) };
  const bucket = shapes.indexOf(dims);
  const outcome = await new Promise<RunOutcome>((done) =>
    engine.run({ model: spec.name, bucket, batchSize: 1, inputs: [x] }, done),
  );
  if (outcome.kind === "failed") throw new Error(outcome.reason);
  return Object.fromEntries(
    outcome.outputs.map(({ name, type, dims, data }) => [
      name,
      { type, dims, data: new Float32Array(data.slice().buffer) },
    ]),
  );
}

function grown({ data, dims: [, planes = 0, height = 0, width = 0] }: StepTensor, to: readonly number[]): Uint8Array {
  const [, , tall = 0, wide = 0] = to;
  const values = new Float32Array(planes * tall * wide);
  for (let plane = 0; plane < planes; plane++)
    for (let row = 0; row < height; row++) {
      const from = (plane * height + row) * width;
      values.set((data as Float32Array).subarray(from, from + width), (plane * tall + row) * wide);
    }
  return new Uint8Array(values.buffer);
}
