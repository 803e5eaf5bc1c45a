/**
 * The few parts of an ONNX file that the generators need, as plain functions over onnx-buf's messages. Equal calls give
 * equal bytes: protobuf fields are written in field order, and nothing here reads a clock or a map order.
 */
import { create, toBinary } from "@bufbuild/protobuf";
import type { AttributeProto, GraphProto, NodeProto, TensorProto, ValueInfoProto } from "onnx-buf";
import {
  AttributeProtoSchema,
  AttributeProto_AttributeType as AttributeType,
  GraphProtoSchema,
  ModelProtoSchema,
  NodeProtoSchema,
  OperatorSetIdProtoSchema,
  TensorProtoSchema,
  TensorProto_DataType as DataType,
  TensorShapeProtoSchema,
  TensorShapeProto_DimensionSchema,
  TypeProtoSchema,
  TypeProto_TensorSchema,
  ValueInfoProtoSchema,
} from "onnx-buf";
import { type Prng, assert } from "@tutti/units";

/** Loads in every onnxruntime since 1.12; newer ones read it too. */
export const IR_VERSION = 8n;
export const OPSET = 17n;

export { DataType };

type Attribute = number | bigint | readonly bigint[] | GraphProto;

/** One operator. Attributes: a number is a FLOAT, a bigint an INT, a list of bigints INTS. */
export function node(
  opType: string,
  input: readonly string[],
  output: readonly string[],
  attributes: Readonly<Record<string, Attribute>> = {},
): NodeProto {
  const attribute = Object.entries(attributes).map(([name, value]) => toAttribute(name, value));
  return create(NodeProtoSchema, {
    opType,
    name: output[0] ?? opType,
    input: [...input],
    output: [...output],
    attribute,
  });
}

function toAttribute(name: string, value: Attribute): AttributeProto {
  if (typeof value === "number") return create(AttributeProtoSchema, { name, type: AttributeType.FLOAT, f: value });
  if (typeof value === "bigint") return create(AttributeProtoSchema, { name, type: AttributeType.INT, i: value });
  if (isGraph(value)) return create(AttributeProtoSchema, { name, type: AttributeType.GRAPH, g: value });
  return create(AttributeProtoSchema, { name, type: AttributeType.INTS, ints: [...value] });
}

const isGraph = (value: readonly bigint[] | GraphProto): value is GraphProto => "$typeName" in value;

/** A constant of the graph, f32. */
export function floats(name: string, dims: readonly number[], values: Float32Array): TensorProto {
  assert(product(dims) === values.length, `${name}: [${dims.join(", ")}] does not hold ${values.length} values`);
  return rawTensor(name, DataType.FLOAT, dims, values);
}

/** `count` numbers, uniform in [−scale, scale), rounded to f32. */
export function uniform(prng: Prng, count: number, scale: number): Float32Array {
  const values = new Float32Array(count);
  for (let i = 0; i < count; i++) values[i] = (prng.nextFloat() * 2 - 1) * scale;
  return values;
}

/** A constant of the graph, i64; `dims` [] is a scalar. */
export function integers(name: string, dims: readonly number[], values: readonly bigint[]): TensorProto {
  assert(product(dims) === values.length, `${name}: [${dims.join(", ")}] does not hold ${values.length} values`);
  return rawTensor(name, DataType.INT64, dims, BigInt64Array.from(values));
}

export function booleans(name: string, dims: readonly number[], values: readonly boolean[]): TensorProto {
  return rawTensor(name, DataType.BOOL, dims, Uint8Array.from(values, Number));
}

function rawTensor(
  name: string,
  dataType: DataType,
  dims: readonly number[],
  values: Float32Array | BigInt64Array | Uint8Array,
): TensorProto {
  const rawData = new Uint8Array(values.buffer, values.byteOffset, values.byteLength).slice();
  return create(TensorProtoSchema, { name, dataType, dims: dims.map(BigInt), rawData });
}

/** A graph input or output; a string in `dims` is a symbolic axis such as "batch". */
export function value(name: string, elemType: DataType, dims: readonly (number | string)[]): ValueInfoProto {
  const dim = dims.map((size) =>
    create(TensorShapeProto_DimensionSchema, {
      value: typeof size === "number" ? { case: "dimValue", value: BigInt(size) } : { case: "dimParam", value: size },
    }),
  );
  const tensor = create(TypeProto_TensorSchema, { elemType, shape: create(TensorShapeProtoSchema, { dim }) });
  return create(ValueInfoProtoSchema, {
    name,
    type: create(TypeProtoSchema, { value: { case: "tensorType", value: tensor } }),
  });
}

export interface GraphParts {
  readonly name: string;
  readonly inputs: readonly ValueInfoProto[];
  readonly outputs: readonly ValueInfoProto[];
  readonly nodes: readonly NodeProto[];
  readonly initializers?: readonly TensorProto[];
}

export function graph(parts: GraphParts): GraphProto {
  return create(GraphProtoSchema, {
    name: parts.name,
    input: [...parts.inputs],
    output: [...parts.outputs],
    node: [...parts.nodes],
    initializer: [...(parts.initializers ?? [])],
  });
}

/** The bytes of an .onnx file with this graph. */
export function modelBytes(parts: GraphParts): Uint8Array {
  const model = create(ModelProtoSchema, {
    irVersion: IR_VERSION,
    producerName: "tutti",
    graph: graph(parts),
    opsetImport: [create(OperatorSetIdProtoSchema, { domain: "", version: OPSET })],
  });
  return toBinary(ModelProtoSchema, model);
}

const product = (dims: readonly number[]): number => dims.reduce((count, size) => count * size, 1);
