/**
 * Answers the probes of Docker, Kubernetes and the like over HTTP. `/live` says that the event loop turns: whoever gets
 * no answer may restart the process. `/ready` says that its actors serve; otherwise its body is the reason.
 */
import { type Server, createServer } from "node:http";
import type { HostPort } from "./option-values.ts";

/** Connections at once: a few probers with one each. Others are closed, which no prober takes for health. */
const PROBERS_MAX = 16;
/** A prober that sends no request for so long is cut off, so that it takes no other's place. */
const REQUEST_MS = 5_000;
/** A replacement that starts beside the process it replaces gets the port when that has ended. */
const LISTEN_AGAIN_MS = 250;

export interface Probed {
  /** Why the process doesn't serve; undefined: it does. */
  readonly unready: () => string | undefined;
  readonly onError: (error: Error) => void;
}

/**
 * Listens until the process ends, which it doesn't keep from ending. While another holds the port it tries again, and
 * tells `onError` once.
 */
export function answerProbes({ host, port }: HostPort, { unready, onError }: Probed): Server {
  const server = createServer(
    { requestTimeout: REQUEST_MS, connectionsCheckingInterval: REQUEST_MS },
    (request, response) => {
      const reason = request.url === "/ready" ? unready() : undefined;
      const status = request.url !== "/live" && request.url !== "/ready" ? 404 : reason === undefined ? 200 : 503;
      response.writeHead(status, { "content-type": "text/plain", connection: "close" });
      response.end(`${status === 404 ? "there are /live and /ready" : (reason ?? "ok")}\n`);
    },
  );
  server.maxConnections = PROBERS_MAX;
  const listen = (): void => void server.listen(port, host);
  let isTold = false;
  server.on("error", (error: NodeJS.ErrnoException) => {
    const isTaken = error.code === "EADDRINUSE";
    if (!isTaken || !isTold) onError(error);
    isTold ||= isTaken;
    if (isTaken) setTimeout(listen, LISTEN_AGAIN_MS).unref();
  });
  listen();
  return server.unref();
}
