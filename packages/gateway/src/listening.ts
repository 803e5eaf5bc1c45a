/** Opens servers' ports. */
import type { Server } from "node:net";

export const LOOPBACK = "127.0.0.1";
export const isLoopback = (host: string): boolean => host === "localhost" || host === "::1" || host.startsWith("127.");

/**
 * Connections that wait to be accepted; Linux cuts it to net.core.somaxconn. Where they are more, a newcomer's first
 * packet is dropped, and sent again after a second: with Node's 511 thousands of connections at once made others wait.
 */
const BACKLOG = 4_096;

/** A required port (0: any), or a preferred one that is taken if it is free. */
export type PortWish = { readonly port: number } | { readonly preferred: number };

const urlHost = (host: string): string => (host.includes(":") ? `[${host}]` : host);
export const urlOf = (host: string, port: number, scheme: "http" | "https" = "http"): string =>
  `${scheme}://${urlHost(host)}:${port}`;

/** Resolves with the port. @throws {Error} where the port can't be opened */
export async function listen(server: Server, host: string, wish: PortWish): Promise<number> {
  try {
    return await tryListening(server, host, "port" in wish ? wish.port : wish.preferred);
  } catch (error) {
    if ("port" in wish || (error as NodeJS.ErrnoException).code !== "EADDRINUSE") throw error;
    return tryListening(server, host, 0);
  }
}

function tryListening(server: Server, host: string, port: number): Promise<number> {
  return new Promise((resolve, reject) => {
    const onError = (error: Error): void => {
      server.off("listening", onListening);
      reject(error);
    };
    const onListening = (): void => {
      server.off("error", onError);
      const address = server.address();
      resolve(typeof address === "object" && address !== null ? address.port : 0);
    };
    server.once("error", onError);
    server.once("listening", onListening);
    server.listen({ port, host, backlog: BACKLOG });
  });
}
