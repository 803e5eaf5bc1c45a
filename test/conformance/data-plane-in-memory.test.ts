import { once } from "node:events";
import { type AddressInfo, createServer } from "node:net";
import { InMemoryNetwork } from "@tutti/ports/bus";
import { NatsDataClient, serveNats } from "@tutti/bus-nats";
import {
  type DataClient,
  type DataHandlers,
  type DataPeer,
  type DataServer,
  type FallbackOptions,
  InMemoryDataNetwork,
  type PullOutcome,
  bothServers,
  fallbackClient,
} from "@tutti/ports/pull";
import { TOKEN_BYTES } from "@tutti/protocol";
import { TcpDataClient, serveTcp } from "@tutti/pull-tcp";
import { type ActorKey, actorKey, actorToken } from "@tutti/units";
import { expect, test } from "vitest";
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

const INGRESS = actorKey(2 ** 40 + 1);
const EXECUTOR = actorKey(2 ** 41 + 2);
const echo: DataHandlers = {
  onPull: (pull, reply) => reply(pull.seqs.map((seq) => ({ seq, row: new Uint8Array(8), traceparent: "" }))),
  onResults: () => undefined,
};
const pull = (client: DataClient, peer: DataPeer, timeoutMs: number): Promise<PullOutcome> =>
  new Promise((resolve) => client.pull(peer, { ...REQUEST, seqs: [1] }, timeoutMs, resolve));
const REQUEST = { executor: EXECUTOR, gpu: 0, thread: 64, batchId: 1, batcher: 9, token: new Uint8Array(TOKEN_BYTES) };

test("a port behind a firewall that drops costs no pull its time, neither at first nor when it is tried again", async () => {
  const port = createServer((socket) => socket.resume().on("error", () => undefined)).listen(0, "127.0.0.1");
  await once(port, "listening");
  const server = serveOnBus(INGRESS, echo);
  let now = 0;
  let isLeft = (): void => undefined;
  const client = fallback(EXECUTOR, { now: () => now, onSwitch: () => isLeft() });
  const peer = { key: INGRESS, address: { host: "127.0.0.1", port: (port.address() as AddressInfo).port, tls: false } };
  const left = new Promise<void>((resolve) => (isLeft = resolve));
  expect(await pull(client, peer, 500)).toHaveProperty("items");
  await left;
  now = 1_000;
  expect(await pull(client, peer, 500)).toHaveProperty("items");
  await Promise.all([client, server, port].map((it) => new Promise<void>((resolve) => it.close(() => resolve()))));
});

test("pulls go over TCP once it is connected, and the first one doesn't wait for that", async () => {
  const direct = serveTcp({ key: INGRESS, handlers: echo });
  const peer = { key: INGRESS, address: await direct.listening };
  const server = bothServers(direct, serveOnBus(INGRESS, echo));
  const client = fallback(EXECUTOR);
  expect([await pull(client, peer, 5_000), direct.figures.pulls]).toEqual([{ items: [expect.anything()] }, 0]);
  await expect.poll(() => pull(client, peer, 5_000).then(() => direct.figures.pulls)).toBeGreaterThan(0);
  await Promise.all([client, server].map((it) => new Promise<void>((resolve) => it.close(resolve))));
});

function serveOnBus(key: ActorKey, handlers: DataHandlers): DataServer {
  return serveNats({ bus: network.connect({ name: `i${actorToken(key)}` }), cluster: "both", key, handlers });
}
function fallback(key: ActorKey, options: Partial<FallbackOptions> = {}): DataClient {
  const bus = network.connect({ name: `e${actorToken(key)}` });
  const relayedClient = new NatsDataClient({ bus, cluster: "both", key });
  return fallbackClient(new TcpDataClient({ key }), relayedClient, { now: () => performance.now(), ...options });
}
