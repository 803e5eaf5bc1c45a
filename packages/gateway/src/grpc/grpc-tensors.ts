/** Tensors in the protocol's gRPC messages: raw bytes beside the inputs, or typed contents within them. */
import { ID_LENGTH_MAX, TENSORS_MAX, TENSOR_NAME_BYTES_MAX, TuttiError, elementCount } from "@tutti/protocol";
import { bytesFromValues } from "@tutti/wire";
import { type OutputTensor, packElements } from "../oip/bytes-elements.ts";
import { type GivenTensor, type GivenType, type RegionSlice, sizeOf } from "../oip/given-tensors.ts";
import {
  PARAMETERS_MAX,
  type Parameters,
  type WantedOutput,
  checkSlice,
  readDims,
  readType,
  sliceOf,
  wantedOutput,
} from "../oip/infer-head.ts";

/** A parameter in the form of @grpc/proto-loader with `longs: String`, `oneofs: true` and `defaults: true`. */
export interface WireParameter {
  readonly parameter_choice?: string;
  readonly bool_param?: boolean;
  readonly int64_param?: string;
  readonly string_param?: string;
  readonly double_param?: number;
  readonly uint64_param?: string;
  readonly bytes_param?: Uint8Array;
}
export type WireParameters = Readonly<Record<string, WireParameter>>;
interface WireContents {
  readonly bool_contents: readonly boolean[];
  readonly int_contents: readonly number[];
  readonly int64_contents: readonly string[];
  readonly uint_contents: readonly number[];
  readonly uint64_contents: readonly string[];
  readonly fp32_contents: readonly number[];
  readonly fp64_contents: readonly number[];
  readonly bytes_contents: readonly Uint8Array[];
}
export interface WireInferRequest {
  readonly model_name: string;
  readonly model_version: string;
  readonly id: string;
  readonly parameters: WireParameters;
  readonly inputs: readonly {
    readonly name: string;
    readonly datatype: string;
    readonly shape: readonly string[];
    readonly parameters: WireParameters;
    readonly contents: WireContents | null;
  }[];
  readonly outputs: readonly { readonly name: string; readonly parameters: WireParameters }[];
  readonly raw_input_contents: readonly Uint8Array[];
}
export interface WireInferResponse {
  readonly model_name: string;
  readonly model_version: string;
  readonly id: string;
  readonly outputs: readonly {
    readonly name: string;
    readonly datatype: string;
    readonly shape: readonly number[];
    readonly parameters: WireParameters;
  }[];
  readonly raw_output_contents: readonly Uint8Array[];
}

/** Field of the protocol that holds a type's elements: FP16 and BF16 travel as raw bytes only. */
const CONTENTS: Readonly<Partial<Record<GivenType, keyof WireContents>>> = {
  BOOL: "bool_contents",
  INT8: "int_contents",
  INT16: "int_contents",
  INT32: "int_contents",
  INT64: "int64_contents",
  UINT8: "uint_contents",
  UINT16: "uint_contents",
  UINT32: "uint_contents",
  UINT64: "uint64_contents",
  FP32: "fp32_contents",
  FP64: "fp64_contents",
};

const CONTENTS_FIELDS = [...new Set(Object.values(CONTENTS)), "bytes_contents"] as const;

/** @throws {TuttiError} INVALID_INPUT naming the tensor and the problem */
export function tensorsOfRequest({ inputs, raw_input_contents: raw }: WireInferRequest): GivenTensor[] {
  if (inputs.length > TENSORS_MAX) throw invalid(`at most ${TENSORS_MAX} inputs are taken (TENSORS_MAX)`);
  const slices = inputs.map(({ name, parameters }, i) => {
    if (name === "" || name.length > TENSOR_NAME_BYTES_MAX)
      throw invalid(`inputs[${i}].name must have 1 to ${TENSOR_NAME_BYTES_MAX} characters (TENSOR_NAME_BYTES_MAX)`);
    return sliceOf(name, parametersOf(`input "${name}"`, parameters));
  });
  // Inputs in shared memory have no raw contents.
  const sent = slices.filter((slice) => slice === undefined).length;
  if (raw.length > 0 && raw.length !== sent)
    throw invalid(`${raw.length} raw_input_contents for ${sent} inputs: give one for each, or none`);
  let nextRaw = 0;
  return inputs.map(({ name, datatype, shape, contents }, i) => {
    const type = readType(name, datatype);
    const dims = readDims(name, shape.map(Number));
    const slice = slices[i];
    if (slice !== undefined) return inSharedMemory({ name, type, dims, slice }, contents);
    const field = filledField(name, contents);
    if (raw.length > 0 && field !== undefined)
      throw invalid(`input "${name}" has both ${field} and raw_input_contents: send one of them`);
    const data =
      raw.length > 0
        ? rawData(name, type, dims, raw[nextRaw++]!)
        : typedData({ name, type, dims, filled: field }, contents);
    return { name, type, dims, data };
  });
}

function inSharedMemory(
  tensor: Omit<GivenTensor, "data"> & { readonly slice: RegionSlice },
  contents: WireContents | null,
): GivenTensor {
  checkSlice(tensor.name, tensor, tensor.slice);
  if (contents !== null) throw invalid(`input "${tensor.name}" lies in shared memory and is sent too: do one of them`);
  return { ...tensor, data: NOTHING };
}
const NOTHING = new Uint8Array(0);

/** @throws {TuttiError} INVALID_INPUT naming the output and the problem */
export function outputsOfRequest({ outputs }: WireInferRequest): WantedOutput[] {
  if (outputs.length > TENSORS_MAX) throw invalid(`at most ${TENSORS_MAX} outputs are taken (TENSORS_MAX)`);
  return outputs.map(({ name, parameters }) =>
    wantedOutput(name, parametersOf(`output "${name.slice(0, 80)}"`, parameters)),
  );
}

function rawData(name: string, type: GivenType, dims: readonly number[], data: Uint8Array): Uint8Array {
  const expected = sizeOf(type, dims) ?? data.byteLength;
  if (data.byteLength === expected) return data;
  throw invalid(
    `input "${name}": ${type}[${dims.join(", ")}] takes ${expected} bytes, its raw_input_contents have ${data.byteLength}`,
  );
}

/** Field of the contents that has elements. @throws {TuttiError} INVALID_INPUT where several have */
function filledField(name: string, contents: WireContents | null): keyof WireContents | undefined {
  const filled = CONTENTS_FIELDS.filter((field) => (contents?.[field].length ?? 0) > 0);
  if (filled.length > 1) throw invalid(`input "${name}" has both ${filled.join(" and ")}: send one of them`);
  return filled[0];
}

interface TypedTensor extends Omit<GivenTensor, "data" | "slice"> {
  readonly filled: keyof WireContents | undefined;
}

function typedData({ name, type, dims, filled }: TypedTensor, contents: WireContents | null): Uint8Array {
  const field = type === "BYTES" ? "bytes_contents" : CONTENTS[type];
  if (type === "BF16" || field === undefined)
    throw invalid(`input "${name}": ${type} has no typed contents; send raw_input_contents`);
  if (filled !== undefined && filled !== field)
    throw invalid(`input "${name}": its elements are in ${filled}, those of ${type} are read from ${field}`);
  if (type === "BYTES") return packedContents(name, dims, contents?.bytes_contents ?? []);
  return bytesFromValues(name, type, dims, contents?.[field] ?? []);
}

function packedContents(name: string, dims: readonly number[], elements: readonly Uint8Array[]): Uint8Array {
  const count = elementCount(dims);
  if (elements.length === count) return packElements(elements);
  throw invalid(
    `tensor "${name}": BYTES of shape [${dims.join(", ")}] has ${count} elements, bytes_contents has ${elements.length}`,
  );
}

/** Makes the response. Outputs always go back raw, as Triton sends them; those in shared memory have no bytes. */
export function responseOf(
  id: string,
  {
    model,
    version,
    outputs,
  }: { readonly model: string; readonly version: string; readonly outputs: readonly OutputTensor[] },
): WireInferResponse {
  return {
    model_name: model,
    model_version: version,
    id,
    outputs: outputs.map(({ name, type, dims, slice }) => {
      return { name, datatype: type, shape: dims, parameters: slice === undefined ? {} : wireSlice(slice) };
    }),
    raw_output_contents: outputs.map(({ data }) => data),
  };
}

const wireSlice = ({ region, offset, bytes }: RegionSlice): WireParameters => ({
  shared_memory_region: { string_param: region },
  shared_memory_offset: { int64_param: String(offset) },
  shared_memory_byte_size: { int64_param: String(bytes) },
});

/** @throws {TuttiError} INVALID_INPUT for a parameter without a value */
export const parametersOfRequest = (given: WireParameters): Parameters => parametersOf("the request", given);

function parametersOf(where: string, given: WireParameters): Parameters {
  checkCount(where, given);
  return Object.fromEntries(Object.entries(given).map(([name, parameter]) => [name, valueOf(name, parameter)]));
}

function checkCount(where: string, parameters: WireParameters): void {
  const count = Object.keys(parameters).length;
  if (count > PARAMETERS_MAX)
    throw invalid(`${where} has ${count} parameters, at most ${PARAMETERS_MAX} are read (PARAMETERS_MAX)`);
}

/** @throws {TuttiError} INVALID_INPUT for an id that is too long to be returned */
export function idOfRequest(id: string): string | undefined {
  if (id.length > ID_LENGTH_MAX) throw invalid(`id has at most ${ID_LENGTH_MAX} characters (ID_LENGTH_MAX)`);
  return id === "" ? undefined : id;
}

function valueOf(name: string, parameter: WireParameter): string | number | boolean {
  const { bool_param: flag, string_param: text, double_param: number } = parameter;
  switch (parameter.parameter_choice) {
    case "bool_param":
      return flag ?? false;
    case "string_param":
      return text ?? "";
    case "double_param":
      return number ?? 0;
    case "int64_param":
      return Number(parameter.int64_param);
    case "uint64_param":
      return Number(parameter.uint64_param);
    default:
      throw invalid(`the parameter ${name.slice(0, 80)} has no value`);
  }
}

const invalid = (text: string): TuttiError => new TuttiError("TUTTI_INVALID_INPUT", text);
