/** The Open Inference Protocol over gRPC. */
import { fileURLToPath } from "node:url";
import {
  type GrpcObject,
  type Metadata,
  Server,
  ServerCredentials,
  type ServerDuplexStream,
  type ServerUnaryCall,
  type ServiceClientConstructor,
  type ServiceDefinition,
  type UntypedHandleCall,
  loadPackageDefinition,
  type sendUnaryData,
} from "@grpc/grpc-js";
import { type PackageDefinition, loadSync } from "@grpc/proto-loader";
import { SLO_US_MAX, TuttiError } from "@tutti/protocol";
import { type Micros, micros } from "@tutti/units";
import type { Act } from "../auth/administration.ts";
import type { InferenceService } from "../inference-service.ts";
import { type BodyReader, BODY_BYTES_MAX } from "../http/body-reader.ts";
import { type PortWish, listen } from "../listening.ts";
import { elementsMax } from "../oip/batch-rows.ts";
import { noCudaMemory } from "../oip/triton-settings.ts";
import { readTerms } from "../oip/request-terms.ts";
import { asTuttiError, grpcFailure } from "./grpc-errors.ts";
import { keysFirst } from "./grpc-keys.ts";
import { GrpcListener } from "./grpc-listener.ts";
import { type WireRegion, connectionOf, memoryStatus, registerMemory, unregisterMemory } from "./grpc-shared-memory.ts";
import {
  type ElementsMax,
  GRPC_ELEMENTS_MAX,
  type WireInferResponse,
  type WireParameters,
  idOfRequest,
  outputsOfRequest,
  responseOf,
  tensorsOfRequest,
} from "./grpc-tensors.ts";
import { type WireLogSettings, type WireTraceSettings, logAnswer, traceAnswer } from "./grpc-settings.ts";
import { IncomingCalls } from "./incoming-calls.ts";
import { GRPC_TYPED_BYTES_MAX, type InferMessage, readInferMessage } from "./infer-message.ts";
import { refusalOf } from "./message-scan.ts";
import { StandardServices } from "./standard-services.ts";

/** Calls at once on one connection; more wait at the client. */
export const GRPC_STREAMS_MAX = 1_024;
/** Requests of one stream that wait for their answers; more wait at the client. */
export const GRPC_STREAM_REQUESTS_MAX = 256;
/** A connection without calls is closed; its client opens another with its next one. */
const IDLE_MS = 300_000;
/** Part of a deadline that is kept for the answer's way back. */
const WAY_BACK_MS = 1;

interface Named {
  readonly name: string;
  readonly version: string;
}
interface Repositories {
  readonly model_name: string;
  readonly ready: boolean;
  readonly parameters: WireParameters;
}
interface Asked {
  readonly metadata: Metadata;
  readonly signal: AbortSignal;
  readonly timeLeft: Micros | undefined;
  /** Address of the client. */
  readonly peer: () => string;
}

const PROTO = fileURLToPath(new URL("./open-inference.proto", import.meta.url));
const SERVICE = "inference.GRPCInferenceService";

const protocolDefinition = (): PackageDefinition =>
  loadSync(PROTO, { keepCase: true, longs: String, enums: String, defaults: true, oneofs: true });

/** The service definition of the protocol: for the server, and for clients of tests. */
export function inferenceService(definition = protocolDefinition()): ServiceClientConstructor {
  const inference = loadPackageDefinition(definition)["inference"] as GrpcObject;
  return inference["GRPCInferenceService"] as ServiceClientConstructor;
}

export class GrpcFront {
  readonly #server: Server;
  readonly #listener: GrpcListener;
  readonly #calls: IncomingCalls;
  readonly #standard: StandardServices;
  readonly #inferenceService: InferenceService;
  asked = 0;

  /** @param credentials - default: plain text */
  constructor(
    inferenceService: InferenceService,
    bodies: BodyReader,
    credentials = ServerCredentials.createInsecure(),
  ) {
    this.#inferenceService = inferenceService;
    this.#calls = new IncomingCalls(bodies, (session) => this.#listener.callsOf(session));
    this.#server = new Server({
      // The first interceptor must get the call as the server made it.
      interceptors: [
        this.#calls.interceptor,
        ...(inferenceService.access === undefined ? [] : [keysFirst(inferenceService.access)]),
      ],
      "grpc.max_receive_message_length": BODY_BYTES_MAX,
      "grpc.max_send_message_length": BODY_BYTES_MAX,
      "grpc.max_concurrent_streams": GRPC_STREAMS_MAX,
      "grpc.max_connection_idle_ms": IDLE_MS,
    });
    const protocol = protocolDefinition();
    this.#server.addService(checkedService(protocol), this.#handlers());
    this.#standard = new StandardServices({
      ...{ protocol, service: SERVICE },
      isReady: () => inferenceService.unready().length === 0,
      onAsked: () => this.asked++,
      onAnswered: (metadata) => this.#calls.answered(metadata),
    });
    this.#standard.addTo(this.#server);
    this.#listener = new GrpcListener(this.#server.createConnectionInjector(credentials), bodies);
  }

  /** @returns the address. @throws {Error} where it can't listen */
  async listen(host: string, wish: PortWish): Promise<string> {
    const name = host.includes(":") ? `[${host}]` : host;
    return `${name}:${await listen(this.#listener.server, host, wish)}`;
  }

  /** Stops accepting, and waits for the answers of open calls. */
  drain(done: () => void): void {
    this.#listener.server.close();
    this.#server.tryShutdown(() => done());
  }

  close(): void {
    this.#calls.close();
    this.#standard.close();
    this.#server.forceShutdown();
  }

  #handlers(): Record<string, UntypedHandleCall> {
    const inferenceService = this.#inferenceService;
    const unary = <Request, Response>(answer: (request: Request, asked: Asked) => Response | Promise<Response>) =>
      this.#unary(answer);
    return {
      ServerLive: unary(() => ({ live: true })),
      ServerReady: unary(() => ({ ready: inferenceService.unready().length === 0 })),
      ModelReady: unary(({ name, version }: Named) => ({ ready: isReady(inferenceService, name, version) })),
      ServerMetadata: unary(() => inferenceService.serverMetadata()),
      ModelMetadata: unary(({ name, version }: Named) => inferenceService.metadata(name, version)),
      ModelConfig: unary(({ name, version }: Named) => ({ config: inferenceService.config(name, version) })),
      ModelStatistics: unary(({ name, version }: Named) => ({
        model_stats: name === "" ? inferenceService.allStatistics() : [inferenceService.statistics(name, version)],
      })),
      ModelInfer: unary((request: InferMessage, asked) => this.#infer(request, asked)),
      ModelStreamInfer: ((call: InferStream) => this.#stream(call)) as UntypedHandleCall,
      RepositoryIndex: unary(({ ready }: Repositories) => ({ models: inferenceService.index({ ready }) })),
      RepositoryModelLoad: unary(async ({ model_name: name, parameters }: Repositories, asked) => {
        const { signal } = asked;
        const load = () => inferenceService.repository().load({ name, parameters: loadParameters(parameters), signal });
        await inferenceService.administer(actOf(`load ${name}`, asked), load);
        return {};
      }),
      RepositoryModelUnload: unary(async ({ model_name: name }: Repositories, asked) => {
        await inferenceService.administer(actOf(`unload ${name}`, asked), () =>
          inferenceService.repository().unload(name),
        );
        return {};
      }),
      SystemSharedMemoryStatus: unary(async (region: WireRegion, asked) =>
        memoryStatus(inferenceService.memory, await this.#ownerOf(asked), region),
      ),
      SystemSharedMemoryRegister: unary(async (region: WireRegion, asked) => {
        const connection = connectionOf(asked.peer(), this.#listener.server.address());
        return registerMemory(inferenceService.memory, await this.#ownerOf(asked), region, connection);
      }),
      SystemSharedMemoryUnregister: unary(async (region: WireRegion, asked) =>
        unregisterMemory(inferenceService.memory, await this.#ownerOf(asked), region),
      ),
      CudaSharedMemoryStatus: unary(() => ({ regions: {} })),
      CudaSharedMemoryRegister: unary(() => Promise.reject(noCudaMemory())),
      CudaSharedMemoryUnregister: unary(() => ({})),
      TraceSetting: unary((given: WireTraceSettings) =>
        traceAnswer(inferenceService.traceSettings(given.model_name), given),
      ),
      LogSettings: unary((given: WireLogSettings) => logAnswer(inferenceService.logSettings(), given)),
    };
  }

  /** Application of the request's key. */
  async #ownerOf({ metadata }: Asked): Promise<string | undefined> {
    const { access } = this.#inferenceService;
    return access && (await access.identify(textOf(metadata, "authorization"))).app;
  }

  #unary<Request, Response>(
    answer: (request: Request, asked: Asked) => Response | Promise<Response>,
  ): UntypedHandleCall {
    return ((call: ServerUnaryCall<Request, Response>, done: sendUnaryData<Response>) => {
      this.asked++;
      const gone = new AbortController();
      call.on("cancelled", () => gone.abort());
      const peer = (): string => call.getPeer();
      const asked = { metadata: call.metadata, signal: gone.signal, timeLeft: timeLeft(call.getDeadline()), peer };
      // Within a promise: an error that a handler throws is a failure like any other.
      Promise.resolve(call.request)
        .then((request) => answer(readable(request), asked))
        .then(
          (response) => done(null, response),
          (error: unknown) => done(this.#failed(error)),
        );
    }) as UntypedHandleCall;
  }

  async #infer(request: InferMessage, { metadata, signal, timeLeft: left }: Asked): Promise<WireInferResponse> {
    if (request.refusal !== undefined) throw request.refusal;
    const { access } = this.#inferenceService;
    // Checked already for a call; within a stream, keys may have been revoked meanwhile.
    const asker = access && (await access.identify(textOf(metadata, "authorization")));
    const owner = asker?.app;
    const terms = readTerms((name) => textOf(metadata, name), request.parameters, { timeLeft: left, own: owner });
    const { model, version, id } = request;
    const inputs = tensorsOfRequest(request, this.#elementsMaxOf(model, version));
    const outputs = outputsOfRequest(request);
    const client = this.#calls.clientOf(metadata);
    const call = { model, version, id: idOfRequest(id), inputs, outputs, owner, client, terms, signal };
    const giveBack = asker && access?.take(asker, bytesOf(inputs));
    try {
      const outcome = await this.#inferenceService.protocol.infer(call);
      const full = this.#calls.addAnswer(metadata, bytesOf(outcome.outputs));
      if (full !== undefined) throw full;
      return responseOf(id, outcome);
    } finally {
      giveBack?.();
    }
  }

  /** Bounds the elements of typed contents, before they are read. @throws {TuttiError} NOT_FOUND, INVALID_INPUT */
  #elementsMaxOf(model: string, version: string): ElementsMax {
    const spec = this.#inferenceService.modelOrPipeline(model, version)?.spec;
    if (spec !== undefined) return (name) => elementsMax(spec, name);
    const isPipeline = this.#inferenceService.isPipeline(model);
    return () => (isPipeline ? GRPC_TYPED_BYTES_MAX : GRPC_ELEMENTS_MAX);
  }

  /** Serves a stream. Each message is a request of its own; answers are sent as they are ready, with their ids. */
  #stream(call: InferStream): void {
    const gone = new AbortController();
    let waiting = 0;
    let isEnded = false;
    const endIfDone = (): void => {
      if (isEnded && waiting === 0) call.end();
    };
    const peer = (): string => call.getPeer();
    const asked = { metadata: call.metadata, signal: gone.signal, timeLeft: undefined, peer };
    call.on("cancelled", () => gone.abort());
    call.on("data", (request: InferMessage) => {
      this.asked++;
      if (++waiting >= GRPC_STREAM_REQUESTS_MAX) call.pause();
      const said = this.#infer(request, asked).then(
        (response) => ({ error_message: "", infer_response: response }),
        (error: unknown) => ({ error_message: this.#failed(error).details, infer_response: { id: request.id } }),
      );
      const onRead = (): void => {
        waiting--;
        this.#calls.answered(call.metadata);
        if (call.isPaused()) call.resume();
        endIfDone();
      };
      // A request counts until the client has read its answer: unread answers would pile up here otherwise.
      void said.then((answer) => (gone.signal.aborted ? onRead() : void call.write(answer, onRead)));
    });
    call.on("end", () => {
      isEnded = true;
      endIfDone();
    });
    call.on("error", () => gone.abort());
  }

  #failed(error: unknown): ReturnType<typeof grpcFailure> {
    if (!(error instanceof TuttiError))
      this.#inferenceService.log.error({ error: String(error) }, "a request over gRPC failed");
    return grpcFailure(asTuttiError(error));
  }
}

/**
 * The service, with a check before decoding. For a message that would take too long to decode, the handler gets the
 * refusal instead. Inference requests are read by a reader of their own.
 */
function checkedService(definition: PackageDefinition): ServiceDefinition {
  const methods = Object.entries(inferenceService(definition).service).map(([name, method]) => {
    const kind = name === "RepositoryModelLoad" ? "load" : "short";
    const checked = (bytes: Buffer): unknown => refusalOf(bytes, kind) ?? method.requestDeserialize(bytes);
    const requestDeserialize = INFER_METHODS.has(name) ? readInferMessage : checked;
    return [name, { ...method, requestDeserialize }] as const;
  });
  return Object.fromEntries(methods);
}
const INFER_METHODS: ReadonlySet<string> = new Set(["ModelInfer", "ModelStreamInfer"]);

/** Over gRPC an unknown model is not ready, as in Triton. */
function isReady(inferenceService: InferenceService, name: string, version: string): boolean {
  try {
    return inferenceService.isReady(name, version);
  } catch (error) {
    if (error instanceof TuttiError && error.code === "TUTTI_NOT_FOUND") return false;
    throw error;
  }
}

/** @throws {TuttiError} the refusal that replaced a request */
function readable<Request>(request: Request): Request {
  if (request instanceof TuttiError) throw request;
  return request;
}

type InferStream = ServerDuplexStream<
  InferMessage,
  { readonly error_message: string; readonly infer_response: WireInferResponse | { readonly id: string } }
>;

const bytesOf = (tensors: readonly { readonly data: Uint8Array }[]): number =>
  tensors.reduce((sum, { data }) => sum + data.byteLength, 0);

/** Time until the caller's deadline, less the answer's way back; undefined without a deadline. */
function timeLeft(deadline: Date | number): Micros | undefined {
  const at = typeof deadline === "number" ? deadline : deadline.getTime();
  if (!Number.isFinite(at)) return undefined;
  const leftMs = at - Date.now() - WAY_BACK_MS;
  return micros(Math.min(SLO_US_MAX, Math.max(1, Math.floor(leftMs * 1_000))));
}

const actOf = (what: string, { metadata, peer }: Asked): Act => ({
  what: what.slice(0, 80),
  from: peer(),
  authorization: textOf(metadata, "authorization"),
});

function textOf(metadata: Metadata, name: string): string | undefined {
  const [value] = metadata.get(name);
  return typeof value === "string" ? value : undefined;
}

/** Converts parameters of a load: files are bytes, the others texts. */
const loadParameters = (given: WireParameters): Record<string, unknown> =>
  Object.fromEntries(
    Object.entries(given).map(([name, parameter]) => [
      name,
      parameter.parameter_choice === "bytes_param" ? parameter.bytes_param : parameter.string_param,
    ]),
  );
