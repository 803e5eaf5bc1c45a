/** Tensors in the protocol's gRPC messages: raw bytes beside the inputs, or typed contents within them. */
import { ID_LENGTH_MAX, TENSOR_NAME_BYTES_MAX, TuttiError, elementCount } from "@tutti/protocol";
import type { OutputTensor } from "../oip/bytes-elements.ts";
import { type GivenTensor, type GivenType, type RegionSlice, sizeOf } from "../oip/given-tensors.ts";
import { type WantedOutput, checkSlice, readDims, readType, sliceOf, wantedOutput } from "../oip/infer-head.ts";
import type { InferMessage } from "./infer-message.ts";
import { type Contents, bytesFromContents, filledField } from "./typed-contents.ts";

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

/**
 * Elements of typed contents, where it isn't known how many the target takes, and elements of BYTES: an input takes one
 * of these, a whole file.
 */
export const GRPC_ELEMENTS_MAX = 65_536;

/** Largest number of elements of an input, by its name. */
export type ElementsMax = (name: string) => number;

/**
 * The request's tensors. Typed contents are read here, and only where the target takes so many elements.
 *
 * @throws {TuttiError} INVALID_INPUT naming the tensor and the problem
 */
export function tensorsOfRequest({ inputs, raw }: InferMessage, elementsMax: ElementsMax): GivenTensor[] {
  const slices = inputs.map(({ name, parameters }, i) => {
    if (name === "" || name.length > TENSOR_NAME_BYTES_MAX)
      throw invalid(`inputs[${i}].name must have 1 to ${TENSOR_NAME_BYTES_MAX} characters (TENSOR_NAME_BYTES_MAX)`);
    return sliceOf(name, parameters);
  });
  // Inputs in shared memory have no raw contents.
  const sent = slices.filter((slice) => slice === undefined).length;
  if (raw.length > 0 && raw.length !== sent)
    throw invalid(`${raw.length} raw_input_contents for ${sent} inputs: give one for each, or none`);
  let nextRaw = 0;
  return inputs.map(({ name, datatype, shape, contents }, i) => {
    const type = readType(name, datatype);
    const dims = readDims(name, shape);
    const slice = slices[i];
    if (slice !== undefined) return inSharedMemory({ name, type, dims, slice }, contents);
    if (raw.length > 0) {
      const field = filledField(contents);
      if (field !== undefined)
        throw invalid(`input "${name}" has both ${field} and raw_input_contents: send one of them`);
      return { name, type, dims, data: rawData(name, type, dims, raw[nextRaw++]!) };
    }
    const most = type === "BYTES" ? GRPC_ELEMENTS_MAX : elementsMax(name);
    const count = elementCount(dims);
    if (count > most)
      throw invalid(`input "${name}": shape [${dims.join(", ")}] has ${count} elements, of at most ${most}`);
    return { name, type, dims, data: bytesFromContents({ name, type, dims }, contents) };
  });
}

function inSharedMemory(
  tensor: Omit<GivenTensor, "data"> & { readonly slice: RegionSlice },
  contents: Contents,
): GivenTensor {
  checkSlice(tensor.name, tensor, tensor.slice);
  if (contents.length > 0)
    throw invalid(`input "${tensor.name}" lies in shared memory and is sent too: do one of them`);
  return { ...tensor, data: NOTHING };
}
const NOTHING = new Uint8Array(0);

/** @throws {TuttiError} INVALID_INPUT naming the output and the problem */
export const outputsOfRequest = ({ outputs }: InferMessage): WantedOutput[] =>
  outputs.map(({ name, parameters }) => wantedOutput(name, parameters));

function rawData(name: string, type: GivenType, dims: readonly number[], data: Uint8Array): Uint8Array {
  const expected = sizeOf(type, dims) ?? data.byteLength;
  if (data.byteLength === expected) return data;
  throw invalid(
    `input "${name}": ${type}[${dims.join(", ")}] takes ${expected} bytes, its raw_input_contents have ${data.byteLength}`,
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

/** @throws {TuttiError} INVALID_INPUT for an id that is too long to be returned */
export function idOfRequest(id: string): string | undefined {
  if (id.length > ID_LENGTH_MAX) throw invalid(`id has at most ${ID_LENGTH_MAX} characters (ID_LENGTH_MAX)`);
  return id === "" ? undefined : id;
}

const invalid = (text: string): TuttiError => new TuttiError("TUTTI_INVALID_INPUT", text);
