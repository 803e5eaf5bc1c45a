/**
 * KServe's V1 protocol (`:predict`), in the forms of TensorFlow Serving: rows (`instances`, answered as `predictions`)
 * or columns (`inputs`, answered as `outputs`). It is read into the head of a request of the Open Inference Protocol.
 * Pure, so that a worker thread can read long bodies.
 */
import { RANK_MAX, TENSORS_MAX, TuttiError } from "@tutti/protocol";
import { fromOutsideJson, jsonFromBytes } from "@tutti/wire";
import { packElements, textsOf } from "./bytes-elements.ts";
import type { AnswerHead, AnswerTensor } from "./infer-answer.ts";
import { type HeadTensor, type InferHead, bytesFromData, readInferHead, readType } from "./infer-head.ts";
import type { TensorMetadata } from "./model-descriptions.ts";

/** The form of the answer: columns, or the number of rows. */
export type PredictForm = "columns" | number;

/** @param predict - the model's inputs, where the body is one of V1. @throws {TuttiError} INVALID_INPUT */
export const readHead = (json: Uint8Array, predict: readonly TensorMetadata[] | undefined): InferHead =>
  predict === undefined ? readInferHead(json) : readPredictHead(json, predict);

/**
 * @param own - the inputs that the model has: V1 names no types
 * @throws {TuttiError} INVALID_INPUT naming the problem and its place
 */
export function readPredictHead(json: Uint8Array, own: readonly TensorMetadata[]): InferHead {
  const body = fromOutsideJson(json);
  const { instances, inputs } = isMap(body) ? body : {};
  if ((instances === undefined) === (inputs === undefined))
    throw invalid('the body must be a JSON object with either "instances" (rows) or "inputs" (columns)');
  if (instances === undefined) return headOf(columnsOf(inputs, own), own, "columns");
  if (!Array.isArray(instances) || instances.length === 0)
    throw invalid("instances must be a list with at least one row");
  return headOf(columnsOfRows(instances, own), own, instances.length);
}

function headOf(columns: readonly Column[], own: readonly TensorMetadata[], form: PredictForm): InferHead {
  if (columns.length > TENSORS_MAX) throw tooMany();
  const inputs = columns.map(([name, value]) => tensorOf(name, value, { own, form }));
  return { id: undefined, inputs, outputs: undefined, parameters: {}, form };
}

const tooMany = () => invalid(`at most ${TENSORS_MAX} inputs are read (TENSORS_MAX)`);

type Column = readonly [name: string, value: unknown];

function columnsOf(inputs: unknown, own: readonly TensorMetadata[]): Column[] {
  return isMap(inputs) && !isBase64(inputs) ? Object.entries(inputs) : [[onlyNameOf(own), inputs]];
}

function columnsOfRows(instances: readonly unknown[], own: readonly TensorMetadata[]): Column[] {
  const [first] = instances;
  if (!isMap(first) || isBase64(first)) return [[onlyNameOf(own), instances]];
  const names = Object.keys(first);
  if (names.length > TENSORS_MAX) throw tooMany();
  const told = names.slice(0, 8).map((name) => name.slice(0, 80));
  instances.forEach((row, i) => {
    if (!isMap(row) || Object.keys(row).length !== names.length || !names.every((name) => Object.hasOwn(row, name)))
      throw invalid(`instances[${i}] must be an object with the inputs of instances[0]: ${told.join(", ")}`);
  });
  return names.map((name) => [name, instances.map((row) => (row as JsonMap)[name])]);
}

function onlyNameOf(own: readonly TensorMetadata[]): string {
  const [only, ...more] = own;
  if (only !== undefined && more.length === 0) return only.name;
  throw invalid(
    `the model takes ${own.map(({ name }) => `"${name}"`).join(", ")}: name them, as in {"${only?.name}": …}`,
  );
}

interface Asked {
  readonly own: readonly TensorMetadata[];
  readonly form: PredictForm;
}

function tensorOf(name: string, value: unknown, { own, form }: Asked): HeadTensor {
  const expected = own.find((one) => one.name === name);
  if (expected === undefined) throw invalid(`there is no input "${name.slice(0, 80)}"`);
  const list: unknown[] = Array.isArray(value) ? value : [value];
  if (isBase64(list[0])) return fileOf(name, list);
  const type = readType(name, expected.datatype);
  let dims = Array.isArray(value) ? sizesOf(value) : [];
  let values = list;
  if (form === 1 && dims.length === expected.shape.length + 1) {
    // The row of a model without a batch axis is all of its input.
    dims = dims.slice(1);
    if (dims.length > 0) values = list[0] as unknown[];
  }
  const data = bytesFromData(name, type, dims, values);
  return { name, type, dims, data, bytes: data.byteLength, isText: type === "BYTES" };
}

/** A file, in the encoding of bytes that V1 has: `{"b64": …}`. */
function fileOf(name: string, values: readonly unknown[]): HeadTensor {
  const data = packElements(
    values.map((value) => {
      if (isBase64(value) && /^[A-Za-z0-9+/]*={0,2}$/.test(value.b64)) return Buffer.from(value.b64, "base64");
      throw invalid(`input "${name}": {"b64": …} is bytes in base64`);
    }),
  );
  return { name, type: "BYTES", dims: [values.length], data, bytes: data.byteLength };
}

/** Lengths of the lists by depth; `bytesFromData` compares the others with the first of each depth. */
function sizesOf(value: readonly unknown[]): number[] {
  const sizes: number[] = [];
  for (let list: unknown = value; Array.isArray(list) && sizes.length <= RANK_MAX; list = list[0])
    sizes.push(list.length);
  return sizes;
}

/** Writes the answer. Numbers without a JSON literal are texts, as in answers of V2. */
export function predictText({ outputs }: AnswerHead, form: PredictForm): string {
  const values = outputs.map((output) => [output.name, nestedOf(output)] as const);
  if (form === "columns") return JSON.stringify({ outputs: namedOf(values) });
  const isByRows = outputs.every(({ dims }) => dims[0] === form);
  const rows = Array.from({ length: isByRows ? form : 1 }, (_, row) =>
    namedOf(isByRows ? values.map(([name, value]) => [name, (value as unknown[])[row]] as const) : values),
  );
  return JSON.stringify({ predictions: rows });
}

/** The value of the only output, or an object of all by name. */
const namedOf = (values: readonly (readonly [string, unknown])[]): unknown =>
  values.length === 1 ? values[0]![1] : Object.fromEntries(values);

function nestedOf({ type, dims, data }: AnswerTensor): unknown {
  let values: unknown[] = type === "BYTES" ? textsOf(data) : jsonFromBytes(type, data);
  if (dims.length === 0) return values[0];
  for (const size of dims.slice(1).reverse())
    values = Array.from({ length: size === 0 ? 0 : values.length / size }, (_, i) =>
      values.slice(i * size, (i + 1) * size),
    );
  return values;
}

type JsonMap = Readonly<Record<string, unknown>>;
const isMap = (value: unknown): value is JsonMap =>
  typeof value === "object" && value !== null && !Array.isArray(value);
const isBase64 = (value: unknown): value is { readonly b64: string } =>
  isMap(value) && typeof value["b64"] === "string" && Object.keys(value).length === 1;
const invalid = (text: string): TuttiError => new TuttiError("TUTTI_INVALID_INPUT", text);
