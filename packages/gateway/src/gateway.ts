import { type Server, createServer } from "node:http";
import { type Actor, type ActorConfig, type ActorPorts, Station } from "@tutti/actors";
import { missingParts } from "./health.ts";

export interface GatewayConfig extends ActorConfig {
  /** On loopback; 0 takes any free one. */
  readonly httpPort: number;
}

export interface GatewayPorts extends ActorPorts {
  /** Told where it listens, or why it can't. */
  readonly onListening: (address: { readonly url: string } | Error) => void;
}

/**
 * Says over HTTP whether the cluster serves, by the paths of the Open Inference Protocol: `/v2/health/live` for this process, `/v2/health/ready`
 * for everything that a request needs. Only loopback hears it: it has no accounts.
 */
export function createGateway(ports: GatewayPorts, config: GatewayConfig, ready: () => void): Actor {
  let asked = 0;
  const station = new Station(ports, config, {
    role: "gateway",
    listensTo: ["ingress", "batcher", "ranker", "executor"],
    stats: () => ({ figures: { asked } }),
  });
  const server = createServer((request, response) => {
    asked++;
    const { status, body } = answer(request.method, request.url, () =>
      missingParts((role) => station.directory.ofRole(role)),
    );
    response.writeHead(status, { "content-type": "application/json" }).end(`${JSON.stringify(body)}\n`);
  });
  server.on("error", (error) => ports.onListening(error));
  station.open();
  server.listen(config.httpPort, "127.0.0.1", () => {
    ports.onListening({ url: urlOf(server) });
    ready();
  });
  return {
    role: "gateway",
    key: config.key,
    drain(done) {
      server.close(() => station.close(done));
      server.closeAllConnections();
    },
  };
}

interface Answer {
  readonly status: number;
  readonly body: Readonly<Record<string, unknown>>;
}

/** Pure: what each path says. */
export function answer(method: string | undefined, url: string | undefined, missing: () => string[]): Answer {
  if (method !== "GET" && method !== "HEAD") return { status: 405, body: { error: "GET only" } };
  switch (url?.split("?", 1)[0]) {
    case "/v2/health/live":
      return { status: 200, body: { live: true } };
    case "/v2/health/ready": {
      const reasons = missing();
      return { status: reasons.length === 0 ? 200 : 503, body: { ready: reasons.length === 0, missing: reasons } };
    }
    default:
      return { status: 404, body: { error: "known paths are /v2/health/live and /v2/health/ready" } };
  }
}

function urlOf(server: Server): string {
  const address = server.address();
  return `http://127.0.0.1:${typeof address === "object" && address !== null ? address.port : 0}`;
}
