/**
 * The OpenAPI document of the HTTP interface. Its paths are generated from the router's, so that both have the same.
 */
import { MEDIA_TYPES } from "@tutti/onnx-tools";
import { SIZE_HINT_MAX, TUTTI_RELEASE } from "@tutti/protocol";
import { SCHEMAS, type Schema, name, ref, text } from "./open-api-schemas.ts";
import { type Operation, ROUTES } from "./routes.ts";

interface OperationText {
  readonly summary: string;
  /** Schema of the answer's body, in `components/schemas`. */
  readonly answer: string;
  /** Statuses besides 200, 401 (except `KEYLESS`) and 403. */
  readonly errors: readonly number[];
  readonly body?: string;
  readonly isAuthorised?: boolean;
}

const MODEL_ERRORS = [400, 404];
const INFER_ERRORS = [400, 404, 413, 422, 429, 499, 500, 503, 504];
/** Operations that need no key, where the gateway asks for keys. */
const KEYLESS: ReadonlySet<Operation> = new Set<Operation>(["live", "ready"]);

const SETTINGS = { answer: "Settings", errors: [400, 404, 413, 503], body: "Settings" };

const TEXTS: Readonly<Record<Operation, OperationText>> = {
  live: { summary: "This process answers", answer: "Live", errors: [] },
  ready: { summary: "The cluster can answer requests, or what is missing", answer: "Ready", errors: [503] },
  serverMetadata: { summary: "Name, version and extensions", answer: "ServerMetadata", errors: [] },
  modelMetadata: { summary: "Inputs and outputs of a model", answer: "ModelMetadata", errors: MODEL_ERRORS },
  modelReady: { summary: "Whether a model is served", answer: "ModelReady", errors: [...MODEL_ERRORS, 503] },
  modelConfig: { summary: "A model's configuration, as Triton has it", answer: "ModelConfig", errors: MODEL_ERRORS },
  modelStatistics: { summary: "What was counted of a model", answer: "Statistics", errors: MODEL_ERRORS },
  allStatistics: { summary: "What was counted of all models", answer: "Statistics", errors: [] },
  predict: {
    summary: "Ask a model, by KServe's V1 protocol",
    answer: "Predictions",
    errors: INFER_ERRORS,
    body: "Instances",
  },
  modelList: { summary: "Models that are served", answer: "Models", errors: [] },
  infer: { summary: "Ask a model", answer: "InferAnswer", errors: INFER_ERRORS, body: "InferRequest" },
  repositoryIndex: {
    summary: "All models and their states",
    answer: "Index",
    errors: [400, 413, 503],
    body: "IndexRequest",
  },
  repositoryLoad: {
    summary: "Serve a model, sent along or there already",
    answer: "Empty",
    errors: [400, 404, 413, 422, 500, 503],
    body: "LoadRequest",
    isAuthorised: true,
  },
  repositoryUnload: { summary: "Serve a model no longer", answer: "Empty", errors: [400, 404], isAuthorised: true },
  memoryStatus: { summary: "Regions of shared memory that are registered", answer: "Regions", errors: [] },
  memoryRegion: { summary: "One region of shared memory", answer: "Regions", errors: [404] },
  memoryRegister: {
    summary: "Name a part of a file in /dev/shm, for tensors of requests",
    answer: "Empty",
    errors: [400, 413, 503],
    body: "RegionRequest",
  },
  memoryUnregister: { summary: "Give up a region of shared memory", answer: "Empty", errors: [] },
  memoryUnregisterAll: { summary: "Give up all regions of shared memory", answer: "Empty", errors: [] },
  cudaStatus: { summary: "None: CUDA shared memory is not served", answer: "Regions", errors: [] },
  cudaRegister: { summary: "Refused: CUDA shared memory is not served", answer: "Empty", errors: [400] },
  cudaUnregister: { summary: "Nothing to give up", answer: "Empty", errors: [] },
  cudaUnregisterAll: { summary: "Nothing to give up", answer: "Empty", errors: [] },
  traceSettings: { summary: "What is traced", answer: "Settings", errors: [] },
  changeTraceSettings: { summary: "Refused where it would change anything", ...SETTINGS },
  modelTraceSettings: { summary: "What is traced of a model", answer: "Settings", errors: MODEL_ERRORS },
  changeModelTraceSettings: { summary: "Refused where it would change anything", ...SETTINGS },
  logSettings: { summary: "What is logged", answer: "Settings", errors: [] },
  changeLogSettings: { summary: "Refused where it would change anything", ...SETTINGS },
  openapi: { summary: "This document", answer: "Anything", errors: [] },
  scaling: { summary: "How many accelerators the load needs", answer: "Scaling", errors: [503] },
  externalMetrics: { summary: "The External Metrics API of Kubernetes: its metrics", answer: "Anything", errors: [] },
  externalMetric: { summary: "The External Metrics API: one metric", answer: "Anything", errors: [404, 503] },
};

const header = (called: string, description: string, schema = text): Schema => ({
  ...{ name: called, in: "header", description, schema },
});
const INFER_HEADERS: readonly Schema[] = [
  header("tutti-costs", "What a late answer costs, such as 25ms=1, 100ms=3; the first step is the SLO"),
  header("tutti-slo", "How soon the answer is needed, such as 25ms; the model's own SLO when left out", {
    ...{ type: "string", pattern: "^[0-9]+(\\.[0-9]+)?(us|ms|s|m|h)?$" },
  }),
  header("tutti-app", "The application in whose name the request is made; `default` when left out", name),
  header("tutti-priority", "255 is the most urgent", { type: "integer", minimum: 0, maximum: 255 }),
  header("tutti-size", "How long the request is, in its model's own unit", {
    ...{ type: "number", minimum: 0, maximum: SIZE_HINT_MAX },
  }),
  header("traceparent", "W3C trace context"),
  header("Inference-Header-Content-Length", "Bytes of JSON that raw tensors follow", {
    ...{ type: "integer", minimum: 0 },
  }),
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

const DESCRIPTIONS: Readonly<Record<number, string>> = {
  401: "No key or token, or one that is not valid",
  403: "The key or token doesn't allow it, nobody may, or the page of another site asks",
  422: "It would fail again: the deadline is too short even for this request alone, or the model can't be served",
  429: "The application's quota is used up; Retry-After says until when",
  503: "Not now, the same request may be sent again; Retry-After says when, where that is known",
};
const RETRY_AFTER: Schema = { "Retry-After": { description: "Seconds", schema: { type: "integer", minimum: 1 } } };
const HEADERS: Readonly<Record<number, Schema>> = {
  401: { "WWW-Authenticate": { required: true, description: "How to authenticate", schema: text } },
  429: RETRY_AFTER,
  503: RETRY_AFTER,
};

function operationOf(operation: Operation, path: string): Schema {
  const { summary, answer, errors, body, isAuthorised } = TEXTS[operation];
  const inPath = [...path.matchAll(/\{(\w+)\}/g)].map(([, called]) => ({
    ...{ name: called, in: "path", required: true },
    schema: called === "model" ? name : text,
  }));
  const content = (schema: string): Schema => ({ "application/json": { schema: ref(schema) } });
  const failure = (status: number): Schema => ({
    description: DESCRIPTIONS[status] ?? "Refused; the body says why",
    ...(HEADERS[status] !== undefined && { headers: HEADERS[status] }),
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
    operationId: `${operation}${path.includes("{version}") ? "OfVersion" : path.startsWith("/v1/models/") ? "V1" : ""}`,
    summary,
    parameters: [
      ...inPath,
      ...(operation === "infer" ? INFER_HEADERS : operation === "predict" ? INFER_HEADERS.slice(0, -2) : []),
    ],
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
        [...(KEYLESS.has(operation) ? [] : [401]), 403, ...errors].map((status) => [String(status), failure(status)]),
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
        token: { type: "http", scheme: "bearer", description: "The admin token (`--admin-token`)" },
      },
    },
  });
}
