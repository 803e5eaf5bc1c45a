/**
 * The services that gRPC's own tools expect: `grpc.health.v1.Health`, which probes of Kubernetes ask, and reflection,
 * by which `grpcurl` finds services and messages. gRPC's libraries implement them; here they get this gateway's bounds.
 */
import type {
  Metadata,
  Server,
  ServerDuplexStream,
  ServiceDefinition,
  UntypedHandleCall,
  sendUnaryData,
} from "@grpc/grpc-js";
import { type PackageDefinition, loadSync } from "@grpc/proto-loader";
import { ReflectionService } from "@grpc/reflection";
import { TuttiError } from "@tutti/protocol";
import { HealthImplementation, protoPath } from "grpc-health-check";
import descriptor from "protobufjs/ext/descriptor/index.js";
import { grpcFailure } from "./grpc-errors.ts";
import { refusalOf } from "./message-scan.ts";

/** Name of the health service that speaks of this process only, by the convention of Kubernetes. */
const LIVENESS = "liveness";
/** The health service whose answer needs no key: a probe of Kubernetes has none. */
export const HEALTH_CHECK = "/grpc.health.v1.Health/Check";
/** Interval at which watchers of the health are told of a change. */
const WATCH_MS = 1_000;

export interface StandardServicesParts {
  /** The protocol's own services. */
  readonly protocol: PackageDefinition;
  readonly service: string;
  readonly isReady: () => boolean;
  /** Called for each request. */
  readonly onAsked: () => void;
  /** Called once a message of a stream is answered. */
  readonly onAnswered: (metadata: Metadata) => void;
}

export class StandardServices {
  readonly #parts: StandardServicesParts;
  readonly #health = new HealthImplementation({ [LIVENESS]: "SERVING" });
  readonly #watching: NodeJS.Timeout;
  #wasReady: boolean | undefined;

  constructor(parts: StandardServicesParts) {
    this.#parts = parts;
    this.#refresh();
    this.#watching = setInterval(() => this.#refresh(), WATCH_MS).unref();
  }

  addTo(server: Server): void {
    const { protocol } = this.#parts;
    const bounded = this.#bounded(server);
    this.#health.addToServer(bounded);
    new ReflectionService(withMapEntries({ ...protocol, ...loadSync(protoPath) })).addToServer(bounded);
  }

  close(): void {
    clearInterval(this.#watching);
  }

  /** Brings the health up to date: the library keeps it as a value. */
  #refresh(): void {
    const isReady = this.#parts.isReady();
    if (isReady === this.#wasReady) return;
    this.#wasReady = isReady;
    for (const name of ["", this.#parts.service]) this.#health.setStatus(name, isReady ? "SERVING" : "NOT_SERVING");
  }

  /** A view of the server through which each library adds its services. */
  #bounded(server: Server): Server {
    const addService = (definition: ServiceDefinition, handlers: Record<string, UntypedHandleCall>): void => {
      const methods = Object.entries(definition).map(([name, method]) => {
        const requestDeserialize = (bytes: Buffer): unknown =>
          refusalOf(bytes, "short") ?? method.requestDeserialize(bytes);
        return [name, { ...method, requestDeserialize }] as const;
      });
      const calls = Object.entries(handlers).map(([name, handle]) => {
        const own = name === "watch" ? this.#watch(handle) : handle;
        return [name, this.#handler(own)] as const;
      });
      server.addService(Object.fromEntries(methods), Object.fromEntries(calls));
    };
    return { addService } as unknown as Server;
  }

  /** Answers for services that don't exist: the library would remember each name that anybody watches. */
  #watch(handle: UntypedHandleCall): UntypedHandleCall {
    const known = new Set(["", this.#parts.service, LIVENESS]);
    return ((call: Call & { readonly request: { readonly service: string } }) => {
      if (known.has(call.request.service)) (handle as (call: Call) => void)(call);
      else call.write({ status: "SERVICE_UNKNOWN" });
    }) as unknown as UntypedHandleCall;
  }

  #handler(handle: UntypedHandleCall): UntypedHandleCall {
    const { onAsked, onAnswered } = this.#parts;
    return ((call: Call, done?: sendUnaryData<unknown>) => {
      onAsked();
      const { request } = call;
      if (request instanceof TuttiError) {
        const failure = grpcFailure(request);
        if (done === undefined) call.emit("error", failure);
        else done(failure);
        return;
      }
      this.#refresh();
      (handle as (call: Call, done: unknown) => void)(call, done);
      if (request !== undefined) return; // not a stream of requests
      // The library has answered the message. While its client doesn't read, no further ones are taken.
      call.on("data", () => {
        onAnswered(call.metadata);
        if (!call.writableNeedDrain) return;
        call.pause();
        call.once("drain", () => call.resume());
      });
    }) as UntypedHandleCall;
  }
}

/** A call of any kind: a stream of requests has no `request`. */
type Call = ServerDuplexStream<unknown, unknown> & { readonly request?: unknown };

/**
 * Names the entries of maps as protoc does (`ParametersEntry`). protobufjs calls them `Parameters`, and Go's clients,
 * such as grpcurl, refuse the whole file.
 */
function withMapEntries(definition: PackageDefinition): PackageDefinition {
  const files = new Map<string, Buffer>();
  const fixed = (bytes: Buffer): Buffer => {
    const file = descriptor.FileDescriptorProto.decode(bytes) as unknown as Message;
    let known = files.get(file.name);
    if (known === undefined) {
      for (const message of file.messageType ?? []) nameMapEntries(message);
      known = Buffer.from(descriptor.FileDescriptorProto.encode(file as never).finish());
      files.set(file.name, known);
    }
    return known;
  };
  return Object.fromEntries(
    Object.entries(definition).map(([name, one]) => {
      const protos = (one as { readonly fileDescriptorProtos?: Buffer[] }).fileDescriptorProtos;
      return [name, protos === undefined ? one : { ...one, fileDescriptorProtos: protos.map(fixed) }] as const;
    }),
  ) as PackageDefinition;
}

interface Message {
  name: string;
  readonly messageType?: readonly Message[];
  readonly nestedType?: readonly Message[];
  readonly field?: readonly { typeName?: string }[];
  readonly options?: { readonly mapEntry?: boolean } | null;
}

function nameMapEntries({ nestedType = [], field: fields = [] }: Message): void {
  for (const message of nestedType) {
    nameMapEntries(message);
    if (message.options?.mapEntry !== true) continue;
    for (const field of fields) if (field.typeName === message.name) field.typeName = `${message.name}Entry`;
    message.name += "Entry";
  }
}
