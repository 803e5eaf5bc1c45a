/**
 * Reads the description of an .onnx file without onnxruntime. So an ingress or a command line need not load 45 MB of
 * native code to learn a model's inputs.
 *
 * Trap: what onnx-buf decodes are views of the given bytes, so nothing here may be changed in place.
 */
import { createHash } from "node:crypto";
import { fromBinary } from "@bufbuild/protobuf";
import type { GraphProto, ModelProto, TensorProto, ValueInfoProto } from "onnx-buf";
import { ModelProtoSchema, TensorProto_DataType } from "onnx-buf";
import { externalDataProblem } from "@tutti/ports/engine";
import { type DataType, TuttiError } from "@tutti/protocol";

/** An axis of a declared shape: its size, the file's name for it, or `?` where the file gives neither. */
export type Dim = number | string;
export const UNNAMED_AXIS = "?";

export interface ValueDescription {
  readonly name: string;
  readonly type: DataType;
  /** Undefined when the file leaves the shape out. */
  readonly dims: readonly Dim[] | undefined;
}

export interface ModelDescription {
  /** Inputs without the initializers that old files list among them. */
  readonly inputs: readonly ValueDescription[];
  readonly outputs: readonly ValueDescription[];
  readonly opsets: readonly { readonly domain: string; readonly version: number }[];
  readonly irVersion: number;
  readonly producer: string;
  readonly nodes: number;
  /** The file's sha256, in hex. */
  readonly sha256: string;
  readonly bytes: number;
}

/** Largest .onnx file: protobuf's own limit. */
export const MODEL_BYTES_MAX = 2 ** 31 - 1;

export type ModelFileFault = "empty" | "not-onnx" | "damaged" | "unsupported";

/** The bytes are no model that can be served. The text says why and what to do. */
export class ModelFileError extends TuttiError {
  readonly fault: ModelFileFault;

  constructor(fault: ModelFileFault, text: string, cause?: unknown) {
    super("TUTTI_INVALID_INPUT", text, { retryable: false, cause });
    this.fault = fault;
  }
}

const TYPES: Partial<Record<TensorProto_DataType, DataType>> = {
  [TensorProto_DataType.BOOL]: "BOOL",
  [TensorProto_DataType.UINT8]: "UINT8",
  [TensorProto_DataType.UINT16]: "UINT16",
  [TensorProto_DataType.UINT32]: "UINT32",
  [TensorProto_DataType.UINT64]: "UINT64",
  [TensorProto_DataType.INT8]: "INT8",
  [TensorProto_DataType.INT16]: "INT16",
  [TensorProto_DataType.INT32]: "INT32",
  [TensorProto_DataType.INT64]: "INT64",
  [TensorProto_DataType.FLOAT16]: "FP16",
  [TensorProto_DataType.FLOAT]: "FP32",
  [TensorProto_DataType.DOUBLE]: "FP64",
};

/** Bytes of one element, for checking that an initializer is whole. Types packed below a byte are not checked. */
const ELEMENT_BYTES: Partial<Record<TensorProto_DataType, number>> = {
  [TensorProto_DataType.BOOL]: 1,
  [TensorProto_DataType.UINT8]: 1,
  [TensorProto_DataType.INT8]: 1,
  [TensorProto_DataType.UINT16]: 2,
  [TensorProto_DataType.INT16]: 2,
  [TensorProto_DataType.FLOAT16]: 2,
  [TensorProto_DataType.BFLOAT16]: 2,
  [TensorProto_DataType.UINT32]: 4,
  [TensorProto_DataType.INT32]: 4,
  [TensorProto_DataType.FLOAT]: 4,
  [TensorProto_DataType.UINT64]: 8,
  [TensorProto_DataType.INT64]: 8,
  [TensorProto_DataType.DOUBLE]: 8,
};

/** File types that people submit in place of a model, by their first bytes. */
const LOOKALIKES: readonly { readonly start: string; readonly what: string }[] = [
  { start: "version https://git-lfs", what: "a Git LFS pointer: fetch the file itself with `git lfs pull`" },
  {
    start: "PK\u0003\u0004",
    what: "a zip archive (PyTorch saves so): unpack it, or export the model with torch.onnx.export",
  },
  { start: "\u001f\u008b", what: "compressed with gzip: unpack it first" },
  { start: "<", what: "HTML or XML, perhaps the error page of a download: fetch it again" },
  { start: "{", what: "JSON: give the .onnx file itself" },
  { start: "\u0089PNG", what: "a PNG image: give the .onnx file" },
  { start: "\u0089HDF", what: "an HDF5 file (Keras saves so): convert the model to ONNX with tf2onnx" },
];

/**
 * Reads the head of a model: its inputs, its outputs, and whether the file is whole.
 *
 * @throws {ModelFileError} empty, not ONNX, damaged, or using what cannot be served; the text says what to do
 */
export function describeModel(bytes: Uint8Array): ModelDescription {
  const model = decodeModel(bytes);
  const problem = externalDataProblem(bytes);
  if (problem !== undefined) throw new ModelFileError("unsupported", problem);
  const graph = model.graph as GraphProto;
  const initialized = new Set(graph.initializer.map((tensor) => tensor.name));
  for (const tensor of graph.initializer) checkInitializer(tensor);
  return {
    inputs: graph.input.filter((input) => !initialized.has(input.name)).map((input) => describeValue(input, "input")),
    outputs: graph.output.map((output) => describeValue(output, "output")),
    opsets: model.opsetImport.map(({ domain, version }) => ({ domain, version: Number(version) })),
    irVersion: Number(model.irVersion),
    producer: model.producerName,
    nodes: graph.node.length,
    sha256: sha256Of(bytes),
    bytes: bytes.byteLength,
  };
}

/** The sha256 of a file's bytes, in hex, by which a model is identified everywhere. */
export const sha256Of = (bytes: Uint8Array): string => createHash("sha256").update(bytes).digest("hex");

/** @throws {ModelFileError} as `describeModel` */
export function decodeModel(bytes: Uint8Array): ModelProto {
  if (bytes.byteLength === 0) {
    throw new ModelFileError("empty", "the model file is empty: copy or download it again");
  }
  if (bytes.byteLength > MODEL_BYTES_MAX) {
    throw new ModelFileError(
      "unsupported",
      `the model file has ${bytes.byteLength} bytes; ONNX files end at ${MODEL_BYTES_MAX}`,
    );
  }
  const head = String.fromCharCode(...bytes.subarray(0, 32));
  const lookalike = LOOKALIKES.find(({ start }) => head.startsWith(start));
  if (lookalike !== undefined) throw new ModelFileError("not-onnx", `this is no ONNX model but ${lookalike.what}`);

  let model: ModelProto;
  try {
    model = fromBinary(ModelProtoSchema, bytes);
  } catch (cause) {
    // Field 1, a varint, opens every ONNX file: if it is there, the file was truncated.
    if (bytes[0] === 0x08) {
      const text = `the model file breaks off or is damaged (${bytes.byteLength} bytes): copy or download it again and compare its sha256`;
      throw new ModelFileError("damaged", text, cause);
    }
    throw new ModelFileError("not-onnx", "these bytes are no ONNX model: give the path of an .onnx file", cause);
  }
  if (model.irVersion === 0n && model.graph === undefined) {
    throw new ModelFileError("not-onnx", "these bytes are no ONNX model: give the path of an .onnx file");
  }
  if (model.graph === undefined || model.graph.node.length === 0 || model.opsetImport.length === 0) {
    const lost = model.graph === undefined || model.graph.node.length === 0 ? "its graph" : "its operator set";
    throw new ModelFileError("damaged", `the model file lacks ${lost}: copy, download or export it again`);
  }
  return model;
}

function checkInitializer(tensor: TensorProto): void {
  const elementBytes = ELEMENT_BYTES[tensor.dataType as TensorProto_DataType];
  if (elementBytes === undefined || tensor.rawData.byteLength === 0) return;
  const expected = tensor.dims.reduce((product, dim) => product * Number(dim), elementBytes);
  if (tensor.rawData.byteLength !== expected) {
    const text = `weight '${tensor.name}' has ${tensor.rawData.byteLength} bytes, its shape needs ${expected}: copy or download the file again`;
    throw new ModelFileError("damaged", text);
  }
}

/** Words for the values that aren't tensors. */
const KINDS = {
  sequenceType: "a sequence",
  mapType: "a map",
  optionalType: "an optional",
  sparseTensorType: "a sparse tensor",
} as const;

/** The converters' default for classifiers: an output of maps from labels to probabilities. */
const zipMapAdvice = (kind: string | undefined): string =>
  kind === "sequenceType" || kind === "mapType" ? "; skl2onnx and onnxmltools do that with `zipmap: False`" : "";

/** @returns what to do about elements of a type that isn't served */
function dataTypeAdvice(role: "input" | "output", type: TensorProto_DataType): string {
  if (type === TensorProto_DataType.STRING)
    return role === "output"
      ? ": train on numbered labels, or take the output out of the file, and name the classes in `presentation`"
      : ": encode strings before the request, as a tokenizer does";
  if (type === TensorProto_DataType.BFLOAT16) return ": cast it to FP32 or FP16 in the model";
  return "";
}

function describeValue(info: ValueInfoProto, role: "input" | "output"): ValueDescription {
  const type = info.type?.value;
  if (type?.case !== "tensorType") {
    const what = type?.case === undefined ? "it has no type" : KINDS[type.case];
    const text = `${role} '${info.name}' is no tensor (${what}): export the model with tensors only${zipMapAdvice(type?.case)}`;
    throw new ModelFileError("unsupported", text);
  }
  const elementType = type.value.elemType as TensorProto_DataType;
  const dataType = TYPES[elementType];
  if (dataType === undefined) {
    const name = TensorProto_DataType[elementType] ?? String(elementType);
    const advice = dataTypeAdvice(role, elementType);
    const text = `${role} '${info.name}' has elements of type ${name}; served are ${Object.values(TYPES).join(", ")}${advice}`;
    throw new ModelFileError("unsupported", text);
  }
  const dims = type.value.shape?.dim.map(({ value }): Dim => {
    if (value.case === "dimParam") return value.value === "" ? UNNAMED_AXIS : value.value;
    if (value.case === "dimValue" && value.value > 0n) return Number(value.value);
    return UNNAMED_AXIS; // nothing given; some exporters write 0 or −1 for it
  });
  return { name: info.name, type: dataType, dims };
}
