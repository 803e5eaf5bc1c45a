/** Models that would return another file's bytes as outputs, for tests of the check that refuses them. */
import { create, fromBinary, toBinary } from "@bufbuild/protobuf";
import type { GraphProto, ModelProto, NodeProto, TensorProto } from "onnx-buf";
import {
  AttributeProtoSchema,
  AttributeProto_AttributeType as AttributeType,
  FunctionProtoSchema,
  ModelProtoSchema,
  OperatorSetIdProtoSchema,
  SparseTensorProtoSchema,
  StringStringEntryProtoSchema,
  TensorProtoSchema,
  TensorProto_DataLocation,
  TrainingInfoProtoSchema,
} from "onnx-buf";
import { DataType, OPSET, booleans, graph, integers, modelBytes, node, value } from "./graph-builder.ts";

/** Places in the model where the tensor is. */
export const LEAK_PLACES = ["initializer", "constant", "branch", "loop", "function", "sparse", "training"] as const;
export type LeakPlace = (typeof LEAK_PLACES)[number];

export interface LeakOptions {
  readonly place: LeakPlace;
  /** The file that the tensor refers to; undefined: its data is in the model, and is harmless. */
  readonly location?: string | undefined;
  /** Number of bytes that are read. */
  readonly width?: number;
}

const DOMAIN = "leak";
/** Adds the bytes to x: `leak` is f32[width]. */
const SUM = node("Add", ["x", "leak"], ["y"]);

/**
 * y = x + the bytes, from one tensor in one place.
 *
 * x f32[batch, width] → y f32[batch, width]
 */
export function generateLeak({ place, location, width = 8 }: LeakOptions): Uint8Array {
  const bytes = tensorOf(location, width);
  const model = fromBinary(
    ModelProtoSchema,
    modelBytes({
      name: "leak",
      inputs: [value("x", DataType.FLOAT, ["batch", width])],
      outputs: [value("y", DataType.FLOAT, ["batch", width])],
      nodes: nodesOf(place, bytes, width),
      initializers: [integers("one", [], [1n]), booleans("yes", [], [true])],
    }),
  );
  const { initializer, sparseInitializer } = model.graph as GraphProto;
  if (place === "initializer") initializer.push(bytes);
  if (place === "training") {
    initializer.push(tensorOf(undefined, width));
    const initialization = graph({ name: "start", inputs: [], outputs: [], nodes: [], initializers: [bytes] });
    model.trainingInfo.push(create(TrainingInfoProtoSchema, { initialization }));
  }
  if (place === "sparse") {
    const places = Array.from({ length: width }, (_, i) => BigInt(i));
    const indices = integers("places", [width], places);
    sparseInitializer.push(create(SparseTensorProtoSchema, { values: bytes, indices, dims: [BigInt(width)] }));
  }
  if (place === "function") addFunction(model, bytes);
  return toBinary(ModelProtoSchema, model);
}

function tensorOf(location: string | undefined, width: number): TensorProto {
  const tensor = { name: "bytes", dataType: DataType.UINT8, dims: [BigInt(width)] };
  if (location === undefined) return create(TensorProtoSchema, { ...tensor, rawData: new Uint8Array(width).fill(7) });
  const entries = { location, offset: "0", length: String(width) };
  return create(TensorProtoSchema, {
    ...tensor,
    dataLocation: TensorProto_DataLocation.EXTERNAL,
    externalData: Object.entries(entries).map(([key, text]) =>
      create(StringStringEntryProtoSchema, { key, value: text }),
    ),
  });
}

function nodesOf(place: LeakPlace, bytes: TensorProto, width: number): NodeProto[] {
  switch (place) {
    case "initializer":
    case "sparse":
    case "training":
      return [toFloat("bytes", "leak"), SUM];
    case "constant":
      return [constant(bytes, "bytes"), toFloat("bytes", "leak"), SUM];
    case "branch": {
      const nodes = [constant(bytes, "inside"), toFloat("inside", "given")];
      const branch = graph({ name: "branch", inputs: [], outputs: [value("given", DataType.FLOAT, [width])], nodes });
      return [node("If", ["yes"], ["leak"], { then_branch: branch, else_branch: branch }), SUM];
    }
    case "loop": {
      const body = graph({
        name: "body",
        inputs: [
          value("i", DataType.INT64, []),
          value("go", DataType.BOOL, []),
          value("state", DataType.FLOAT, ["batch", width]),
        ],
        outputs: [value("go_on", DataType.BOOL, []), value("next", DataType.FLOAT, ["batch", width])],
        nodes: [
          node("Identity", ["go"], ["go_on"]),
          constant(bytes, "inside"),
          toFloat("inside", "given"),
          node("Add", ["state", "given"], ["next"]),
        ],
      });
      return [node("Loop", ["one", "yes", "x"], ["y"], { body })];
    }
    case "function": {
      const call = node("Leak", [], ["bytes"]);
      call.domain = DOMAIN;
      return [call, toFloat("bytes", "leak"), SUM];
    }
  }
}

const toFloat = (from: string, to: string): NodeProto => node("Cast", [from], [to], { to: BigInt(DataType.FLOAT) });

function constant(tensor: TensorProto, output: string): NodeProto {
  const made = node("Constant", [], [output]);
  made.attribute.push(create(AttributeProtoSchema, { name: "value", type: AttributeType.TENSOR, t: tensor }));
  return made;
}

function addFunction(model: ModelProto, bytes: TensorProto): void {
  model.opsetImport.push(create(OperatorSetIdProtoSchema, { domain: DOMAIN, version: 1n }));
  model.functions.push(
    create(FunctionProtoSchema, {
      name: "Leak",
      domain: DOMAIN,
      output: ["bytes"],
      node: [constant(bytes, "bytes")],
      opsetImport: [create(OperatorSetIdProtoSchema, { domain: "", version: OPSET })],
    }),
  );
}
