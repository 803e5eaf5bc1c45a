/**
 * The JSON part of an inference request. It is all of the body, or, with the binary tensor extension, the part before
 * the raw tensors. Pure, so that a worker thread can read long ones.
 */
import {
  ID_LENGTH_MAX,
  RANK_MAX,
  TENSORS_MAX,
  TENSOR_NAME_BYTES_MAX,
  TuttiError,
  elementCount,
  isDataType,
} from "@tutti/protocol";
import { bytesFromJson, fromOutsideJson } from "@tutti/wire";
import { TEXTS_MAX, packElements } from "./bytes-elements.ts";
import { type GivenTensor, type GivenType, type RegionSlice, isWhole, sizeOf } from "./given-tensors.ts";
import type { PredictForm } from "./predict.ts";

/** A tensor whose bytes were in the JSON, or follow it. */
export interface HeadTensor {
  readonly name: string;
  readonly type: GivenType;
  readonly dims: readonly number[];
  /** Undefined: the next `bytes` after the JSON. */
  readonly data: Uint8Array | undefined;
  readonly bytes: number;
  /** Its place in shared memory, if it is there. */
  readonly slice?: RegionSlice | undefined;
  readonly isText?: boolean | undefined;
}
export interface WantedOutput {
  readonly name: string;
  /** Undefined: the request's parameter for all outputs applies. */
  readonly isBinary: boolean | undefined;
  /** Number of its greatest elements to return by name, instead of all by value. */
  readonly classes: number | undefined;
  /** Place in shared memory to write it to, instead of sending it. */
  readonly slice: RegionSlice | undefined;
}
export type Parameters = Readonly<Record<string, string | number | boolean>>;

export interface InferHead {
  readonly id: string | undefined;
  readonly inputs: readonly HeadTensor[];
  /** Undefined: all outputs. */
  readonly outputs: readonly WantedOutput[] | undefined;
  readonly parameters: Parameters;
  /** Undefined: the answer is one of the Open Inference Protocol. */
  readonly form?: PredictForm;
}

export const PARAMETERS_MAX = 64;

/** @throws {TuttiError} INVALID_INPUT naming the problem and its place */
export function readInferHead(json: Uint8Array): InferHead {
  const body = fromOutsideJson(json);
  if (!isMap(body)) throw invalid("the body must be a JSON object with inputs");
  const { id, inputs, outputs } = body;
  if (id !== undefined && id !== null && (typeof id !== "string" || id.length > ID_LENGTH_MAX))
    throw invalid(`id must be a string of at most ${ID_LENGTH_MAX} characters (ID_LENGTH_MAX)`);
  if (!Array.isArray(inputs) || inputs.length > TENSORS_MAX)
    throw invalid(`inputs must be a list of at most ${TENSORS_MAX} tensors (TENSORS_MAX)`);
  return {
    id: typeof id === "string" && id !== "" ? id : undefined,
    inputs: inputs.map((input, i) => readTensor(input, `inputs[${i}]`)),
    outputs: outputs === undefined || outputs === null ? undefined : readOutputs(outputs),
    parameters: readParameters(body["parameters"], "parameters"),
  };
}

/**
 * The request's tensors; those behind the JSON are views of it.
 *
 * @param tail - the raw tensors one after the other, in the order of the inputs
 * @throws {TuttiError} INVALID_INPUT when the sizes don't add up
 */
export function tensorsOf({ inputs }: InferHead, tail: Uint8Array): GivenTensor[] {
  let at = 0;
  const tensors = inputs.map(({ name, type, dims, data, bytes, slice, isText }) => {
    if (data !== undefined) return { name, type, dims, data, isText };
    const end = at + bytes;
    if (end > tail.byteLength)
      throw invalid(
        `input "${name}": its ${bytes} binary bytes end beyond the body, which has ${tail.byteLength} behind the JSON`,
      );
    const own = tail.subarray(at, end);
    at = end;
    return { name, type, dims, data: own, slice };
  });
  if (at !== tail.byteLength)
    throw invalid(`${tail.byteLength} bytes follow the JSON, but the inputs' binary_data_size add up to ${at}`);
  return tensors;
}

function readTensor(value: unknown, where: string): HeadTensor {
  if (!isMap(value)) throw invalid(`${where} must be an object`);
  const { name, datatype: type, shape, data } = value;
  if (typeof name !== "string" || name === "" || name.length > TENSOR_NAME_BYTES_MAX)
    throw invalid(`${where}.name must be a string of 1 to ${TENSOR_NAME_BYTES_MAX} characters (TENSOR_NAME_BYTES_MAX)`);
  const dims = readDims(name, shape);
  const known = readType(name, type);
  const parameters = readParameters(value["parameters"], `${where}.parameters`);
  const size = parameters["binary_data_size"];
  const slice = sliceOf(name, parameters);
  if (slice !== undefined) {
    if (data !== undefined || size !== undefined)
      throw invalid(`input "${name}" lies in shared memory and is sent too: do one of them`);
    checkSlice(name, { type: known, dims }, slice);
    return { name, type: known, dims, data: undefined, bytes: 0, slice };
  }
  if (size === undefined) {
    if (data !== undefined && !Array.isArray(data)) throw invalid(`input "${name}": data must be a list`);
    if (data === undefined) throw invalid(`input "${name}" has neither data nor a binary_data_size`);
    const own = bytesFromData(name, known, dims, data);
    return { name, type: known, dims, data: own, bytes: own.byteLength, isText: known === "BYTES" };
  }
  if (data !== undefined) throw invalid(`input "${name}" has both data and a binary_data_size: send one of them`);
  const expected = sizeOf(known, dims) ?? size;
  if (size !== expected)
    throw invalid(
      `input "${name}": ${known}[${dims.join(", ")}] takes ${expected} bytes, its binary_data_size is ${size}`,
    );
  if (!isWhole(size)) throw invalid(`input "${name}": binary_data_size is a whole number of bytes`);
  return { name, type: known, dims, data: undefined, bytes: size };
}

/** Bytes of a tensor from JSON values; those of BYTES are texts. @throws {TuttiError} INVALID_INPUT */
export function bytesFromData(name: string, type: GivenType, dims: readonly number[], data: unknown[]): Uint8Array {
  if (type === "BYTES") return packedTexts(name, dims, data);
  if (type === "BF16")
    throw invalid(`input "${name}": BF16 has no form in JSON; send its bytes (binary_data_size), or FP32`);
  return bytesFromJson(name, type, dims, data);
}

function packedTexts(name: string, dims: readonly number[], data: unknown[]): Uint8Array {
  const texts = data.flat(RANK_MAX);
  if (texts.length > TEXTS_MAX || texts.length !== elementCount(dims))
    throw invalid(
      `input "${name}": shape [${dims.join(", ")}] has ${elementCount(dims)} elements, data has ${texts.length}, of at most ${TEXTS_MAX} (TEXTS_MAX)`,
    );
  const encoder = new TextEncoder();
  return packElements(
    texts.map((text, i) => {
      if (typeof text === "string") return encoder.encode(text);
      throw invalid(`input "${name}": element ${i} of BYTES is no text`);
    }),
  );
}

/** @throws {TuttiError} INVALID_INPUT */
export function readType(name: string, type: unknown): GivenType {
  if (type === "BF16" || type === "BYTES") return type;
  if (typeof type !== "string" || !isDataType(type))
    throw invalid(
      `tensor "${name}": datatype ${given(type)} is none of BOOL, UINT8 … UINT64, INT8 … INT64, FP16, BF16, FP32, FP64 and BYTES`,
    );
  return type;
}

/** @throws {TuttiError} INVALID_INPUT */
export function readDims(name: string, shape: unknown): number[] {
  const isSize = (size: unknown): boolean => typeof size === "number" && size >>> 0 === size;
  if (!Array.isArray(shape) || shape.length > RANK_MAX || !shape.every(isSize))
    throw invalid(
      `tensor "${name}": shape must be a list of at most ${RANK_MAX} sizes (RANK_MAX), whole numbers from 0 to 4294967295; it is ${given(shape)}`,
    );
  return shape as number[];
}

/** A value from outside as an error shows it: shortened, and in JSON. */
const given = (value: unknown): string => (value === undefined ? "missing" : JSON.stringify(value).slice(0, 40));

/**
 * Place of a tensor in shared memory, from its parameters.
 *
 * @returns undefined: not in shared memory
 * @throws {TuttiError} INVALID_INPUT
 */
export function sliceOf(name: string, parameters: Parameters): RegionSlice | undefined {
  const { shared_memory_region: region, shared_memory_byte_size: bytes } = parameters;
  const { shared_memory_offset: offset = 0 } = parameters;
  if (region === undefined) return undefined;
  if (typeof region !== "string" || region === "" || region.length > REGION_LENGTH)
    throw invalid(`tensor "${name}": shared_memory_region is a name of 1 to ${REGION_LENGTH} characters`);
  if (!isWhole(bytes) || !isWhole(offset))
    throw invalid(`tensor "${name}": shared_memory_byte_size and shared_memory_offset are whole numbers of bytes`);
  return { region, offset, bytes };
}
const REGION_LENGTH = 256;

/** @throws {TuttiError} INVALID_INPUT where the slice is not as long as the tensor */
export function checkSlice(
  name: string,
  { type, dims }: Pick<GivenTensor, "type" | "dims">,
  { bytes }: RegionSlice,
): void {
  const expected = sizeOf(type, dims) ?? bytes;
  if (bytes !== expected)
    throw invalid(
      `input "${name}": ${type}[${dims.join(", ")}] takes ${expected} bytes, its shared_memory_byte_size is ${bytes}`,
    );
}

function readOutputs(outputs: unknown): WantedOutput[] {
  if (!Array.isArray(outputs) || outputs.length > TENSORS_MAX)
    throw invalid(`outputs must be a list of at most ${TENSORS_MAX} objects with a name (TENSORS_MAX)`);
  return outputs.map((output, i) => {
    const name: unknown = isMap(output) ? output["name"] : undefined;
    if (!isMap(output) || typeof name !== "string") throw invalid(`outputs[${i}] must be an object with a name`);
    return wantedOutput(name, readParameters(output["parameters"], `outputs[${i}].parameters`));
  });
}

/** @throws {TuttiError} INVALID_INPUT naming the output and the problem */
export function wantedOutput(name: string, parameters: Parameters): WantedOutput {
  const slice = sliceOf(name, parameters);
  const classes = classesOf(name, parameters);
  if (slice !== undefined && classes !== undefined)
    throw invalid(`output "${name}": its greatest elements are sent, and not written to shared memory`);
  return { name, isBinary: flagOf(parameters, "binary_data"), classes, slice };
}

/** Number of classes wanted; some clients send 0 for none. */
function classesOf(name: string, { classification: classes }: Parameters): number | undefined {
  if (classes === undefined || classes === 0) return undefined;
  if (typeof classes === "number" && Number.isInteger(classes) && classes > 0) return classes;
  throw invalid(`output "${name}": classification is a whole number, of the greatest elements that are wanted`);
}

/** A boolean parameter; undefined where it is missing. @throws {TuttiError} INVALID_INPUT */
export function flagOf(parameters: Parameters, name: string): boolean | undefined {
  const value = parameters[name];
  if (value === undefined || typeof value === "boolean") return value;
  throw invalid(`the parameter ${name} is true or false`);
}

function readParameters(value: unknown, where: string): Parameters {
  if (value === undefined || value === null) return {};
  if (!isMap(value)) throw invalid(`${where} must be an object`);
  const entries = Object.entries(value);
  if (entries.length > PARAMETERS_MAX) throw invalid(`${where}: at most ${PARAMETERS_MAX} parameters are read`);
  for (const [, given] of entries)
    if (!["string", "number", "boolean"].includes(typeof given))
      throw invalid(`${where}: parameters are texts, numbers, true or false`);
  return Object.fromEntries(entries) as Parameters;
}

const isMap = (value: unknown): value is Record<string, unknown> =>
  typeof value === "object" && value !== null && !Array.isArray(value);
const invalid = (text: string): TuttiError => new TuttiError("TUTTI_INVALID_INPUT", text);
