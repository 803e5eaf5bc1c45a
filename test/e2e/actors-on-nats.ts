/**
 * A small cluster's actors in this process, each on NATS connections of its own, as its service makes them. It is for
 * tests of NATS itself.
 */
import { randomBytes, randomInt } from "node:crypto";
import { join } from "node:path";
import {
  type Actor,
  type ActorConfig,
  type ActorPorts,
  createBatcher,
  createPlanner,
  createProfiler,
  createRanker,
} from "@tutti/actors";
import { createExecutor } from "@tutti/executor";
import { createIngress } from "@tutti/ingress";
import {
  type NatsConnection,
  NatsDataClient,
  connectNats,
  readCredentials,
  roleInboxPrefix,
  serveNats,
} from "@tutti/bus-nats";
import { ModelRegistry } from "@tutti/client/registries";
import { NodeClock } from "@tutti/node/clock";
import { EmulatedEngine } from "@tutti/ports/engine";
import type { Role } from "@tutti/protocol";
import { noTelemetry } from "@tutti/ports/telemetry";
import { ACTOR_KEY_MAX, actorKey, gpuId, micros, millis, seconds } from "@tutti/units";

export interface ActorsOnNats {
  readonly actors: readonly Actor[];
  stop(): Promise<void>;
}

const MODEL = {
  name: "quick",
  engine: "emulated" as const,
  batchSizeMax: 8,
  patience: 1,
  inputs: [{ name: "x", type: "FP32" as const, dims: ["batch", 1] }],
  outputs: [{ name: "y", type: "FP32" as const, dims: ["batch", 1] }],
  constants: [],
  axes: {},
  buckets: [{}],
};

export interface ActorsOptions {
  readonly sloMs: number;
  /** Sub-clusters, with two rankers each. Default: `main`. */
  readonly subClusters?: readonly string[];
  /** Accelerators of each executor. Default: one executor of two. */
  readonly executors?: readonly (readonly number[])[];
  /** Memory of each accelerator, and of each model. A planner runs only where this is given. */
  readonly memory?: { readonly ofGpu: number; readonly ofModel: number };
  /** Default: `quick`. */
  readonly models?: readonly string[];
}

/** @param where - of all servers, and the folder with every role's credentials; resolves when the models are served */
export async function startActorsOnNats(
  where: { readonly servers: string; readonly creds: string },
  options: ActorsOptions,
): Promise<ActorsOnNats> {
  const { subClusters = ["main"], executors = [[0, 1]], memory, models = [MODEL.name] } = options;
  const clock = new NodeClock();
  await clock.ready();
  const connections: NatsConnection[] = [];
  const actors: Actor[] = [];
  const connect = async (user: string, inboxPrefix: string): Promise<NatsConnection> => {
    const credentials = readCredentials(join(where.creds, `${user}.nk`));
    const nats = await connectNats({ servers: where.servers, name: `tutti-${user}`, inboxPrefix, credentials });
    connections.push(nats);
    return nats;
  };
  type Create = (ports: ActorPorts, config: ActorConfig, nats: NatsConnection, ready: () => void) => Actor;
  const start = async (role: Role, create: Create): Promise<void> => {
    const nats = await connect(role, roleInboxPrefix(role));
    const { control: bus, bulk, store } = nats;
    const ports = { bus, bulk, store, clock, telemetry: noTelemetry, randomBytes };
    const key = actorKey(randomInt(1, ACTOR_KEY_MAX - 1));
    const times = { heartbeatEvery: millis(100), peerTimeout: millis(500) };
    const config = { key, cluster: "main", host: "here", pid: process.pid, ...times };
    await new Promise<void>((ready) => actors.push(create(ports, config, nats, ready)));
  };
  for (const subCluster of subClusters) {
    const ranker: Create = (ports, config, _, ready) =>
      createRanker(ports, { ...config, subCluster, pingEvery: millis(20), ctrlFloor: millis(2.5) }, ready);
    await start("ranker", ranker);
    await start("ranker", ranker);
  }
  await start("batcher", (ports, config, _, ready) => {
    const delayFloors = { ctrl: micros(300), perItem: 2, perKilobyte: 0.2 };
    return createBatcher(
      ports,
      { ...config, policy: { kind: "eager" }, gather: "target", delayFloors, marginShare: 0.05 },
      ready,
    );
  });
  await start("profiler", (ports, config, _, ready) => createProfiler(ports, { ...config, ...PROFILING }, ready));
  if (memory !== undefined)
    await start("planner", (ports, config, _, ready) => createPlanner(ports, { ...config, epoch: seconds(6) }, ready));
  for (const gpus of executors)
    await start("executor", (ports, config, nats, ready) => {
      const latency = (_: string, __: number, batchSize: number) => micros(2_000 + 500 * batchSize);
      const engines = gpus.map((gpu) => ({ gpu: gpuId(gpu), engine: new EmulatedEngine({ clock, latency }) }));
      const data = new NatsDataClient({ bus: nats.bulk, cluster: config.cluster, key: config.key });
      const limits = memory === undefined ? {} : { memoryBytesMax: memory.ofGpu };
      return createExecutor({ ...ports, data, engines, onFault: () => undefined }, { ...config, ...limits }, ready);
    });
  await start("ingress", (ports, config, nats, ready) => {
    const serveData = (handlers: Parameters<typeof serveNats>[0]["handlers"]) => {
      const server = serveNats({ bus: nats.bulk, cluster: config.cluster, key: config.key, handlers });
      return { address: () => server.address, close: (done: () => void) => server.close(done) };
    };
    return createIngress({ ...ports, serveData }, { ...config, replyScope: "any", respondFloor: micros(300) }, ready);
  });
  const registry = new ModelRegistry((await connect("admin", "_INBOX.admin")).store);
  const size = memory === undefined ? {} : { memory: memory.ofModel };
  for (const name of models) {
    const spec = await registry.publish({ ...MODEL, ...size, name, slo: millis(options.sloMs), profile: PROFILE }, {});
    await registry.waitUntilServed(spec, { timeoutMs: 60_000 });
  }
  return {
    actors,
    stop: async () => {
      for (const actor of [...actors].reverse()) await new Promise<void>((done) => actor.drain(done));
      await Promise.all(connections.map((connection) => connection.close()));
      clock.close();
    },
  };
}

const PROFILE = [[1, 8].map((batchSize) => ({ batchSize, latency: micros(2_000 + 500 * batchSize) }))];
const PROFILING = {
  runs: 10,
  budget: millis(200),
  gpusMax: 4,
  overhead: millis(1),
  window: seconds(30),
} as const;
