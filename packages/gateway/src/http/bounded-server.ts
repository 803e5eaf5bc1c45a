/** What servers of ours have in common: nobody holds them up, and a malformed request is answered and no more. */
import { type IncomingMessage, type Server, type ServerResponse, createServer } from "node:http";
import type { Socket } from "node:net";
import { type ClientState, type ConnectionLimits, Connections } from "../connections.ts";

/** A request's head and body must be here by then; who sends more slowly holds memory for nothing. */
const REQUEST_MS = 60_000;
const HEADERS_MS = 5_000;
/** How often the two are looked at. */
const CHECK_MS = 1_000;
const IDLE_MS = 30_000;
/** Who neither sends nor reads for so long is gone, unless he waits for our answer. */
const STILL_MS = 60_000;

export function boundedServer(
  handle: (request: IncomingMessage, response: ServerResponse) => void,
  limits?: ConnectionLimits,
): Server {
  const connections = new Connections(limits);
  const latest = new WeakMap<Socket, ServerResponse>();
  const server = createServer(
    {
      ...{ requestTimeout: REQUEST_MS, headersTimeout: HEADERS_MS, connectionsCheckingInterval: CHECK_MS },
      ...{ keepAliveTimeout: IDLE_MS, noDelay: true },
    },
    (request, response) => {
      latest.set(request.socket, response);
      handle(request, response);
    },
  );
  server.on("connection", (socket) => void connections.admit(socket, () => stateOf(latest.get(socket))));
  server.setTimeout(STILL_MS, (socket) => {
    if (stateOf(latest.get(socket)) !== "waits") socket.destroy(); // idle ones after IDLE_MS: node:http sets their time-out
  });
  // An accept that fails, as it does where no file is free (EMFILE), costs its client the connection and nobody else anything.
  server.on("error", () => undefined);
  return server;
}

function stateOf(response: ServerResponse | undefined): ClientState {
  if (response?.writableFinished === true) return "idle";
  return response?.req.complete === true && !response.writableEnded ? "waits" : "asks";
}
