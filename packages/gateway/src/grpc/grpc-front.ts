/** The Open Inference Protocol over gRPC. */
import { join } from "node:path";
import {
  type GrpcObject,
  type Metadata,
  Server,
  ServerCredentials,
  type ServerDuplexStream,
  type ServerUnaryCall,
  type ServiceClientConstructor,
  type UntypedHandleCall,
  loadPackageDefinition,
  type sendUnaryData,
} from "@grpc/grpc-js";
import { loadSync } from "@grpc/proto-loader";
import { SLO_US_MAX, TuttiError } from "@tutti/protocol";
import { type Micros, micros } from "@tutti/units";
import type { Act } from "../auth/administration.ts";
import type { GatewayTls } from "../auth/tls-pair.ts";
import type { FrontDoor } from "../front-door.ts";
import { type BodyReader, BODY_BYTES_MAX } from "../http/body-reader.ts";
import { noneForAll } from "../http/http-infer.ts";
import type { PortWish } from "../listening.ts";
import { modelConfig, serverMetadata } from "../oip/model-descriptions.ts";
import { readTerms } from "../oip/request-terms.ts";
import { asTuttiError, grpcFailure } from "./grpc-errors.ts";
import { keysFirst } from "./grpc-keys.ts";
import {
  type WireInferRequest,
  type WireInferResponse,
  type WireParameters,
  parametersOfRequest,
  responseOf,
  tensorsOfRequest,
} from "./grpc-tensors.ts";

/** Calls at once on one connection; more wait at the client. */
export const GRPC_STREAMS_MAX = 1_024;
/** Requests of one stream that wait for their answers; more wait at the client. */
export const GRPC_STREAM_REQUESTS_MAX = 256;
/** Of a deadline, for the answer's way back. */
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
  /** Where it comes from. */
  readonly peer: () => string;
}

const PROTO = join(import.meta.dirname, "open-inference.proto");

/** The service as the protocol defines it: for the server, and for clients of tests. */
export function inferenceService(): ServiceClientConstructor {
  const definition = loadSync(PROTO, { keepCase: true, longs: String, enums: String, defaults: true, oneofs: true });
  const inference = loadPackageDefinition(definition)["inference"] as GrpcObject;
  return inference["GRPCInferenceService"] as ServiceClientConstructor;
}

export class GrpcFront {
  readonly #server: Server;
  readonly #door: FrontDoor;
  readonly #bodies: BodyReader;
  readonly #tls: GatewayTls | undefined;
  asked = 0;

  constructor(door: FrontDoor, bodies: BodyReader, tls?: GatewayTls) {
    this.#door = door;
    this.#bodies = bodies;
    this.#tls = tls;
    this.#server = new Server({
      "grpc.max_receive_message_length": BODY_BYTES_MAX,
      "grpc.max_send_message_length": BODY_BYTES_MAX,
      "grpc.max_concurrent_streams": GRPC_STREAMS_MAX,
      ...(door.access !== undefined && { interceptors: [keysFirst(door.access)] }),
    });
    this.#server.addService(inferenceService().service, this.#handlers());
  }

  /** @returns where it listens. @throws {Error} where it can't */
  async listen(host: string, wish: PortWish): Promise<string> {
    const credentials = this.#tls?.credentials ?? ServerCredentials.createInsecure();
    const name = host.includes(":") ? `[${host}]` : host;
    const bind = (port: number): Promise<number> =>
      new Promise((resolve, reject) => {
        this.#server.bindAsync(`${name}:${port}`, credentials, (error, bound) => {
          if (error === null) resolve(bound);
          else reject(error);
        });
      });
    if ("port" in wish) return `${name}:${await bind(wish.port)}`;
    return `${name}:${await bind(wish.preferred).catch(() => bind(0))}`;
  }

  /** Who waits for an answer gets it. */
  drain(done: () => void): void {
    this.#server.tryShutdown(() => done());
  }

  close(): void {
    this.#server.forceShutdown();
  }

  #handlers(): Record<string, UntypedHandleCall> {
    const door = this.#door;
    const named = ({ name, version }: Named) => door.modelNamed(name, version);
    const unary = <Request, Response>(answer: (request: Request, asked: Asked) => Response | Promise<Response>) =>
      this.#unary(answer);
    return {
      ServerLive: unary(() => ({ live: true })),
      ServerReady: unary(() => ({ ready: door.unready().length === 0 })),
      ModelReady: unary(({ name, version }: Named) => ({ ready: door.isReady(name, version) })),
      ServerMetadata: unary(serverMetadata),
      ModelMetadata: unary((request: Named) => door.metadata(named(request))),
      ModelConfig: unary((request: Named) => ({ config: modelConfig(named(request)) })),
      ModelStatistics: unary((request: Named) => {
        const models = request.name === "" ? door.models() : [named(request)];
        return { model_stats: models.map((model) => door.statistics(model)) };
      }),
      ModelInfer: unary((request: WireInferRequest, asked) => this.#infer(request, asked)),
      ModelStreamInfer: ((call: InferStream) => this.#stream(call)) as UntypedHandleCall,
      RepositoryIndex: unary(async ({ ready }: Repositories, { metadata }) => {
        await door.administrator(textOf(metadata, "authorization"));
        return { models: door.index().filter(({ state }) => !ready || state === "READY") };
      }),
      RepositoryModelLoad: unary(async ({ model_name: name, parameters }: Repositories, asked) => {
        const { signal } = asked;
        const load = () => door.repository().load({ name, parameters: loadParameters(parameters), signal });
        await door.administer(actOf(`load ${name}`, asked), load);
        return {};
      }),
      RepositoryModelUnload: unary(async ({ model_name: name }: Repositories, asked) => {
        await door.administer(actOf(`unload ${name}`, asked), () => door.repository().unload(name));
        return {};
      }),
    };
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
      // Within a promise: a handler that throws is a failure like any other.
      Promise.resolve(call.request)
        .then((request) => answer(request, asked))
        .then(
          (response) => done(null, response),
          (error: unknown) => done(this.#failed(error)),
        );
    }) as UntypedHandleCall;
  }

  async #infer(request: WireInferRequest, { metadata, signal, timeLeft: left }: Asked): Promise<WireInferResponse> {
    const { access } = this.#door;
    // Known by now; within a stream, keys may have been revoked meanwhile.
    const asker = access && (await access.identify(textOf(metadata, "authorization")));
    const parameters = parametersOfRequest(request.parameters);
    const terms = readTerms((name) => textOf(metadata, name), parameters, { timeLeft: left, own: asker?.app });
    const inputs = tensorsOfRequest(request);
    const wanted = noneForAll(request.outputs.map(({ name }) => name));
    const bytes = inputs.reduce((sum, { data }) => sum + data.byteLength, 0);
    const { model_name: model, model_version: version, id } = request;
    const giveBack = asker && access?.take(asker, bytes);
    try {
      const outcome = await this.#bodies.withBytes(bytes, () =>
        this.#door.inference.infer({ model, version, id: id === "" ? undefined : id, inputs, wanted, terms, signal }),
      );
      return responseOf(id, outcome);
    } finally {
      giveBack?.();
    }
  }

  /** Each message is a request of its own; answers come as they are ready, with their ids. */
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
    call.on("data", (request: WireInferRequest) => {
      this.asked++;
      if (++waiting >= GRPC_STREAM_REQUESTS_MAX) call.pause();
      const said = this.#infer(request, asked).then(
        (response) => ({ error_message: "", infer_response: response }),
        (error: unknown) => ({ error_message: this.#failed(error).details, infer_response: { id: request.id } }),
      );
      void said.then((answer) => {
        waiting--;
        if (!gone.signal.aborted) call.write(answer);
        if (call.isPaused()) call.resume();
        endIfDone();
      });
    });
    call.on("end", () => {
      isEnded = true;
      endIfDone();
    });
    call.on("error", () => gone.abort());
  }

  #failed(error: unknown): ReturnType<typeof grpcFailure> {
    if (!(error instanceof TuttiError)) this.#door.log.error({ error: String(error) }, "a request over gRPC failed");
    return grpcFailure(asTuttiError(error));
  }
}

type InferStream = ServerDuplexStream<
  WireInferRequest,
  { readonly error_message: string; readonly infer_response: WireInferResponse | { readonly id: string } }
>;

/** What the caller's deadline leaves; undefined without one. */
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

/** Files come as bytes, the rest as texts. */
const loadParameters = (given: WireParameters): Record<string, unknown> =>
  Object.fromEntries(
    Object.entries(given).map(([name, parameter]) => [
      name,
      parameter.parameter_choice === "bytes_param" ? parameter.bytes_param : parameter.string_param,
    ]),
  );
