/**
 * The OpenAPI document of the HTTP interface. Its paths are generated from the router's, so that both have the same.
 */
import { MEDIA_TYPES } from "@tutti/onnx-tools";
import { DATA_TYPES, ERROR_STATUS, RANK_MAX, TENSORS_MAX, TUTTI_RELEASE } from "@tutti/protocol";
import { type Operation, ROUTES } from "./routes.ts";

interface OperationText {
  readonly summary: string;
  /** Schema of the answer's body, in `components/schemas`. */
  readonly answer: string;
  /** Statuses besides 200. */
  readonly errors: readonly number[];
  readonly body?: string;
  readonly isAuthorised?: boolean;
}

const MODEL_ERRORS = [400, 404];
const INFER_ERRORS = [400, 403, 404, 413, 429, 499, 500, 503, 504];
/** Operations that need no key, where the gateway asks for keys. */
const KEYLESS: ReadonlySet<Operation> = new Set<Operation>(["live", "ready"]);

const TEXTS: Readonly<Record<Operation, OperationText>> = {
  live: { summary: "This process answers", answer: "Live", errors: [] },
  ready: { summary: "The cluster can answer requests, or what is missing", answer: "Ready", errors: [503] },
  serverMetadata: { summary: "Name, version and extensions", answer: "ServerMetadata", errors: [] },
  modelMetadata: { summary: "Inputs and outputs of a model", answer: "ModelMetadata", errors: MODEL_ERRORS },
  modelReady: { summary: "Whether a model is served", answer: "ModelReady", errors: [...MODEL_ERRORS, 503] },
  modelConfig: { summary: "A model's configuration, as Triton has it", answer: "ModelConfig", errors: MODEL_ERRORS },
  modelStatistics: { summary: "What was counted of a model", answer: "Statistics", errors: MODEL_ERRORS },
  allStatistics: { summary: "What was counted of all models", answer: "Statistics", errors: [] },
  infer: { summary: "Ask a model", answer: "InferAnswer", errors: INFER_ERRORS, body: "InferRequest" },
  repositoryIndex: { summary: "All models and their states", answer: "Index", errors: [403], isAuthorised: true },
  repositoryLoad: {
    summary: "Serve a model, sent along or there already",
    answer: "Empty",
    errors: [400, 403, 404, 413, 503],
    body: "LoadRequest",
    isAuthorised: true,
  },
  repositoryUnload: { summary: "Serve a model no longer", answer: "Empty", errors: [403, 404], isAuthorised: true },
  memoryStatus: { summary: "Regions of shared memory that are registered", answer: "Regions", errors: [403] },
  memoryRegion: { summary: "One region of shared memory", answer: "Regions", errors: [403, 404] },
  memoryRegister: {
    summary: "Name a part of a file in /dev/shm, for tensors of requests",
    answer: "Empty",
    errors: [400, 403, 413, 503],
    body: "RegionRequest",
  },
  memoryUnregister: { summary: "Give up a region of shared memory", answer: "Empty", errors: [403] },
  memoryUnregisterAll: { summary: "Give up all regions of shared memory", answer: "Empty", errors: [403] },
  openapi: { summary: "This document", answer: "Anything", errors: [] },
  scaling: { summary: "How many accelerators the load needs", answer: "Scaling", errors: [503] },
  externalMetrics: { summary: "The External Metrics API of Kubernetes: its metrics", answer: "Anything", errors: [] },
  externalMetric: { summary: "The External Metrics API: one metric", answer: "Anything", errors: [404, 503] },
};

type Schema = Readonly<Record<string, unknown>>;
const text: Schema = { type: "string" };
const flag: Schema = { type: "boolean" };
const whole: Schema = { type: "integer" };
const number: Schema = { type: "number" };
const list = (items: Schema): Schema => ({ type: "array", items });
const ref = (name: string): Schema => ({ $ref: `#/components/schemas/${name}` });
const object = (properties: Readonly<Record<string, Schema>>, required = Object.keys(properties)): Schema => ({
  type: "object",
  properties,
  ...(required.length > 0 && { required }),
});
const parameters: Schema = { type: "object", additionalProperties: { type: ["string", "number", "boolean"] } };
const NUMBERS = Object.keys(DATA_TYPES);
const datatype: Schema = { type: "string", enum: [...NUMBERS, "BF16", "BYTES"] };
/** BYTES where the client asked for classes. */
const answeredType: Schema = { type: "string", enum: [...NUMBERS, "BYTES"] };
const shape: Schema = { ...list({ type: "integer", minimum: 0 }), maxItems: RANK_MAX };
const tensors = (name: string): Schema => ({ ...list(ref(name)), maxItems: TENSORS_MAX });
const tensorMetadata = object({ name: text, datatype: text, shape: list(whole) });

const SCHEMAS: Readonly<Record<string, Schema>> = {
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
  RequestTensor: object({ name: text, datatype, shape, parameters, data: { type: "array" } }, [
    "name",
    "datatype",
    "shape",
  ]),
  WantedOutput: object({ name: text, parameters }, ["name"]),
  InferRequest: object({ id: text, parameters, inputs: tensors("RequestTensor"), outputs: tensors("WantedOutput") }, [
    "inputs",
  ]),
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
  LoadRequest: object({ parameters: { type: "object", additionalProperties: text } }, []),
  Index: list(
    object({
      name: text,
      version: text,
      state: { type: "string", enum: ["READY", "LOADING", "UNAVAILABLE"] },
      reason: text,
    }),
  ),
  Regions: list(object({ name: text, key: text, offset: whole, byte_size: whole })),
  RegionRequest: object({ key: text, offset: whole, byte_size: whole }, ["key", "byte_size"]),
  Scaling: object({ accelerators: whole, gpus: whole, advice: whole, badRate: number, idleShare: number, at: text }),
  Error: object(
    { error: text, code: { type: "string", enum: Object.keys(ERROR_STATUS) }, retryable: flag, retryAfterMs: number },
    ["error"],
  ),
};

const header = (name: string, description: string): Schema => ({ name, in: "header", description, schema: text });
const INFER_HEADERS: readonly Schema[] = [
  header("tutti-costs", "What a late answer costs, such as 25ms=1, 100ms=3; the first step is the SLO"),
  header("tutti-slo", "How soon the answer is needed, such as 25ms; the model's own SLO when left out"),
  header("tutti-app", "The application in whose name the request is made; `default` when left out"),
  header("tutti-priority", "0 to 255"),
  header("tutti-size", "How long the request is, in its model's own unit"),
  header("traceparent", "W3C trace context"),
  header("Inference-Header-Content-Length", "Bytes of JSON that raw tensors follow"),
  header("Accept", "application/octet-stream: outputs as raw bytes, where the body is a picture or a sound"),
];

const file = (description: string): Schema => ({ schema: { type: "string", format: "binary", description } });
const FILE_TEXT =
  "A file as it is, where the model's configuration names a pre-processor (preprocess), or for a pipeline";
const INFER_FILES: Readonly<Record<string, Schema>> = {
  "application/octet-stream": file("JSON, and raw tensors behind it (Inference-Header-Content-Length)"),
  ...Object.fromEntries(MEDIA_TYPES.map((type) => [type, file(FILE_TEXT)])),
};

/** Operations whose errors have bodies of their own, such as `ModelReady` and `Ready` with 503. */
const OWN_ERROR_BODY: ReadonlySet<Operation> = new Set<Operation>(["ready", "modelReady", "externalMetric"]);

function operationOf(operation: Operation, path: string): Schema {
  const { summary, answer, errors, body, isAuthorised } = TEXTS[operation];
  const inPath = [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => ({
    name,
    in: "path",
    required: true,
    schema: text,
  }));
  const content = (schema: string): Schema => ({ "application/json": { schema: ref(schema) } });
  const failure = (status: number): Schema => ({
    description: status === 503 ? "Not now; Retry-After says when" : "Refused; the body says why",
    content: content(
      OWN_ERROR_BODY.has(operation) && status === 503
        ? operation === "externalMetric"
          ? "Anything"
          : answer
        : operation === "externalMetric"
          ? "Anything"
          : "Error",
    ),
  });
  return {
    operationId: `${operation}${path.includes("{version}") ? "OfVersion" : ""}`,
    summary,
    parameters: [...inPath, ...(operation === "infer" ? INFER_HEADERS : [])],
    ...(body !== undefined && {
      requestBody: {
        content: {
          ...content(body),
          ...(operation === "infer" && INFER_FILES),
        },
      },
    }),
    ...(isAuthorised === true && { security: [{ key: [] }, { token: [] }] }),
    responses: {
      "200": { description: summary, content: content(answer) },
      ...Object.fromEntries(
        [...(KEYLESS.has(operation) ? [] : [401]), ...errors].map((status) => [String(status), failure(status)]),
      ),
    },
  };
}

let made: Schema | undefined;

/** OpenAPI 3.1. */
export function openApi(): Schema {
  const paths: Record<string, Record<string, Schema>> = {};
  for (const { method, path, operation } of ROUTES)
    (paths[path] ??= {})[method.toLowerCase()] = operationOf(operation, path);
  return (made ??= {
    openapi: "3.1.0",
    info: {
      title: "Tutti",
      version: TUTTI_RELEASE,
      summary:
        "The Open Inference Protocol, its binary tensor extension, and what Tutti adds: SLOs, applications and typed refusals",
      license: { name: "Apache-2.0", identifier: "Apache-2.0" },
    },
    paths,
    // A key where the gateway asks for one, as it does beyond loopback; else nothing.
    security: [{ key: [] }, {}],
    components: {
      schemas: SCHEMAS,
      securitySchemes: {
        key: {
          type: "http",
          scheme: "bearer",
          description:
            "An API key (`tutti auth key`) or a signed token (JWT) of one application; administrators' may more",
        },
        token: { type: "http", scheme: "bearer", description: "The token of `--repository-token`" },
      },
    },
  });
}
