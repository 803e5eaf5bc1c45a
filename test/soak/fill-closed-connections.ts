/** Brings a NATS server's memory of closed connections to its full size. */
import { connect } from "node:net";

/** A nats-server keeps so many closed connections for its monitoring, and has no setting for it in version 2.9. */
const KEPT = 10_000;
const CONNECT = `CONNECT ${JSON.stringify({ verbose: false, name: "soak", lang: "node", version: "1" })}\r\nPING\r\n`;

/**
 * Opens and closes as many connections as the server keeps, evenly over `durationMs`: what it holds of them then no
 * longer grows, and what grows is a leak.
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

/** Also resolves when the server is away: what becomes of requests then is the load's to tell. */
const openAndClose = (host: string, port: number): Promise<void> =>
  new Promise((resolve) => {
    const socket = connect({ host, port }, () => socket.write(CONNECT));
    let heard = "";
    socket.on("data", (data) => {
      heard += data.toString("latin1");
      if (heard.includes("PONG") || heard.includes("-ERR")) socket.end();
    });
    socket.on("error", () => undefined);
    socket.once("close", () => resolve());
  });
