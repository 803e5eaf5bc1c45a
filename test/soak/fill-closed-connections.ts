/** Brings a NATS server's memory of closed connections to its full size. */
import { connect } from "node:net";

/** Number of closed connections that a nats-server keeps for its monitoring; version 2.9 has no setting for it. */
const KEPT = 10_000;
const SILENCE_MS = 5_000;
const CONNECT = `CONNECT ${JSON.stringify({ verbose: false, name: "soak", lang: "node", version: "1" })}\r\nPING\r\n`;

/**
 * Opens and closes as many connections as the server keeps, evenly over `durationMs`. Its memory of them then no longer
 * grows, so any growth is a leak.
 */
export async function fillClosedConnections(url: string, durationMs: number, signal: AbortSignal): Promise<void> {
  const { hostname: host, port } = new URL(url);
  const startedMs = performance.now();
  for (let opened = 0; opened < KEPT && !signal.aborted; opened++) {
    const dueMs = startedMs + (durationMs * opened) / KEPT;
    if (dueMs > performance.now()) await new Promise((resolve) => void setTimeout(resolve, dueMs - performance.now()));
    await openAndClose(host, Number(port));
  }
}

/**
 * Opens and closes one connection. It also resolves when the server is away: the load reports the outcomes of requests.
 */
const openAndClose = (host: string, port: number): Promise<void> =>
  new Promise((resolve) => {
    const socket = connect({ host, port }, () => socket.write(CONNECT));
    socket.setTimeout(SILENCE_MS, () => socket.destroy());
    let heard = "";
    socket.on("data", (data) => {
      heard += data.toString("latin1");
      if (heard.includes("PONG") || heard.includes("-ERR")) socket.end();
    });
    socket.on("error", () => undefined);
    socket.once("close", () => resolve());
  });
