import { InMemoryNetwork } from "@tutti/ports/bus";
import { NatsDataClient, serveNats } from "@tutti/bus-nats";
import {
  type DataClient,
  type DataHandlers,
  type DataServer,
  InMemoryDataNetwork,
  bothServers,
  fallbackClient,
} from "@tutti/ports/pull";
import { TcpDataClient, serveTcp } from "@tutti/pull-tcp";
import { type ActorKey, actorToken } from "@tutti/units";
import { type DataPlane, dataPlaneConformance } from "./data-plane.suite.ts";

/** Closes what a test opened. */
function planeOf(open: Pick<DataPlane, "serve" | "connect">): DataPlane {
  const opened: (DataServer | DataClient)[] = [];
  return {
    serve: async (key, handlers) => {
      const server = await open.serve(key, handlers);
      opened.push(server);
      return server;
    },
    connect: async (key) => {
      const client = await open.connect(key);
      opened.push(client);
      return client;
    },
    closeAll: async () => {
      await Promise.all(opened.splice(0).map((it) => new Promise<void>((resolve) => it.close(resolve))));
    },
  };
}

const memory = new InMemoryDataNetwork({
  schedule: (delay, run) => {
    const timer = setTimeout(run, delay / 1_000);
    return { stop: () => clearTimeout(timer) };
  },
});
dataPlaneConformance("in-memory", () => inMemory);
const inMemory = planeOf({
  serve: async (key, handlers) => memory.serve(key, handlers),
  connect: async (key) => memory.connect(key),
});

dataPlaneConformance("TCP", () => tcp);
const tcp = planeOf({
  serve: async (key, handlers) => {
    const server = serveTcp({ key, handlers });
    await server.listening;
    return server;
  },
  connect: async (key) => new TcpDataClient({ key }),
});

const network = new InMemoryNetwork();
dataPlaneConformance("NATS frames over the in-memory bus", () => relayed);
const relayed = planeOf({
  serve: async (key, handlers) =>
    serveNats({ bus: network.connect({ name: `i${actorToken(key)}` }), cluster: "test", key, handlers }),
  connect: async (key) =>
    new NatsDataClient({ bus: network.connect({ name: `e${actorToken(key)}` }), cluster: "test", key }),
});

/** Both planes at once, as an ingress and an executor use them. */
dataPlaneConformance("TCP with the bus to fall back on", () => both);
const both = planeOf({
  serve: async (key, handlers) => {
    const direct = serveTcp({ key, handlers });
    await direct.listening;
    return bothServers(direct, serveOnBus(key, handlers));
  },
  connect: async (key) => fallback(key),
});

/** The ingress advertises an address with a port where nothing listens, as behind a firewall that rejects. */
dataPlaneConformance("the bus where TCP can't connect", () => unconnected);
const unconnected = planeOf({
  serve: async (key, handlers) => {
    const nobody = serveTcp({ key, handlers });
    const address = await nobody.listening;
    await new Promise<void>((resolve) => nobody.close(resolve));
    const serving = serveOnBus(key, handlers);
    return { address, close: (done) => serving.close(done) };
  },
  connect: async (key) => fallback(key),
});

function serveOnBus(key: ActorKey, handlers: DataHandlers): DataServer {
  return serveNats({ bus: network.connect({ name: `i${actorToken(key)}` }), cluster: "both", key, handlers });
}
function fallback(key: ActorKey): DataClient {
  const bus = network.connect({ name: `e${actorToken(key)}` });
  const relayedClient = new NatsDataClient({ bus, cluster: "both", key });
  return fallbackClient(new TcpDataClient({ key }), relayedClient, { now: () => performance.now() });
}
