/**
 * Facts about ONNX operators, used to compare two graphs. They say which attributes only repeat the default, which
 * operators' inputs may be swapped, which operators are random, and which type each output has.
 */
import type { AttributeProto, NodeProto } from "onnx-buf";
import { AttributeProto_AttributeType as AttributeType, TensorProto_DataType as Type } from "onnx-buf";

/** Operator domain; `""` and `ai.onnx` name the same one. */
export const domainOf = ({ domain }: Pick<NodeProto, "domain">): string => (domain === "ai.onnx" ? "" : domain);

/** First opset in which Softmax and its like default to the last axis; before it, axis 1. */
const SOFTMAX_LAST_AXIS = 13;

type Default = number | string | "ones" | "zeros";

/**
 * Defaults that every version of the operator agrees on. A missing default makes equal nodes look different; a wrong
 * one makes different nodes look equal.
 */
const DEFAULTS: ReadonlyMap<string, Readonly<Record<string, Default>>> = new Map<
  string,
  Readonly<Record<string, Default>>
>([
  ["Gemm", { alpha: 1, beta: 1, transA: 0, transB: 0 }],
  ["Conv", { auto_pad: "NOTSET", dilations: "ones", group: 1, pads: "zeros", strides: "ones" }],
  [
    "ConvTranspose",
    { auto_pad: "NOTSET", dilations: "ones", group: 1, output_padding: "zeros", pads: "zeros", strides: "ones" },
  ],
  [
    "MaxPool",
    { auto_pad: "NOTSET", ceil_mode: 0, dilations: "ones", pads: "zeros", storage_order: 0, strides: "ones" },
  ],
  ["AveragePool", { auto_pad: "NOTSET", ceil_mode: 0, count_include_pad: 0, pads: "zeros", strides: "ones" }],
  ["BatchNormalization", { epsilon: 1e-5, momentum: 0.9, training_mode: 0 }],
  ["InstanceNormalization", { epsilon: 1e-5 }],
  ["LayerNormalization", { axis: -1, epsilon: 1e-5, stash_type: 1 }],
  ["LeakyRelu", { alpha: 0.01 }],
  ["Elu", { alpha: 1 }],
  ["ThresholdedRelu", { alpha: 1 }],
  ["HardSigmoid", { alpha: 0.2, beta: 0.5 }],
  ["Flatten", { axis: 1 }],
  ["Gather", { axis: 0 }],
  ["GatherElements", { axis: 0 }],
  ["GatherND", { batch_dims: 0 }],
  ["ArgMax", { axis: 0, keepdims: 1, select_last_index: 0 }],
  ["ArgMin", { axis: 0, keepdims: 1, select_last_index: 0 }],
  ["ReduceMean", { keepdims: 1, noop_with_empty_axes: 0 }],
  ["ReduceSum", { keepdims: 1, noop_with_empty_axes: 0 }],
  ["ReduceMax", { keepdims: 1, noop_with_empty_axes: 0 }],
  ["ReduceMin", { keepdims: 1, noop_with_empty_axes: 0 }],
  ["ReduceProd", { keepdims: 1, noop_with_empty_axes: 0 }],
  ["Split", { axis: 0 }],
  ["TopK", { axis: -1, largest: 1, sorted: 1 }],
  ["Pad", { mode: "constant" }],
  ["DepthToSpace", { mode: "DCR" }],
  ["CumSum", { exclusive: 0, reverse: 0 }],
  ["Mod", { fmod: 0 }],
  ["Shape", { start: 0 }],
  ["Trilu", { upper: 1 }],
  ["Reshape", { allowzero: 0 }],
  ["LSTM", { direction: "forward", input_forget: 0, layout: 0 }],
  ["GRU", { direction: "forward", linear_before_reset: 0, layout: 0 }],
  ["RNN", { direction: "forward", layout: 0 }],
]);
const LAST_AXIS: ReadonlySet<string> = new Set(["Softmax", "LogSoftmax", "Hardmax"]);

/** True if leaving the attribute out means the same. */
export function isDefault(node: NodeProto, attribute: AttributeProto, opset: bigint): boolean {
  if (domainOf(node) !== "") return false;
  if (LAST_AXIS.has(node.opType) && attribute.name === "axis")
    return attribute.i === (opset >= SOFTMAX_LAST_AXIS ? -1n : 1n);
  const byName = DEFAULTS.get(node.opType) ?? {};
  const said = Object.hasOwn(byName, attribute.name) ? byName[attribute.name] : undefined;
  if (said === undefined) return false;
  switch (attribute.type) {
    case AttributeType.INT:
      return attribute.i === (typeof said === "number" ? BigInt(said) : undefined);
    case AttributeType.FLOAT:
      return typeof said === "number" && attribute.f === Math.fround(said);
    case AttributeType.STRING:
      return new TextDecoder().decode(attribute.s) === said;
    case AttributeType.INTS:
      return (
        (said === "ones" || said === "zeros") && attribute.ints.every((int) => int === (said === "ones" ? 1n : 0n))
      );
    default:
      return false;
  }
}

const COMMUTATIVE: ReadonlySet<string> = new Set(["Add", "Mul", "And", "Or", "Xor", "Equal"]);
/** True if swapping the two inputs changes nothing, to the last bit. */
export const mayBeSwapped = (node: NodeProto): boolean =>
  domainOf(node) === "" && COMMUTATIVE.has(node.opType) && node.input.length === 2;

const DRAWN: ReadonlySet<string> = new Set([
  ...["RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Multinomial", "Bernoulli"],
]);
/** True if each run gives another result. This includes Dropout with a training-mode input. */
export const isRandom = (node: NodeProto): boolean =>
  DRAWN.has(node.opType) || (node.opType === "Dropout" && (node.input[2] ?? "") !== "");

/** Operators that depend on a tensor's shape and not on its values. */
const OF_SHAPES: ReadonlySet<string> = new Set(["Shape", "Size"]);
export const isOfShape = (node: NodeProto): boolean => domainOf(node) === "" && OF_SHAPES.has(node.opType);

const BOOLEAN: ReadonlySet<string> = new Set([
  ...["Equal", "Greater", "Less", "GreaterOrEqual", "LessOrEqual", "And", "Or", "Xor", "Not", "IsNaN", "IsInf"],
]);
const COUNTS: ReadonlySet<string> = new Set(["Shape", "Size", "NonZero", "ArgMax", "ArgMin"]);
const SECOND_INPUT: ReadonlySet<string> = new Set(["Where"]);
/** Operators whose output types can't be derived from their inputs' types. */
const UNKNOWN: ReadonlySet<string> = new Set([
  ...["ConstantOfShape", "EyeLike", "OneHot", "QuantizeLinear", "DequantizeLinear", "DynamicQuantizeLinear", "If"],
  ...["Loop", "Scan", "SequenceAt", "SequenceConstruct", "SplitToSequence", "ConcatFromSequence", "Optional", "Unique"],
  ...["ConvInteger", "MatMulInteger", "QLinearConv", "QLinearMatMul", "StringNormalizer", "TfIdfVectorizer"],
]);

/**
 * The element type of an output.
 *
 * @param typeOf - type of the input at a place
 * @returns undefined where the type is unknown: such a value can't be handed from one file to another
 */
export function outputType(
  node: NodeProto,
  output: number,
  typeOf: (input: number) => Type | undefined,
): Type | undefined {
  const { opType } = node;
  if (domainOf(node) !== "" || UNKNOWN.has(opType) || isRandom(node)) return undefined;
  if (opType === "Cast") return Number(node.attribute.find(({ name }) => name === "to")?.i ?? 0n) || undefined;
  if (BOOLEAN.has(opType)) return Type.BOOL;
  if (COUNTS.has(opType)) return Type.INT64;
  if (SECOND_INPUT.has(opType)) return typeOf(1);
  if (output === 0 || opType === "Split" || opType === "LSTM" || opType === "GRU" || opType === "RNN") return typeOf(0);
  if (opType === "TopK" || opType === "MaxPool") return output === 1 ? Type.INT64 : undefined;
  return undefined;
}
