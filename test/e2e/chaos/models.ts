/** The models that are asked, and where. Nothing else is in this file: a pod of test/kubernetes reads it as well. */
import { onnxGraph } from "@tutti/onnx-tools";

export const MODELS = ["echo-0", "echo-1", "echo-2", "echo-3"] as const;
/** Numbers in a request and in its answer. */
export const WIDTH = 16;

export interface Gateway {
  readonly name: string;
  readonly url: string;
}

/**
 * An ONNX model y = x · I. It is computed by a matrix product, and exact, so that a real executor's answers equal those
 * of one that echoes.
 *
 * x f32[batch, width] → y f32[batch, width]
 */
export function echoModelBytes(width: number): Uint8Array {
  const { DataType, floats, modelBytes, node, value } = onnxGraph;
  const identity = new Float32Array(width * width);
  for (let i = 0; i < width; i++) identity[i * width + i] = 1;
  return modelBytes({
    name: "echo",
    inputs: [value("x", DataType.FLOAT, ["batch", width])],
    outputs: [value("y", DataType.FLOAT, ["batch", width])],
    nodes: [node("MatMul", ["x", "identity"], ["y"])],
    initializers: [floats("identity", [width, width], identity)],
  });
}
