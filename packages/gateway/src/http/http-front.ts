/** The Open Inference Protocol over HTTP. */
import type { IncomingMessage, Server, ServerResponse } from "node:http";
import { mediaInputOf, mediaKindOf, presentationOf } from "@tutti/onnx-tools";
import { type ModelSpec, TuttiError } from "@tutti/protocol";
import { fromOutsideJson } from "@tutti/wire";
import { bodyBytesOf } from "../auth/access.ts";
import type { TlsPair } from "../auth/tls-pair.ts";
import { type ConsoleApi, isConsolePath } from "../console/console-api.ts";
import type { InferenceService } from "../inference-service.ts";
import { type HttpAnswer, failureAnswer, heldUntilSent, send } from "./answers.ts";
import { boundedServer } from "./bounded-server.ts";
import { ClientGone } from "./client-gone.ts";
import type { BodyReader } from "./body-reader.ts";
import { inferOverHttp } from "./http-infer.ts";
import { inferMediaOverHttp } from "./http-media.ts";
import { type MemoryCall, memoryStatus, registerMemory, unregisterMemory } from "./http-shared-memory.ts";
import type { TensorMetadata } from "../oip/model-descriptions.ts";
import { type Settings, noCudaMemory, unchanged } from "../oip/triton-settings.ts";
import { openApi } from "./open-api.ts";
import type { PageGuard } from "./page-guard.ts";
import { type Operation, type RouteMatch, matchRoute } from "./routes.ts";

type Handler = (call: Call) => HttpAnswer | Promise<HttpAnswer>;
interface Call {
  readonly request: IncomingMessage;
  readonly params: RouteMatch["params"];
  readonly path: string;
  readonly gone: ClientGone;
  /** Application of the request's key, where the gateway asks for keys. */
  readonly app?: string | undefined;
}

export interface HttpFrontOptions {
  readonly guard: PageGuard;
  /** Default: plain text. */
  readonly tls?: TlsPair | undefined;
}

/** Operations that need no key: whether the gateway lives, and whether it serves. */
const KEYLESS: ReadonlySet<Operation> = new Set<Operation>(["live", "ready"]);

export class HttpFront {
  readonly server: Server;
  readonly #inferenceService: InferenceService;
  readonly #bodies: BodyReader;
  readonly #console: ConsoleApi;
  readonly #guard: PageGuard;
  readonly #handlers: Readonly<Record<Operation, Handler>>;
  asked = 0;

  constructor(
    inferenceService: InferenceService,
    bodies: BodyReader,
    api: ConsoleApi,
    { guard, tls }: HttpFrontOptions,
  ) {
    this.#inferenceService = inferenceService;
    this.#bodies = bodies;
    this.#console = api;
    this.#guard = guard;
    this.#handlers = this.#operations();
    this.server = boundedServer((request, response) => void this.#serve(request, response), { tls });
  }

  /** Never rejects. */
  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    this.asked++;
    const gone = new ClientGone(response);
    request.on("error", () => undefined); // the response's end shows the disconnect
    let answer: HttpAnswer | undefined;
    try {
      answer = await this.#answer(request, response, gone);
    } catch (error) {
      answer = failureAnswer(error);
      if (!(error instanceof TuttiError))
        this.#inferenceService.log.error({ error: String(error) }, "a request over HTTP failed");
    }
    if (answer === undefined) return; // A stream has begun.
    answer = heldUntilSent(answer, response, this.#bodies);
    if (!request.complete) {
      // The rest of an unread body is not waited for: the connection ends with the answer.
      request.resume();
      answer = { ...answer, headers: { ...answer.headers, connection: "close" } };
    }
    send(response, answer);
  }

  #answer(
    request: IncomingMessage,
    response: ServerResponse,
    gone: ClientGone,
  ): HttpAnswer | Promise<HttpAnswer | undefined> {
    this.#guard(request);
    const path = request.url?.split("?", 1)[0] ?? "";
    if (isConsolePath(path)) return this.#console.answer(request, response, path, gone.asSignal());
    const match = matchRoute(request.method, path);
    if (match === "unknown-path")
      throw new TuttiError("TUTTI_NOT_FOUND", "there is no such path: /openapi.json lists those that there are");
    if ("allowed" in match) {
      const allow = match.allowed.join(", ");
      const body = { error: `this path takes ${allow}`, code: "TUTTI_INVALID_INPUT", retryable: false };
      return { status: 405, headers: { allow }, body };
    }
    const call = { request, params: match.params, path, gone };
    if (this.#inferenceService.access === undefined || KEYLESS.has(match.operation))
      return this.#handlers[match.operation](call);
    return this.#withKey(match.operation, call);
  }

  /** @throws {TuttiError} UNAUTHENTICATED, FORBIDDEN, QUOTA_EXCEEDED as a rejection */
  async #withKey(operation: Operation, call: Call): Promise<HttpAnswer> {
    const access = this.#inferenceService.access!;
    const { headers, socket } = call.request;
    const asker = await access.admit(headers.authorization, () => socket.remoteAddress ?? "?");
    if (operation !== "infer" && operation !== "predict") return this.#handlers[operation]({ ...call, app: asker.app });
    const giveBack = access.take(asker, bodyBytesOf(call.request));
    try {
      return await this.#handlers[operation]({ ...call, app: asker.app });
    } finally {
      giveBack();
    }
  }

  #operations(): Readonly<Record<Operation, Handler>> {
    const inferenceService = this.#inferenceService;
    const named = ({ params }: Call) => [params["model"] ?? "", params["version"]] as const;
    const advice: Handler = ({ path }) =>
      inferenceService.scaling(path) ?? failureAnswer(new TuttiError("TUTTI_NOT_FOUND", "?"));
    return {
      live: () => ({ status: 200, body: { live: true } }),
      ready: () => {
        const missing = inferenceService.unready();
        const ready = missing.length === 0;
        // Names of models are only for clients with a key.
        return {
          status: ready ? 200 : 503,
          body: { ready, missing: inferenceService.access === undefined ? missing : [] },
        };
      },
      serverMetadata: () => ({ status: 200, body: inferenceService.serverMetadata() }),
      modelMetadata: (call) => ({ status: 200, body: inferenceService.metadata(...named(call)) }),
      modelReady: (call) => {
        const ready = inferenceService.isReady(...named(call));
        return { status: ready ? 200 : 503, body: { name: call.params["model"], ready } };
      },
      modelConfig: (call) => ({ status: 200, body: inferenceService.config(...named(call)) }),
      modelStatistics: (call) => ({
        status: 200,
        body: { model_stats: [inferenceService.statistics(...named(call))] },
      }),
      allStatistics: () => ({
        status: 200,
        body: { model_stats: inferenceService.allStatistics() },
      }),
      infer: (call) => this.#infer(call),
      predict: (call) => this.#infer(call, inferenceService.metadata(...named(call)).inputs),
      modelList: () => {
        const names = inferenceService.index({ ready: true }).map(({ name }) => name);
        return { status: 200, body: { models: [...new Set(names)] } };
      },
      repositoryIndex: async ({ request }) => {
        const ready = await this.#bodies.withBody(request, (body) => Promise.resolve(readyOf(shortObjectOf(body))));
        return { status: 200, body: inferenceService.index({ ready }) };
      },
      repositoryLoad: (call) =>
        this.#administer(call, "load", async () => {
          const parameters = await this.#bodies.withBody(call.request, (body) =>
            Promise.resolve(parametersOf(objectOf(body))),
          );
          await inferenceService
            .repository()
            .load({ name: call.params["model"] ?? "", parameters, signal: call.gone.asSignal() });
          return {};
        }),
      repositoryUnload: (call) =>
        this.#administer(call, "unload", async () => {
          await inferenceService.repository().unload(call.params["model"] ?? "");
          return {};
        }),
      ...this.#tritonOperations(),
      openapi: () => ({ status: 200, body: openApi() }),
      scaling: advice,
      externalMetrics: advice,
      externalMetric: advice,
    };
  }

  /** Shared memory, and the settings of traces and logs. */
  #tritonOperations() {
    const inferenceService = this.#inferenceService;
    return {
      memoryStatus: (call) => memoryStatus(inferenceService.memory, memoryCall(call)),
      memoryRegion: (call) => memoryStatus(inferenceService.memory, memoryCall(call)),
      memoryRegister: (call) => registerMemory(inferenceService.memory, this.#bodies, memoryCall(call)),
      memoryUnregister: (call) => unregisterMemory(inferenceService.memory, memoryCall(call)),
      memoryUnregisterAll: (call) => unregisterMemory(inferenceService.memory, memoryCall(call)),
      cudaStatus: () => ({ status: 200, body: [] }),
      cudaRegister: () => failureAnswer(noCudaMemory()),
      cudaUnregister: () => ({ status: 200, body: {} }),
      cudaUnregisterAll: () => ({ status: 200, body: {} }),
      traceSettings: () => ({ status: 200, body: inferenceService.traceSettings() }),
      changeTraceSettings: (call) => this.#settings(call, inferenceService.traceSettings()),
      modelTraceSettings: ({ params }) => ({ status: 200, body: inferenceService.traceSettings(params["model"]) }),
      changeModelTraceSettings: (call) => this.#settings(call, inferenceService.traceSettings(call.params["model"])),
      logSettings: () => ({ status: 200, body: inferenceService.logSettings() }),
      changeLogSettings: (call) => this.#settings(call, inferenceService.logSettings()),
    } satisfies Partial<Record<Operation, Handler>>;
  }

  #settings({ request }: Call, current: Settings): Promise<HttpAnswer> {
    return this.#bodies.withBody(request, (body) =>
      Promise.resolve({ status: 200, body: unchanged(current, shortObjectOf(body)) }),
    );
  }

  /** @param predict - the model's inputs, where the body is one of KServe's V1 protocol */
  #infer({ request, params, gone, app }: Call, predict?: readonly TensorMetadata[]): Promise<HttpAnswer> {
    const receivedAt = performance.now();
    const { headers } = request;
    const { model = "", version } = params;
    // Check all that needs no body before the body is read.
    const served = this.#inferenceService.modelOrPipeline(model, version);
    const kind = predict === undefined ? mediaKindOf(headers["content-type"]) : undefined;
    const client = this.#bodies.clientOf(request.socket);
    const call = { model, version, app, client, headers, signal: gone, slo: served?.spec.slo, receivedAt, predict };
    if (kind === undefined)
      return this.#bodies.withBody(request, (body) => inferOverHttp({ ...call, body }, this.#inferenceService));
    const input = served && mediaInputOf({ name: model, input: inputOf(served.spec) }, kind);
    return this.#bodies.withBody(request, (body) =>
      inferMediaOverHttp({ ...call, body, kind, input }, this.#inferenceService),
    );
  }

  async #administer({ request, params }: Call, verb: string, run: () => Promise<object>): Promise<HttpAnswer> {
    const what = `${verb} ${(params["model"] ?? "").slice(0, 80)}`;
    const from = request.socket.remoteAddress ?? "?";
    const { authorization } = request.headers;
    return { status: 200, body: await this.#inferenceService.administer({ what, from, authorization }, run) };
  }
}

const memoryCall = ({ request, app, params }: Call): MemoryCall => ({
  request,
  owner: app,
  region: params["region"],
});

const inputOf = ({ presentation }: ModelSpec) => presentationOf(presentation).input;

type JsonObject = Readonly<Record<string, unknown>>;

/** The body of a request that may have none. @throws {TuttiError} INVALID_INPUT */
function objectOf(body: Uint8Array): JsonObject {
  if (body.byteLength === 0) return {};
  const value = fromOutsideJson(body);
  if (isObject(value)) return value;
  throw new TuttiError("TUTTI_INVALID_INPUT", "the body must be a JSON object");
}

/** Bytes of a question about the index, which anybody may ask. */
const QUESTION_BYTES = 8_192;

/** @throws {TuttiError} INVALID_INPUT, TOO_LARGE */
function shortObjectOf(body: Uint8Array): JsonObject {
  if (body.byteLength <= QUESTION_BYTES) return objectOf(body);
  throw new TuttiError("TUTTI_TOO_LARGE", `the body has ${body.byteLength} bytes, where ${QUESTION_BYTES} are enough`);
}

/** @throws {TuttiError} INVALID_INPUT */
function parametersOf({ parameters = {} }: JsonObject): JsonObject {
  if (isObject(parameters)) return parameters;
  throw new TuttiError("TUTTI_INVALID_INPUT", "parameters must be an object");
}

/** @throws {TuttiError} INVALID_INPUT */
function readyOf({ ready = false }: JsonObject): boolean {
  if (typeof ready === "boolean") return ready;
  throw new TuttiError("TUTTI_INVALID_INPUT", "ready is true or false");
}

const isObject = (value: unknown): value is JsonObject =>
  typeof value === "object" && value !== null && !Array.isArray(value);
