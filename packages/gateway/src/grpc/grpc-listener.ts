/** Accepts gRPC's connections within bounds: grpc-js would accept all, and end the process where an accept fails. */
import type { ConnectionInjector } from "@grpc/grpc-js";
import type { Http2Session } from "node:http2";
import { type Server, createServer } from "node:net";
import { ClientBytes } from "../client-bytes.ts";
import { type ConnectionLimits, Connections, clientOf } from "../connections.ts";
import type { BodyReader } from "../http/body-reader.ts";
import { ConnectionCalls } from "./incoming-calls.ts";

export class GrpcListener {
  readonly server: Server;
  readonly #connections: Connections;
  /** Calls by the client's address and port, until its session is known. */
  readonly #byClient = new Map<string, ConnectionCalls>();
  readonly #bySession = new WeakMap<Http2Session, ConnectionCalls>();

  constructor(
    injector: Pick<ConnectionInjector, "injectConnection">,
    bodies: Pick<BodyReader, "clientOf">,
    limits?: ConnectionLimits,
  ) {
    this.#connections = new Connections(limits);
    this.server = createServer({ noDelay: true }, (socket) => {
      const calls = new ConnectionCalls(bodies.clientOf(socket));
      if (!this.#connections.admit(socket, () => calls.state)) return;
      const client = clientOf(socket);
      this.#byClient.set(client, calls);
      socket.once("close", () => this.#byClient.delete(client));
      injector.injectConnection(socket);
    });
    // A failed accept, such as without a free file (EMFILE), costs its client the connection; all others go on.
    this.server.on("error", () => undefined);
  }

  callsOf(session: Http2Session): ConnectionCalls {
    let calls = this.#bySession.get(session);
    if (calls !== undefined) return calls;
    calls = this.#byClient.get(clientOf(session.socket)) ?? new ConnectionCalls(new ClientBytes(""));
    this.#bySession.set(session, calls);
    return calls;
  }
}
