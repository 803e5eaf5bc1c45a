/** gRPC by hand over node:http2, so that calls may be left in any state. */
import { once } from "node:events";
import { type ClientHttp2Session, type ClientHttp2Stream, connect } from "node:http2";
import { bytes, int, message } from "./protobuf.ts";

const SERVICE = "/inference.GRPCInferenceService";
const PREFIX_BYTES = 5;

/** The gRPC status codes that attacks tell apart. */
export const STATUS = { ok: 0, invalid: 3, forbidden: 7, unauthenticated: 16 } as const;

export interface GrpcReply {
  /** -1: the call ended without one. */
  readonly status: number;
  readonly text: string;
  /** Messages of the answer, each with its prefix. */
  readonly content: Buffer;
}

export class GrpcConnection {
  readonly #session: ClientHttp2Session;

  private constructor(session: ClientHttp2Session) {
    this.#session = session;
  }

  /** @param address - `host:port`. @throws {Error} it is refused */
  static async open(address: string): Promise<GrpcConnection> {
    const session = connect(`http://${address}`);
    await once(session, "connect");
    session.on("error", () => undefined); // streams end with their session
    return new GrpcConnection(session);
  }

  get isOpen(): boolean {
    return !this.#session.closed && !this.#session.destroyed;
  }

  /** Begins a call of which only the headers have been sent. */
  begin(method: string, metadata: Readonly<Record<string, string>> = {}): ClientHttp2Stream {
    const stream = this.#session.request({
      ":method": "POST",
      ":path": `${SERVICE}/${method}`,
      "content-type": "application/grpc",
      te: "trailers",
      ...metadata,
    });
    stream.on("error", () => undefined);
    return stream;
  }

  /** Sends a whole call of one message. */
  async ask(method: string, content: Uint8Array, metadata: Readonly<Record<string, string>> = {}): Promise<GrpcReply> {
    const stream = this.begin(method, metadata);
    const reply = replyOf(stream);
    stream.end(Buffer.concat([prefix(content.byteLength), content]));
    return reply;
  }

  close(): void {
    this.#session.destroy();
  }
}

function replyOf(stream: ClientHttp2Stream): Promise<GrpcReply> {
  return new Promise((resolve) => {
    let reply = { status: -1, text: "the call broke" };
    const chunks: Buffer[] = [];
    const hear = (headers: Readonly<Record<string, unknown>>): void => {
      const status = headers["grpc-status"];
      if (status !== undefined) reply = { status: Number(status), text: String(headers["grpc-message"] ?? "") };
    };
    stream.on("response", hear);
    stream.on("trailers", hear);
    stream.on("data", (chunk: Buffer) => chunks.push(chunk));
    stream.on("close", () => resolve({ ...reply, content: Buffer.concat(chunks) }));
  });
}

/** The prefix of a gRPC message: whether it is compressed, and its length. */
export function prefix(length: number, isCompressed: 0 | 1 = 0): Buffer {
  const made = Buffer.alloc(PREFIX_BYTES);
  made.writeUInt8(isCompressed, 0);
  made.writeUInt32BE(length, 1);
  return made;
}

export interface InferMessage {
  readonly model: string;
  readonly input: { readonly name: string; readonly shape: readonly number[] };
  readonly row: Float32Array;
  readonly parameters?: number;
}

/** A ModelInferRequest. */
export function inferMessage({ model, input, row, parameters = 0 }: InferMessage): Uint8Array {
  const parameter = (i: number): Uint8Array => message(bytes(1, `p${i}`), bytes(2, message(int(2, i))));
  return message(
    bytes(1, model),
    ...Array.from({ length: parameters }, (_, i) => bytes(4, parameter(i))),
    bytes(5, message(bytes(1, input.name), bytes(2, "FP32"), ...input.shape.map((size) => int(3, size)))),
    bytes(7, new Uint8Array(row.buffer, row.byteOffset, row.byteLength)),
  );
}
