import { create, toBinary } from "@bufbuild/protobuf";
import { type ModelProto, ModelProtoSchema, type NodeProto, type TensorProto } from "onnx-buf";
import { AttributeProtoSchema, NodeProtoSchema, TensorProtoSchema, TensorProto_DataType as Type } from "onnx-buf";
import { Prng, assert } from "@tutti/units";
import { decodeModel } from "../model-description.ts";
import { tensorBytes } from "./tensor-bytes.ts";

/**
 * The same model with other weights in its last layer, as fine-tuning of the head alone leaves it. It is for tests and
 * measurements of families. Equal seeds give equal bytes.
 */
export function withOtherHead(bytes: Uint8Array, seed: number): Uint8Array {
  const model: ModelProto = create(ModelProtoSchema, decodeModel(bytes));
  const graph = model.graph!;
  const layer = graph.node.findLast(({ opType }) => opType === "MatMul" || opType === "Gemm");
  assert(layer !== undefined, "the model has no layer whose weights could be others");
  const name = layer.input[1]!;
  const prng = new Prng(seed);
  graph.initializer = graph.initializer.map((tensor) => (tensor.name === name ? shaken(tensor, prng) : tensor));
  graph.node = graph.node.map((node) => (node.output[0] === name ? withConstant(node, prng) : node));
  return toBinary(ModelProtoSchema, model);
}

function withConstant(node: NodeProto, prng: Prng): NodeProto {
  const attribute = node.attribute.map((one) =>
    one.t === undefined ? one : create(AttributeProtoSchema, { ...one, t: shaken(one.t, prng) }),
  );
  return create(NodeProtoSchema, { ...node, attribute });
}

/** Changes each weight by at most a tenth, so that the model's answers stay recognisable. */
function shaken(tensor: TensorProto, prng: Prng): TensorProto {
  assert(tensor.dataType === (Type.FLOAT as number), "weights of f32");
  const values = new Float32Array(Uint8Array.from(tensorBytes(tensor)!).buffer);
  for (let i = 0; i < values.length; i++) values[i]! *= 0.9 + 0.2 * prng.nextFloat();
  return create(TensorProtoSchema, { ...tensor, floatData: [], rawData: new Uint8Array(values.buffer) });
}
