/** An HTTP server with bounds: slow clients do not hold it up, and a malformed request gets an answer. */
import { type IncomingMessage, type Server, type ServerResponse, createServer, maxHeaderSize } from "node:http";
import { createServer as createTlsServer } from "node:https";
import type { Socket } from "node:net";
import type { Duplex } from "node:stream";
import { TuttiError } from "@tutti/protocol";
import type { TlsPair } from "../auth/tls-pair.ts";
import { type ClientState, type ConnectionLimits, Connections, clientOf } from "../connections.ts";
import { failureAnswer, send } from "./answers.ts";

/** Time limits of a request and of its head: a slower client holds memory for nothing. */
const REQUEST_MS = 60_000;
const HEADERS_MS = 5_000;
/** Interval of the checks of both. */
const CHECK_MS = 1_000;
const IDLE_MS = 30_000;
/** Time after which a client that neither sends nor reads is disconnected, unless it waits for our answer. */
const STILL_MS = 60_000;

type Handler = (request: IncomingMessage, response: ServerResponse) => void;
const ANSWERED = "answered";
/** The response to a connection's latest request, while it is not over. */
type Latest = ServerResponse | typeof ANSWERED | undefined;

export interface BoundedServerOptions {
  readonly limits?: ConnectionLimits | undefined;
  /** Default: plain text. */
  readonly tls?: TlsPair | undefined;
}

export function boundedServer(handle: Handler, { limits, tls }: BoundedServerOptions = {}): Server {
  const connections = new Connections(limits);
  // A response holds its request with all that was read of it, so it is held no longer than until its end.
  const latest = new WeakMap<Socket, NonNullable<Latest>>();
  const refused = new WeakSet<Socket>();
  const server = create(tls, (request, response) => {
    const { socket } = request;
    if (refused.has(socket)) return; // it ends with the refusal of the request before
    latest.set(socket, response);
    response.once("close", () => {
      if (latest.get(socket) === response) latest.set(socket, ANSWERED);
    });
    if (CODINGS.test(request.headers["transfer-encoding"] ?? "chunked")) return handle(request, response);
    refused.add(socket);
    refuseCoding(request, response);
  });
  if (tls === undefined)
    server.on("connection", (socket) => void connections.admit(socket, () => stateOf(latest.get(socket))));
  else admitTls(server, connections, (socket) => stateOf(latest.get(socket)));
  server.setTimeout(STILL_MS, (socket) => {
    // idle ones end after IDLE_MS: node:http sets their time-out
    if (stateOf(latest.get(socket)) !== "waits") socket.destroy();
  });
  server.on("clientError", (error, socket) => refuseUnreadable(error, socket, latest.get(socket as Socket)));
  // A failed accept, such as without a free file (EMFILE), costs its client the connection; all others go on.
  server.on("error", () => undefined);
  return server;
}

/** node:http reads chunks whatever codings stand before: a proxy may see the request's end at another place. */
const CODINGS = /^chunked$/i;

function refuseCoding(request: IncomingMessage, response: ServerResponse): void {
  const error = new TuttiError("TUTTI_INVALID_INPUT", "Transfer-Encoding is chunked, and nothing beside it");
  request.on("error", () => undefined).resume();
  send(response, { ...failureAnswer(error), headers: { connection: "close" } });
}

/**
 * Answers a request that can't be read, as node:http alone does, but with a body that says why. An answer that has
 * begun is cut off: the refusal would pass for the rest of it.
 *
 * @param latest - the answer to the request before
 */
function refuseUnreadable(error: NodeJS.ErrnoException, socket: Duplex, latest: Latest): void {
  // Without a socket it waits for the one before it.
  const isAnswering =
    typeof latest === "object" && !latest.writableFinished && (latest.headersSent || latest.socket === null);
  // Over TLS, what is written before the handshake ends waits for that.
  const isShakingHands = error.code?.startsWith("ERR_TLS_") === true;
  if (!socket.writable || isAnswering || isShakingHands || error.code === "ECONNRESET") return void socket.destroy();
  const [status, code, text] = REFUSALS.get(error.code ?? "") ?? [
    "400 Bad Request",
    "INVALID_INPUT",
    "this is no HTTP/1.1",
  ];
  const body = `${JSON.stringify({ error: text, code: `TUTTI_${code}`, retryable: false })}\n`;
  const head = `HTTP/1.1 ${status}\r\ncontent-type: application/json\r\ncontent-length: ${Buffer.byteLength(body)}`;
  socket.end(`${head}\r\nconnection: close\r\n\r\n${body}`, () => socket.destroy());
}
const REFUSALS = new Map<string, readonly [status: string, code: string, text: string]>([
  [
    "HPE_HEADER_OVERFLOW",
    [
      "431 Request Header Fields Too Large",
      "TOO_LARGE",
      `the path and the headers have at most ${maxHeaderSize} bytes together`,
    ],
  ],
  ["HPE_CHUNK_EXTENSIONS_OVERFLOW", ["413 Payload Too Large", "TOO_LARGE", "the extensions of chunks are too long"]],
  [
    "ERR_HTTP_REQUEST_TIMEOUT",
    [
      "408 Request Timeout",
      "INVALID_INPUT",
      `the headers take at most ${HEADERS_MS / 1_000} s, and the request ${REQUEST_MS / 1_000} s`,
    ],
  ],
]);

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

function stateOf(response: Latest): ClientState {
  if (response === ANSWERED || response?.writableFinished === true) return "idle";
  return response?.req.complete === true && !response.writableEnded ? "waits" : "asks";
}
