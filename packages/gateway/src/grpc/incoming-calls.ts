/**
 * Counts the bytes that calls hold. grpc-js keeps the pieces of a message until it is whole, and a whole one until its
 * client ends its half of the call, with no bound but that of one message.
 *
 *   IC1. Every byte received for a call counts against the gateway's bodies until its request was answered, or the call
 *        has ended.
 *   IC2. A message that has begun is whole within WHOLE_MS, or its call is ended.
 */
import type { Metadata, ServerInterceptingCall, ServerInterceptor } from "@grpc/grpc-js";
import { TuttiError } from "@tutti/protocol";
import { type Http2Session, type ServerHttp2Stream, constants } from "node:http2";
import { ClientBytes } from "../client-bytes.ts";
import type { ClientState } from "../connections.ts";
import { type BodyReader, BODY_BYTES_MAX } from "../http/body-reader.ts";
import { grpcFailure } from "./grpc-errors.ts";
import { MessageMeter } from "./message-meter.ts";

/** Calls of all clients at once. */
export const GRPC_CALLS_MAX = 16_384;
const WHOLE_MS = 60_000;
const CHECK_MS = 1_000;

/**
 * A call as grpc-js hands it to interceptors, with undeclared properties: all declared events come after a message is
 * whole.
 */
type BaseCall = ServerInterceptingCall & { readonly stream: ServerHttp2Stream; readonly metadata: Metadata };

/** Calls in progress on one connection. */
export class ConnectionCalls {
  readonly client: ClientBytes;
  /** Calls with a complete request that wait for our answer. */
  waiting = 0;
  hasAsked = false;

  constructor(client: ClientBytes) {
    this.client = client;
  }

  get state(): ClientState {
    return this.waiting > 0 ? "waits" : this.hasAsked ? "idle" : "asks";
  }
}

export class IncomingCalls {
  readonly #bodies: BodyReader;
  readonly #ofSession: (session: Http2Session) => ConnectionCalls;
  /** Calls by their metadata, which handlers see too. */
  readonly #byMetadata = new WeakMap<Metadata, IncomingCall>();
  /** Calls with an incomplete message, and the time since when, in ascending order. */
  readonly #unfinished = new Map<IncomingCall, number>();
  #checking: NodeJS.Timeout | undefined;
  #size = 0;

  constructor(bodies: BodyReader, ofSession: (session: Http2Session) => ConnectionCalls) {
    this.#bodies = bodies;
    this.#ofSession = ofSession;
  }

  readonly interceptor: ServerInterceptor = ({ requestStream: isStream }, given) => {
    const call = given as unknown as BaseCall;
    const { session } = call.stream;
    if (session !== undefined) this.#watch(call, isStream, this.#ofSession(session));
    return call;
  };

  /** @returns the refusal where there is no room for an answer of `bytes` */
  addAnswer(metadata: Metadata, bytes: number): TuttiError | undefined {
    return this.#byMetadata.get(metadata)?.meter.addAnswer(bytes) === false ? this.#bodies.full() : undefined;
  }

  /** The account of the call's client. */
  clientOf(metadata: Metadata): ClientBytes {
    return this.#byMetadata.get(metadata)?.client ?? new ClientBytes("");
  }

  /** Releases one message of a stream: its answer was read by the client. */
  answered(metadata: Metadata): void {
    this.#byMetadata.get(metadata)?.answered();
  }

  close(): void {
    clearInterval(this.#checking);
  }

  #watch(call: BaseCall, isStream: boolean, connection: ConnectionCalls): void {
    const unfinished = this.#unfinished;
    const watched = new IncomingCall(call, isStream, connection, this.#bodies);
    this.#byMetadata.set(call.metadata, watched);
    // A stream may be silent for as long as its client likes; any other call must send its request.
    if (!isStream) unfinished.set(watched, performance.now());
    this.#size++;
    call.stream.once("close", () => {
      this.#size--;
      unfinished.delete(watched);
    });
    watched.onProgress = (isUnfinished) => {
      if (!isUnfinished) unfinished.delete(watched);
      else if (!unfinished.has(watched)) unfinished.set(watched, performance.now());
    };
    this.#checking ??= setInterval(() => this.#check(), CHECK_MS).unref();
    if (this.#size <= GRPC_CALLS_MAX) return;
    const text = `this gateway has ${GRPC_CALLS_MAX} calls already (GRPC_CALLS_MAX)`;
    watched.refuse(new TuttiError("TUTTI_OVERLOADED", text, { retryAfterMs: 50 }));
  }

  /** Ends calls with overdue messages (IC2). */
  #check(): void {
    const now = performance.now();
    for (const [call, since] of this.#unfinished) {
      if (now - since < WHOLE_MS) return;
      this.#unfinished.delete(call);
      call.refuse(new TuttiError("TUTTI_DEADLINE_EXCEEDED", `no whole request came in ${WHOLE_MS / 1_000} s`));
    }
  }
}

class IncomingCall {
  readonly meter: MessageMeter;
  readonly #call: BaseCall;
  readonly #isStream: boolean;
  readonly #connection: ConnectionCalls;
  readonly #onData: (piece: Buffer) => void;
  #isWaiting = false;
  /** @param isUnfinished - whether the request or message is still incomplete */
  onProgress: (isUnfinished: boolean) => void = () => undefined;

  constructor(call: BaseCall, isStream: boolean, connection: ConnectionCalls, bodies: BodyReader) {
    this.#call = call;
    this.#isStream = isStream;
    this.#connection = connection;
    this.meter = new MessageMeter({
      messageBytesMax: BODY_BYTES_MAX,
      hold: (bytes) => bodies.hold(bytes, connection.client),
      release: (bytes) => bodies.release(bytes, connection.client),
    });
    this.#onData = (piece) => {
      if (!this.meter.take(piece)) return this.refuse(bodies.full());
      if (!isStream) return;
      this.onProgress(this.meter.isWithin);
      this.#setWaiting(this.meter.hasWhole);
    };
    const { stream } = call;
    stream.on("data", this.#onData);
    stream.once("end", () => this.#onEnd());
    stream.once("close", () => {
      this.#setWaiting(false);
      this.meter.end();
    });
  }

  get client(): ClientBytes {
    return this.#connection.client;
  }

  answered(): void {
    this.meter.answered();
    this.#setWaiting(this.meter.hasWhole);
  }

  refuse(error: TuttiError): void {
    const { stream } = this.#call;
    stream.off("data", this.#onData);
    this.#call.sendStatus(grpcFailure(error));
    // Further data would otherwise be read and dropped for as long as the client sends it.
    setImmediate(() => stream.close(constants.NGHTTP2_NO_ERROR));
  }

  /** Marks a unary request as complete: only now is it answered. */
  #onEnd(): void {
    if (this.#isStream) return;
    this.onProgress(false);
    this.#setWaiting(true);
  }

  #setWaiting(isWaiting: boolean): void {
    if (isWaiting === this.#isWaiting) return;
    this.#isWaiting = isWaiting;
    this.#connection.waiting += isWaiting ? 1 : -1;
    if (isWaiting) this.#connection.hasAsked = true;
  }
}
