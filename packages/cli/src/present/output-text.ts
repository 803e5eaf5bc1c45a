/** Text for a model's outputs, by the presentation in the model's spec; without one, plain numbers. */
import { readFile } from "node:fs/promises";
import type { InferResult, TensorValue } from "@tutti/client";
import { type OutputPresentation, decodeCtc, parseKeys, presentationOf, resolveAsset } from "@tutti/onnx-tools";
import type { ModelSpec } from "@tutti/protocol";

export interface Meaning {
  /** For people. */
  readonly text: string;
  /** For programs: the content of `text`. */
  readonly value: Readonly<Record<string, unknown>>;
}

const VALUES_SHOWN = 8;

/** Undefined: the model has no presentation of outputs, or the presented output was not requested. */
export async function meaningOf(spec: ModelSpec, result: InferResult): Promise<Meaning | undefined> {
  const { output } = presentationOf(spec.presentation);
  const tensor = output === undefined ? undefined : result.outputs[output.tensor];
  if (output === undefined || tensor?.type !== "FP32") return undefined;
  return read(output, tensor, tensor.data as Float32Array);
}

async function read(output: OutputPresentation, tensor: TensorValue, values: Float32Array): Promise<Meaning> {
  switch (output.kind) {
    case "ctc": {
      const keys = parseKeys(await readFile(resolveAsset(output.keys), "utf8"));
      const { text, confidence } = decodeCtc(asWire(output.tensor, tensor), keys);
      return { text: `"${text}" (confidence ${confidence.toFixed(2)})`, value: { text, confidence } };
    }
    case "classes": {
      const best = values.reduce((top, value, index) => (value > (values[top] ?? -Infinity) ? index : top), 0);
      const label = output.labels[best] ?? `class ${best}`;
      const probability = values[best] ?? 0;
      return { text: `${label} (${probability.toFixed(3)})`, value: { class: best, label, probability } };
    }
    case "probability": {
      const probability = values[0] ?? 0;
      return { text: `${output.of}: ${probability.toFixed(3)}`, value: { of: output.of, probability } };
    }
    case "heat-map": {
      const above = values.reduce((count, value) => count + (value > output.threshold ? 1 : 0), 0);
      const share = values.length === 0 ? 0 : above / values.length;
      const text = `${(share * 100).toFixed(1)} % of the picture above ${output.threshold}`;
      return { text, value: { share, threshold: output.threshold } };
    }
  }
}

/** `y  FP32 [1, 128]  0.12 -0.4 … (128 values)`. */
export function renderOutputs(result: InferResult): string {
  return Object.entries(result.outputs)
    .map(([name, { type, dims, data }]) => {
      const first = data.slice(0, VALUES_SHOWN) as Iterable<number | bigint>;
      const shown = Array.from(first, (value) => String(Number(Number(value).toPrecision(5))));
      const more = data.length > VALUES_SHOWN ? ` … (${data.length} values)` : "";
      return `${name}  ${type} [${dims.join(", ")}]  ${shown.join(" ")}${more}`;
    })
    .join("\n");
}

/** The outputs in the Open Inference Protocol's form. */
export function outputsAsJson(result: Pick<InferResult, "outputs">): unknown[] {
  return Object.entries(result.outputs).map(([name, { type, dims, data }]) => ({
    name,
    datatype: type,
    shape: dims,
    data: Array.from(data as Iterable<number | bigint>, Number),
  }));
}

const asWire = (name: string, { type, dims, data }: TensorValue) => ({
  name,
  type,
  dims,
  data: new Uint8Array(data.buffer, data.byteOffset, data.byteLength),
});
