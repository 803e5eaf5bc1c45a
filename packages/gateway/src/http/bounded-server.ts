/** An HTTP server with bounds: slow clients do not hold it up, and a malformed request gets an answer. */
import { type IncomingMessage, type Server, type ServerResponse, createServer } from "node:http";
import { createServer as createTlsServer } from "node:https";
import type { Socket } from "node:net";
import type { TlsPair } from "../auth/tls-pair.ts";
import { type ClientState, type ConnectionLimits, Connections, clientOf } from "../connections.ts";

/** Time limits of a request and of its head: a slower client holds memory for nothing. */
const REQUEST_MS = 60_000;
const HEADERS_MS = 5_000;
/** Interval of the checks of both. */
const CHECK_MS = 1_000;
const IDLE_MS = 30_000;
/** Time after which a client that neither sends nor reads is disconnected, unless it waits for our answer. */
const STILL_MS = 60_000;

type Handler = (request: IncomingMessage, response: ServerResponse) => void;

export interface BoundedServerOptions {
  readonly limits?: ConnectionLimits | undefined;
  /** Default: plain text. */
  readonly tls?: TlsPair | undefined;
}

export function boundedServer(handle: Handler, { limits, tls }: BoundedServerOptions = {}): Server {
  const connections = new Connections(limits);
  const latest = new WeakMap<Socket, ServerResponse>();
  const server = create(tls, (request, response) => {
    latest.set(request.socket, response);
    handle(request, response);
  });
  if (tls === undefined)
    server.on("connection", (socket) => void connections.admit(socket, () => stateOf(latest.get(socket))));
  else admitTls(server, connections, (socket) => stateOf(latest.get(socket)));
  server.setTimeout(STILL_MS, (socket) => {
    // idle ones end after IDLE_MS: node:http sets their time-out
    if (stateOf(latest.get(socket)) !== "waits") socket.destroy();
  });
  // A failed accept, such as without a free file (EMFILE), costs its client the connection; all others go on.
  server.on("error", () => undefined);
  return server;
}

function create(tls: TlsPair | undefined, handle: Handler): Server {
  const bounds = {
    ...{ requestTimeout: REQUEST_MS, headersTimeout: HEADERS_MS, connectionsCheckingInterval: CHECK_MS },
    ...{ keepAliveTimeout: IDLE_MS, noDelay: true },
  };
  if (tls === undefined) return createServer(bounds, handle);
  return createTlsServer({ ...bounds, ...tls, handshakeTimeout: HEADERS_MS }, handle);
}

/**
 * Admits TLS clients. A client counts from its connection, not from the end of its handshake; its requests come over a
 * socket of their own.
 */
function admitTls(server: Server, connections: Connections, stateOfSecure: (socket: Socket) => ClientState): void {
  const byClient = new Map<string, { secure?: Socket }>();
  server.on("connection", (raw: Socket) => {
    const client = clientOf(raw);
    const connection: { secure?: Socket } = {};
    if (!connections.admit(raw, () => (connection.secure === undefined ? "asks" : stateOfSecure(connection.secure))))
      return;
    byClient.set(client, connection);
    raw.once("close", () => byClient.delete(client));
  });
  server.on("secureConnection", (secure: Socket) => {
    const connection = byClient.get(clientOf(secure));
    if (connection !== undefined) connection.secure = secure;
  });
}

function stateOf(response: ServerResponse | undefined): ClientState {
  if (response?.writableFinished === true) return "idle";
  return response?.req.complete === true && !response.writableEnded ? "waits" : "asks";
}
