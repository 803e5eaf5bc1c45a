/**
 * Builds a process of the simulation as packages/cli builds one. Its actors share two connections and a clock's skew,
 * hear each other through HostBus, offer each other their rows, and are linked with the other processes of their host.
 */
import {
  type Actor,
  type ActorConfig,
  type ActorPorts,
  type LocalActors,
  AWAKE_WITHIN,
  BrokerStallDetector,
} from "@tutti/actors";
import type { IngressPorts } from "@tutti/ingress";
import { HostBus, type InMemoryBus, type InMemoryNetwork } from "@tutti/ports/bus";
import { NatsDataClient, nearFirst, serveNats } from "@tutti/bus-nats";
import type { VirtualClock } from "@tutti/ports/clock";
import { type DataClient, type InMemoryDataNetwork, type Timer, bothServers } from "@tutti/ports/pull";
import type { Store } from "@tutti/ports/store";
import type { Telemetry } from "@tutti/ports/telemetry";
import { type Micros, type Prng, actorKey, after, micros, millis } from "@tutti/units";
import { type EngineFaults, createActor } from "./actors.ts";
import type { ProcessPlan } from "./groupings.ts";
import type { HostLinks } from "./host-links.ts";
import { type StoreLink, actorDataHandlers, actorStore, connectionOf, watchedBus, watchedDataClient } from "./ports.ts";
import type { Plan } from "./plan.ts";
import { ActorClock, Incarnation, Process } from "./process.ts";
import type { Watcher } from "./watcher.ts";

/** After this silence a peer is dead: five heartbeats, as in production. */
export const PEER_TIMEOUT: Micros = millis(100);
const PULSE_EVERY: Micros = micros(PEER_TIMEOUT / 10);
/** Shorter than in production by the same factor as the time-out. */
const BARRIER_MS = 50;
const CLUSTER = "main";

export interface RunningActor {
  readonly incarnation: Incarnation;
  readonly actor: Actor;
}
/** A process that runs. */
export interface RunningProcess {
  readonly process: Process;
  /** Connections for control, and for requests and answers. */
  readonly connections: readonly [InMemoryBus, InMemoryBus];
  readonly actors: readonly RunningActor[];
  /** Closes everything that the end of the process closes at once. */
  close(): void;
}

export interface ProcessWorld {
  readonly plan: Plan;
  readonly watcher: Watcher;
  readonly clock: VirtualClock;
  readonly network: InMemoryNetwork;
  readonly data: InMemoryDataNetwork;
  readonly store: Store;
  readonly storeLink: (process: Process) => StoreLink;
  readonly links: HostLinks;
  readonly engines: EngineFaults;
  readonly prng: Prng;
  /** Whether a process with that id runs on that host. */
  readonly lives: (host: string, pid: number) => boolean;
  /** Called before the actor is created. */
  readonly onStarted: (actor: Incarnation) => void;
  /** Called when an engine is unusable. */
  readonly onFault: (process: Process) => void;
}

interface Shared {
  readonly process: Process;
  readonly buses: { readonly control: HostBus; readonly bulk: HostBus };
  readonly local: LocalActors;
  readonly stallDetector: BrokerStallDetector;
  readonly links: NonNullable<ActorPorts["links"]>;
  readonly timing: Timing;
  readonly closing: (() => void)[];
}

interface Timing {
  readonly later: (run: () => void) => void;
  readonly startTimer: (delayMs: number, run: () => void) => Timer;
}

export function startProcess(plan: ProcessPlan, pid: number, world: ProcessWorld): RunningProcess {
  const { prng, clock, network, watcher } = world;
  const { skewUsMax } = world.plan;
  const skew = skewUsMax === 0 ? 0 : prng.nextInt(2 * skewUsMax + 1) - skewUsMax;
  const process = new Process({ name: plan.name, host: plan.host, pid, skew, watcher });
  const incarnations = plan.slots.map((slot) => {
    const key = actorKey(1 + prng.nextUint32() * 4_096 + prng.nextInt(4_096));
    return new Incarnation({ slot, key, process, watcher });
  });
  const connect = (channel: string): InMemoryBus =>
    network.connect({ name: `${plan.name}#${pid}${channel}`, noEcho: true });
  const connections = [connect(""), connect("-bulk")] as const;
  const timing = timingOf(process, clock);
  const [control, bulk] = connections.map(
    (connection) => new HostBus({ under: connectionOf(connection, process), barrierMs: BARRIER_MS, ...timing }),
  ) as [HostBus, HostBus];
  const buses = { control, bulk };
  const stallDetector = new BrokerStallDetector(
    control.under,
    new ActorClock(clock, incarnations[0]!),
    AWAKE_WITHIN,
    PULSE_EVERY,
  );
  const closing: (() => void)[] = [];
  const shared = { process, buses, local: {}, stallDetector, links: world.links.join(process, buses), timing, closing };
  const actors = incarnations.map((incarnation) => {
    world.onStarted(incarnation);
    return { incarnation, actor: startActor(incarnation, shared, world) };
  });
  const close = (): void => {
    process.end();
    world.links.leave(process);
    for (const end of closing) end();
    for (const connection of connections) connection.close(() => undefined);
  };
  return { process, connections, actors, close };
}

function timingOf(process: Process, clock: VirtualClock): Timing {
  return {
    later: (run) => clock.endOfTurn(() => process.perform(run)),
    startTimer: (delayMs, run) => {
      const alarm = clock.alarm(() => process.perform(run));
      alarm.set(after(clock.now(), micros(Math.ceil(delayMs * 1_000))));
      return { stop: () => alarm.clear() };
    },
  };
}

function startActor(actor: Incarnation, shared: Shared, world: ProcessWorld): Actor {
  const { process, buses, local, stallDetector, links } = shared;
  const { watcher, prng } = world;
  const ports: ActorPorts = {
    bus: watchedBus(buses.control.actor(), "control", actor, watcher),
    bulk: watchedBus(buses.bulk.actor(), "bulk", actor, watcher),
    store: actorStore(world.store, actor, watcher, world.storeLink(process)),
    clock: new ActorClock(world.clock, actor),
    telemetry: telemetryOf(actor, watcher),
    randomBytes: (count) => Uint8Array.from({ length: count }, () => prng.nextInt(256)),
    processLives: (pid) => world.lives(process.host, pid),
    ...{ local, stallDetector, links },
  };
  const config: ActorConfig = {
    key: actor.key,
    cluster: CLUSTER,
    host: process.host,
    pid: process.pid,
    heartbeatEvery: millis(20),
    peerTimeout: PEER_TIMEOUT,
  };
  return createActor(world, {
    ...{ actor, ports, config },
    serveData: (handlers) => serveData(handlers, { actor, ports, shared, world }),
    openData: () => openData({ actor, ports, shared, world }),
    onFault: () => world.onFault(process),
  });
}

interface DataParts {
  readonly actor: Incarnation;
  readonly ports: ActorPorts;
  readonly shared: Shared;
  readonly world: ProcessWorld;
}

/** Serves data over the simulation's own network instead of TCP, and over the bus to executors that are near. */
function serveData(
  handlers: Parameters<IngressPorts["serveData"]>[0],
  { actor, ports, shared, world }: DataParts,
): ReturnType<IngressPorts["serveData"]> {
  const { data, watcher } = world;
  const watched = watcher.watchRows(actor, handlers);
  const far = data.serve(actor.key, actorDataHandlers(watched, actor));
  const near = serveNats({ bus: ports.bulk, cluster: CLUSTER, key: actor.key, handlers: watched, ...shared.timing });
  shared.closing.push(() => {
    data.serverOf(actor.key)?.onClose.forEach((notice) => void data.schedule(micros(0), notice));
    far.close(() => undefined);
  });
  const server = bothServers(far, near);
  return {
    address: () => undefined,
    pushBatch: (batch, batcher, items) => {
      const isSent = server.pushBatch?.(batch, batcher, items) === true;
      if (isSent) watcher.onCarried(actor, batch, batcher, items);
      return isSent;
    },
    close: (done) => server.close(() => actor.perform(done)),
  };
}

function openData({ actor, ports, shared, world }: DataParts): DataClient {
  const bulk = { bus: ports.bulk, cluster: CLUSTER };
  const near = new NatsDataClient({ ...bulk, key: actor.key, ...shared.timing });
  return watchedDataClient(nearFirst(near, world.data.connect(actor.key), bulk), actor, world.watcher);
}

function telemetryOf(actor: Incarnation, watcher: Watcher): Telemetry {
  const write = (level: string) => (fields: unknown, text?: string) => watcher.onLogged(actor, level, fields, text);
  const log: Telemetry["log"] = {
    debug: () => undefined,
    info: write("info"),
    warn: write("warn"),
    error: write("error"),
    child: () => log,
  };
  const span = {
    context: { traceId: "0".repeat(32), spanId: "0".repeat(16), sampled: false },
    set: () => undefined,
    event: () => undefined,
    keep: () => undefined,
    end: () => undefined,
  };
  return { log, tracer: { enabled: false, start: () => span } };
}
