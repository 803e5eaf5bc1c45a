/**
 * Requests and answers in their three public forms. These are JSON as the Open Inference Protocol v2 has it, msgpack of
 * the same structure (where `data` may be the raw bytes), and binary tensor messages. The binary form carries tensors
 * only: the outputs wanted travel in the header Tutti-Outputs.
 */
import {
  CONTENT,
  ID_LENGTH_MAX,
  type InferAnswer,
  type InferRequest,
  RANK_MAX,
  REQUEST_BYTES_MAX,
  TENSORS_MAX,
  TENSOR_NAME_BYTES_MAX,
  type Tensor,
  TuttiError,
  bytesOf,
  elementCount,
  isDataType,
} from "@tutti/protocol";
import { bytesFromJson, bytesFromValues } from "./elements.ts";
import { jsonFromBytes } from "./json-elements.ts";
import { fromOutsideJson, pack, toJson, unpackOutside } from "./msgpack.ts";
import { decodeTensors, encodeTensors, isTensorMessage } from "./tensor-message.ts";

export type Form = "json" | "msgpack" | "binary";

/**
 * Forms by content type. It is a Map, as is every table here in which text from outside is looked up: an object also
 * has `constructor`, which it inherits.
 */
const FORMS: ReadonlyMap<string, Form> = new Map([
  [CONTENT.json, "json"],
  [CONTENT.msgpack, "msgpack"],
  [CONTENT.binary, "binary"],
]);

/** The form that a content type names; without one, what the payload's first bytes show. Undefined: neither. */
export function formOf(contentType: string | undefined, payload: Uint8Array): Form | undefined {
  if (contentType !== undefined && contentType !== "") {
    return FORMS.get(contentType) ?? FORMS.get(contentType.split(";", 1)[0]!.trim().toLowerCase());
  }
  if (isTensorMessage(payload)) return "binary";
  let at = 0;
  while (at < payload.byteLength && payload[at]! <= 0x20) at++;
  return payload[at] === 0x7b ? "json" : undefined;
}

/**
 * Tensors of the binary form, and raw msgpack ones, are views of `payload`.
 * @throws {TuttiError} INVALID_INPUT naming what is wrong and where; TOO_LARGE past REQUEST_BYTES_MAX of tensors
 */
export function decodeRequest(form: Form, payload: Uint8Array): InferRequest {
  if (form === "binary") return { inputs: checkTotal(decodeTensors(payload)) };
  const body = readBody(form, payload);
  const inputs = checkTotal(readTensors(form, body["inputs"], "inputs"));
  const outputs = body["outputs"];
  const { id, parameters } = body;
  if (id !== undefined && id !== null && (typeof id !== "string" || id.length > ID_LENGTH_MAX))
    throw invalid(`id must be a string of at most ${ID_LENGTH_MAX} characters (ID_LENGTH_MAX)`);
  if (parameters !== undefined && parameters !== null && !isMap(parameters))
    throw invalid("parameters must be an object");
  return {
    inputs,
    ...(typeof id === "string" && { id }),
    ...(outputs !== undefined && outputs !== null && { outputs: readWanted(outputs) }),
    ...(isMap(parameters) && { parameters }),
  };
}

export function encodeRequest(form: Form, request: InferRequest): Uint8Array {
  if (form === "binary") return encodeTensors(request.inputs);
  return writeBody(form, {
    ...(request.id !== undefined && { id: request.id }),
    ...(request.parameters !== undefined && { parameters: request.parameters }),
    inputs: request.inputs.map((tensor) => writeTensor(form, tensor)),
    ...(request.outputs !== undefined && { outputs: request.outputs.map((name) => ({ name })) }),
  });
}

export interface AnswerParts {
  readonly model: string;
  readonly version: string;
  readonly id?: string;
  /** The binary message from the executor. */
  readonly tensors: Uint8Array;
  /**
   * Names of the wanted outputs; all if absent. Names that the model doesn't have were refused at admission, and are
   * skipped.
   */
  readonly wanted?: readonly string[];
}

/**
 * Binary without a selection passes `tensors` through untouched.
 * @throws {TuttiError} INVALID_INPUT: `tensors` is no tensor message
 */
export function encodeAnswer(form: Form, answer: AnswerParts): Uint8Array {
  const { wanted } = answer;
  if (form === "binary" && wanted === undefined) return answer.tensors;
  const all = decodeTensors(answer.tensors);
  const tensors =
    wanted === undefined ? all : wanted.flatMap((name) => all.find((tensor) => tensor.name === name) ?? []);
  if (form === "binary") return encodeTensors(tensors);
  return writeBody(form, {
    model_name: answer.model,
    model_version: answer.version,
    ...(answer.id !== undefined && { id: answer.id }),
    outputs: tensors.map((tensor) => writeTensor(form, tensor)),
  });
}

/**
 * Decodes an answer, for clients. The binary form carries neither model nor version: both are then "", and are in the
 * headers.
 * @throws {TuttiError} INVALID_INPUT naming what is wrong
 */
export function decodeAnswer(form: Form, payload: Uint8Array): InferAnswer {
  if (form === "binary") return { model: "", version: "", outputs: decodeTensors(payload) };
  const body = readBody(form, payload);
  const { id } = body;
  return {
    model: textOf(body["model_name"]),
    version: textOf(body["model_version"]),
    ...(typeof id === "string" && { id }),
    outputs: readTensors(form, body["outputs"], "outputs"),
  };
}

type Body = Record<string, unknown>;
const isMap = (value: unknown): value is Body =>
  typeof value === "object" && value !== null && !Array.isArray(value) && !(value instanceof Uint8Array);
const textOf = (value: unknown): string => (typeof value === "string" ? value : "");

function readBody(form: "json" | "msgpack", payload: Uint8Array): Body {
  const body = form === "json" ? fromOutsideJson(payload) : unpackOutside(payload);
  if (!isMap(body)) throw invalid(`the payload is no object but ${describe(body)}`);
  return body;
}

const writeBody = (form: "json" | "msgpack", body: Body): Uint8Array => (form === "json" ? toJson(body) : pack(body));

function readTensors(form: "json" | "msgpack", list: unknown, key: "inputs" | "outputs"): Tensor[] {
  if (!Array.isArray(list)) throw invalid(`${key} must be a list of tensors, got ${describe(list)}`);
  if (list.length > TENSORS_MAX)
    throw invalid(`${key}: ${list.length} tensors, at most ${TENSORS_MAX} are allowed (TENSORS_MAX)`);
  return list.map((entry, i) => readTensor(form, entry, `${key}[${i}]`));
}

function readTensor(form: "json" | "msgpack", entry: unknown, where: string): Tensor {
  if (!isMap(entry)) throw invalid(`${where} must be an object, got ${describe(entry)}`);
  const { name, datatype: type, shape, data } = entry;
  if (typeof name !== "string" || name.length === 0 || name.length > TENSOR_NAME_BYTES_MAX)
    throw invalid(
      `${where}.name must be a string of 1 to ${TENSOR_NAME_BYTES_MAX} characters, got ${describe(name)} (TENSOR_NAME_BYTES_MAX)`,
    );
  if (type === "BYTES") throw invalid(`tensor "${name}": BYTES (strings) is not supported; send numbers`);
  if (typeof type !== "string" || !isDataType(type))
    throw invalid(
      `tensor "${name}": ${describe(type)} is no datatype (BOOL, UINT8 … UINT64, INT8 … INT64, FP16, FP32, FP64)`,
    );
  if (!Array.isArray(shape) || shape.length > RANK_MAX || !shape.every(isSize))
    throw invalid(
      `tensor "${name}": shape must be a list of at most ${RANK_MAX} sizes (RANK_MAX), got ${describe(shape)}`,
    );
  const dims = shape as number[];
  if (data instanceof Uint8Array) {
    const expected = elementCount(dims) * bytesOf(type);
    if (data.byteLength !== expected)
      throw invalid(
        `tensor "${name}": ${type}[${dims.join(", ")}] takes ${expected} bytes of data, got ${data.byteLength}`,
      );
    return { name, type, dims, data };
  }
  if (!Array.isArray(data)) throw invalid(`tensor "${name}": data must be a list of elements, got ${describe(data)}`);
  const toBytes = form === "json" ? bytesFromJson : bytesFromValues;
  return { name, type, dims, data: toBytes(name, type, dims, data) };
}

const isSize = (value: unknown): boolean => typeof value === "number" && value >>> 0 === value;

function writeTensor(form: "json" | "msgpack", { name, type, dims, data }: Tensor): Body {
  return { name, shape: dims, datatype: type, data: form === "json" ? jsonFromBytes(type, data) : data };
}

function readWanted(outputs: unknown): string[] {
  if (!Array.isArray(outputs) || outputs.length > TENSORS_MAX)
    throw invalid(
      `outputs must be a list of at most ${TENSORS_MAX} objects with a name (TENSORS_MAX), got ${describe(outputs)}`,
    );
  return outputs.map((entry, i) => {
    const name: unknown = isMap(entry) ? entry["name"] : undefined;
    if (typeof name !== "string") throw invalid(`outputs[${i}] must be an object with a name, got ${describe(entry)}`);
    return name;
  });
}

function checkTotal(tensors: Tensor[]): Tensor[] {
  const bytes = tensors.reduce((sum, { data }) => sum + data.byteLength, 0);
  if (bytes > REQUEST_BYTES_MAX)
    throw new TuttiError(
      "TUTTI_TOO_LARGE",
      `the inputs have ${bytes} bytes, at most ${REQUEST_BYTES_MAX} are taken (REQUEST_BYTES_MAX): send a smaller tensor or a narrower datatype`,
    );
  return tensors;
}

function describe(value: unknown): string {
  if (value === undefined) return "nothing";
  if (value instanceof Uint8Array) return "bytes";
  if (Array.isArray(value))
    return value.length > 16 ? `a list of ${value.length}` : `[${value.map(describeWithin).join(", ")}]`;
  if (typeof value === "object" && value !== null) return "an object";
  return typeof value === "string" ? JSON.stringify(value.slice(0, 40)) : String(value);
}

/** A list within a list might hold others, thousands deep, so it is not described further. */
const describeWithin = (value: unknown): string => (Array.isArray(value) ? "a list" : describe(value));

const invalid = (text: string): TuttiError => new TuttiError("TUTTI_INVALID_INPUT", text);
