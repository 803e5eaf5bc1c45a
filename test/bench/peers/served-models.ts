/** The served models, the rows that are asked about, and the right answers. */
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { demoModel, demoModelPath, generateMlp } from "@tutti/onnx-tools";
import { InferenceSession, Tensor } from "onnxruntime-node";

export interface ServedModel {
  readonly name: string;
  readonly input: {
    readonly name: string;
    readonly datatype: "FP32" | "INT64";
    /** Without the batch axis. */
    readonly shape: readonly number[];
  };
  /** Name of an FP32 output with one axis beside the batch's. */
  readonly output: string;
  /** Runs that are computed … */
  readonly file?: string;
  /** … or waited for. */
  readonly latency?: { readonly alphaMs: number; readonly betaMs: number };
  readonly batchMax: number;
  readonly sloMs: number;
}

export const MODEL_NAMES = ["mlp", "ctr", "cnn", "picture", "resnet50"] as const;
export type ModelName = (typeof MODEL_NAMES)[number];

/** A float tensor of 3 × 112 × 112, 150,528 bytes. */
const PICTURE_WIDTH = 37_632;
/** Different rows of each model, so that an answer to another request is noticed. */
const ROWS = 4;
const COMPARED_NUMBERS = 4;
const CTR_IDS = 5_000;
/** Symphony's Table 2. */
export const RESNET50 = { alphaMs: 1.053, betaMs: 5.072, batchMax: 64, sloMs: 25 };

/** The model of that name; its file, where it has one, is written into `folder`. */
export function servedModel(name: ModelName, { folder }: { readonly folder: string }): ServedModel {
  const file = join(folder, `${name}.onnx`);
  switch (name) {
    case "mlp":
    case "ctr":
    case "cnn": {
      writeFileSync(file, readFileSync(demoModelPath(demoModel(name), { cacheDir: folder })));
      return { name, file, sloMs: 30, ...DEMO[name] };
    }
    case "picture": {
      writeFileSync(file, generateMlp({ seed: 11, widths: [PICTURE_WIDTH, 16] }));
      const input = { name: "x", datatype: "FP32", shape: [PICTURE_WIDTH] } as const;
      return { name, file, sloMs: 30, input, output: "y", batchMax: 32 };
    }
    case "resnet50": {
      const { batchMax, sloMs, ...latency } = RESNET50;
      const input = { name: "x", datatype: "FP32", shape: [8] } as const;
      return { name, latency, batchMax, sloMs, input, output: "y" };
    }
  }
}

const DEMO = {
  mlp: { input: { name: "x", datatype: "FP32", shape: [256] }, output: "y", batchMax: 32 },
  ctr: { input: { name: "ids", datatype: "INT64", shape: [16] }, output: "score", batchMax: 32 },
  cnn: { input: { name: "image", datatype: "FP32", shape: [3, 32, 32] }, output: "probabilities", batchMax: 8 },
} as const;

export function rowsOf({ input: { datatype, shape } }: ServedModel): number[][] {
  const width = shape.reduce((product, size) => product * size, 1);
  return Array.from({ length: ROWS }, (_, row) =>
    Array.from({ length: width }, (_, i) =>
      datatype === "INT64" ? (37 * i + 101 * row) % CTR_IDS : Math.round(Math.sin(i + 1.7 * row) * 1e4) / 1e4,
    ),
  );
}

/** The first numbers of the answer to each row. They are computed here, so that no system is judged by another. */
export async function expectedOf(model: ServedModel, rows: readonly (readonly number[])[]): Promise<number[][]> {
  if (model.file === undefined) return rows.map((row) => row.slice(0, COMPARED_NUMBERS));
  const session = await InferenceSession.create(model.file, { intraOpNumThreads: 1, interOpNumThreads: 1 });
  const answers: number[][] = [];
  for (const row of rows) {
    const outputs = await session.run({ [model.input.name]: tensorOf(model, row) });
    answers.push([...(outputs[model.output]!.data as Float32Array)].slice(0, COMPARED_NUMBERS));
  }
  await session.release();
  return answers;
}

function tensorOf({ input: { datatype, shape } }: ServedModel, row: readonly number[]): Tensor {
  const dims = [1, ...shape];
  return datatype === "INT64"
    ? new Tensor("int64", BigInt64Array.from(row, BigInt), dims)
    : new Tensor("float32", Float32Array.from(row), dims);
}
