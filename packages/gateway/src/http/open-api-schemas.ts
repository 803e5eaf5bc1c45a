/** Schemas of the bodies over HTTP, for the OpenAPI document: as strict as JSON Schema can say it. */
import {
  DATA_TYPES,
  ERROR_STATUS,
  ID_LENGTH_MAX,
  NAME_LENGTH_MAX,
  RANK_MAX,
  TENSORS_MAX,
  TENSOR_NAME_BYTES_MAX,
} from "@tutti/protocol";
import { PARAMETERS_MAX } from "../oip/infer-head.ts";

export type Schema = Readonly<Record<string, unknown>>;
export const text: Schema = { type: "string" };
/** Name of a model, a pipeline or an application. */
export const name: Schema = { type: "string", pattern: "^[A-Za-z0-9][A-Za-z0-9_-]*$", maxLength: NAME_LENGTH_MAX };
const flag: Schema = { type: "boolean" };
const whole: Schema = { type: "integer" };
const number: Schema = { type: "number" };
const list = (items: Schema): Schema => ({ type: "array", items });
export const ref = (name: string): Schema => ({ $ref: `#/components/schemas/${name}` });
const object = (properties: Readonly<Record<string, Schema>>, required = Object.keys(properties)): Schema => ({
  type: "object",
  properties,
  ...(required.length > 0 && { required }),
});
const parameters: Schema = {
  type: ["object", "null"],
  additionalProperties: { type: ["string", "number", "boolean"] },
  maxProperties: PARAMETERS_MAX,
};
const NUMBERS = Object.keys(DATA_TYPES);
const datatype: Schema = { type: "string", enum: [...NUMBERS, "BF16", "BYTES"] };
/** BYTES where the client asked for classes, and for text. */
const answeredType: Schema = { type: "string", enum: [...NUMBERS, "BYTES"] };
const shape: Schema = { ...list({ type: "integer", minimum: 0, maximum: 2 ** 32 - 1 }), maxItems: RANK_MAX };
const tensors = (name: string): Schema => ({ ...list(ref(name)), maxItems: TENSORS_MAX });
const tensorName: Schema = { type: "string", minLength: 1, maxLength: TENSOR_NAME_BYTES_MAX };
const tensorMetadata = object({ name: text, datatype: text, shape: list(whole) });

export const SCHEMAS: Readonly<Record<string, Schema>> = {
  Anything: { type: "object" },
  Empty: { type: "object", additionalProperties: false },
  Live: object({ live: flag }),
  Ready: object({ ready: flag, missing: list(text) }),
  ServerMetadata: object({ name: text, version: text, extensions: list(text) }),
  ModelMetadata: object({
    name: text,
    versions: list(text),
    platform: text,
    inputs: list(tensorMetadata),
    outputs: list(tensorMetadata),
  }),
  ModelReady: object({ name: text, ready: flag }),
  ModelConfig: object({
    name: text,
    platform: text,
    max_batch_size: whole,
    input: list({ type: "object" }),
    output: list({ type: "object" }),
  }),
  Statistics: object({
    model_stats: list(
      object({
        name: text,
        version: text,
        inference_count: whole,
        execution_count: whole,
        inference_stats: { type: "object" },
      }),
    ),
  }),
  RequestTensor: object({ name: tensorName, datatype, shape, parameters, data: ref("TensorData") }, [
    "name",
    "datatype",
    "shape",
  ]),
  /** Flat, or nested by its axes. */
  TensorData: list({ anyOf: [{ type: ["number", "boolean", "string"] }, ref("TensorData")] }),
  WantedOutput: object({ name: text, parameters }, ["name"]),
  InferRequest: object(
    {
      id: { type: ["string", "null"], maxLength: ID_LENGTH_MAX },
      parameters,
      inputs: tensors("RequestTensor"),
      outputs: { ...tensors("WantedOutput"), type: ["array", "null"] },
    },
    ["inputs"],
  ),
  AnswerTensor: object({ name: text, datatype: answeredType, shape, parameters, data: { type: "array" } }, [
    "name",
    "datatype",
    "shape",
  ]),
  InferAnswer: object({ model_name: text, model_version: text, id: text, outputs: tensors("AnswerTensor") }, [
    "model_name",
    "model_version",
    "outputs",
  ]),
  /** KServe's V1 protocol: rows, each the only input or an object of all, or columns; a file is `{"b64": …}`. */
  Instances: { ...object({ instances: { type: "array", minItems: 1 }, inputs: {} }, []), minProperties: 1 },
  Predictions: object({ predictions: { type: "array" }, outputs: {} }, []),
  Models: object({ models: list(name) }),
  IndexRequest: object({ ready: flag }, []),
  LoadRequest: object(
    { parameters: { type: "object", properties: { config: text }, patternProperties: { "^file:": text } } },
    [],
  ),
  Index: list(
    object({
      name: text,
      version: text,
      state: { type: "string", enum: ["READY", "LOADING", "UNAVAILABLE"] },
      reason: text,
    }),
  ),
  Regions: list(object({ name: text, key: text, offset: whole, byte_size: whole })),
  RegionRequest: object(
    { key: text, offset: { type: "integer", minimum: 0 }, byte_size: { type: "integer", minimum: 1 } },
    ["key", "byte_size"],
  ),
  Settings: { type: "object", additionalProperties: { type: ["string", "number", "boolean", "array", "null"] } },
  Scaling: object({ accelerators: whole, gpus: whole, advice: whole, badRate: number, idleShare: number, at: text }),
  Error: object(
    { error: text, code: { type: "string", enum: Object.keys(ERROR_STATUS) }, retryable: flag, retryAfterMs: number },
    ["error"],
  ),
};
