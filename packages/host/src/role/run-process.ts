/**
 * Runs one process of a cluster. It reads the command line, connects, starts the actors, reports readiness, and stops
 * in order.
 */
import { randomBytes, randomInt } from "node:crypto";
import { hostname } from "node:os";
import { resolve } from "node:path";
import {
  type Actor,
  type ActorConfig,
  type ActorPorts,
  type LocalActors,
  AWAKE_WITHIN,
  BrokerStallDetector,
  drainInOrder,
} from "@tutti/actors";
import { type Bus, type BusStatus, HostBus } from "@tutti/ports/bus";
import { type NatsConnection, connectNats, readCredentials, roleInboxPrefix } from "@tutti/bus-nats";
import { NodeClock } from "@tutti/node/clock";
import { EventLoopTurns } from "@tutti/node/event-loop";
import { type ProcessRole, type Role, subjectsOf } from "@tutti/protocol";
import { type OtelTelemetry, createTelemetry } from "@tutti/telemetry-otel";
import { ACTOR_KEY_MAX, actorKey, actorToken, millis, shownAddresses } from "@tutti/units";
import { EXIT, explain } from "@tutti/admin";
import { deniedSubjects } from "./denied-subjects.ts";
import { outages } from "./nats-outages.ts";
import { HostLinks, type HostLinksOptions } from "./host-links.ts";
import { helpersGiveWay } from "./helper-threads.ts";
import { processLives } from "./process-lives.ts";
import { answerProbes } from "./probes.ts";
import { COLLECT_ALONE, decides } from "./process-arguments.ts";
import { HEARTBEAT_EVERY, IDLE_HEARTBEAT_EVERY, PEER_TIMEOUT } from "./role-defaults.ts";
import { type RoleOptions, parseRoleOptions } from "./role-options.ts";
import { loopBusyUs, watchVitals } from "./vitals.ts";

export interface RoleContext {
  /** All roles that this process hosts. */
  readonly roles: readonly Role[];
  readonly options: RoleOptions;
  readonly ports: ActorPorts;
  readonly config: ActorConfig;
  readonly nats: NatsConnection;
  readonly clock: NodeClock;
  /** Extra fields of the ready message to the parent process. */
  readonly told: Record<string, unknown>;
  /** Ends the process at once because its hardware or engine is unusable; its supervisor starts it again. */
  readonly fail: (reason: string) => void;
  /** Registers a function that runs before the process ends by itself, for whatever reason. */
  readonly onEnd: (run: () => void) => void;
}

/** Builds the actor on its ports, and calls `ready` once the actor serves. */
export type StartRole = (context: RoleContext, ready: () => void) => Actor | Promise<Actor>;

/** An ingress waits for its pending answers; a stop cuts off longer SLOs. */
const DRAIN_MS = 9_000;
/** Drain time after the parent process has gone: no ingress's clients are left to wait for. */
const ORPHAN_DRAIN_MS = 1_000;

/** A tenth of the time-out. */
const PULSE_EVERY = millis(100);

const WAITING_SAID_MS = 3_000;

const LOGGED_MS = 50;

const exitNow = (): void => process.exit(EXIT.failed);
/**
 * Ends an executor's process. `process.exit` waits for worker threads, so one in an endless native run would keep the
 * process alive. (Ending such a worker in another way aborts the process.)
 */
const killNow = (): void => {
  process.emit("exit", EXIT.failed);
  process.kill(process.pid, "SIGKILL");
};

/** Starters of all roles. Only the modules of hosted roles are loaded. */
export type RoleStarters = Readonly<Record<Role, () => Promise<StartRole>>>;

/** Name of a process: its role, or `node` if it hosts several. */
export const processRoleOf = (roles: readonly Role[]): ProcessRole => (roles.length === 1 ? roles[0]! : "node");

/** @param roles - the roles of this process; a gateway and an ingress in one process need no server between them */
export async function runProcess(
  roles: readonly Role[],
  argv: readonly string[],
  starters: RoleStarters,
): Promise<void> {
  const name = processRoleOf(roles);
  let telemetry: OtelTelemetry | undefined;
  if (roles.every(decides) && process.execArgv.includes(COLLECT_ALONE)) helpersGiveWay();
  try {
    const options = parseRoleOptions(roles, argv);
    const keys = roles.map(() => actorKey(randomInt(1, ACTOR_KEY_MAX - 1)));
    telemetry = await createTelemetry({
      service: `tutti-${name}`,
      instance: actorToken(keys[0]!),
      level: options.logLevel,
      ...(options.otlp !== undefined && { otlp: options.otlp }),
    });
    await serve({ roles, keys, options, telemetry, starters });
  } catch (error) {
    const { text, exitCode } = explain(error);
    process.stderr.write(`tutti run ${roles.join(",")}: ${text}\n`);
    await telemetry?.close();
    process.exit(exitCode === EXIT.ok ? EXIT.failed : exitCode);
  }
}

interface Serving {
  readonly roles: readonly Role[];
  /** Keys of the roles' actors, in the order of `roles`. */
  readonly keys: readonly ActorConfig["key"][];
  readonly options: RoleOptions;
  readonly telemetry: OtelTelemetry;
  readonly starters: RoleStarters;
}

async function serve({ roles, keys, options, telemetry, starters }: Serving): Promise<void> {
  const { log } = telemetry;
  // Exit at once until the actors run; then `endInOrder` takes over.
  process.on("disconnect", exitNow);
  let unready = (): string | undefined => "waiting for a NATS server";
  if (options.health !== undefined) {
    const onError = (error: Error): void => log.warn({ error: error.message }, "can't answer probes");
    answerProbes(options.health, { unready: () => unready(), onError });
  }
  // Load the code before anything waits for an answer: on a busy machine loading takes seconds in one piece, and what
  // an actor of this process has asked the server by then would seem unanswered.
  const starts = await Promise.all(roles.map((role) => starters[role]()));
  const nats = await connect(roles, options, telemetry);
  unready = () => "starting";
  let clockErrorUs = 0;
  const clock = new NodeClock({
    onSkew: (error) => {
      clockErrorUs = Math.round(error);
      log.warn({ errorUs: clockErrorUs }, "the wall clock is off; this clock slews towards it");
    },
    onDegraded: (reason) => log.warn({ reason }, "alarms are no longer precise"),
  });
  await clock.ready();
  const ending = { begun: false };
  const endNow = roles.includes("executor") ? killNow : exitNow;
  const fail = (reason: string): void => {
    log.error({ reason }, "can't go on");
    if (endNow === exitNow) process.exit(EXIT.failed);
    setTimeout(killNow, LOGGED_MS); // the log is written in the background
  };
  const onDenied = deniedSubjects(log);
  const onStatus = (status: BusStatus): void => {
    if (status.kind === "closed" && !ending.begun) fail(`the connection to NATS was closed: ${status.reason}`);
    onDenied(status);
  };
  nats.control.onStatus(outages(log, () => performance.now()));
  nats.control.onStatus(onStatus);
  nats.answers?.onStatus(onStatus);
  const told: Record<string, unknown> = {};
  const tokens = keys.map(actorToken);
  const shared = await shareAmongActors({
    ...{ roles, tokens, options, telemetry, nats, clock },
    clockErrorUs: () => clockErrorUs,
  });
  const actors = await Promise.all(
    starts.map((start, index) => {
      const config = configOf(options, keys[index]!);
      const onEnd = (run: () => void): void => void process.once("exit", run);
      return startActor(start, {
        roles,
        options,
        nats,
        clock,
        told,
        fail,
        config,
        onEnd,
        ports: shared.portsOf(index),
      });
    }),
  );
  log.info({ roles: roles.join(","), actors: tokens.join(","), nats: shownAddresses(options.nats), ...told }, "ready");
  const servesAlone = (): boolean => actors.some(({ missing }) => missing?.().length === 0);
  unready = () =>
    ending.begun ? "leaving" : nats.control.connected || servesAlone() ? undefined : "no connection to NATS";
  process.send?.({ ready: true, actor: tokens[0], actors: tokens, ...told });
  endInOrder(actors, { ending, endNow }, async () => {
    shared.close();
    await nats.close();
    clock.close();
    await telemetry.close();
  });
}

interface SharedParts {
  readonly roles: readonly Role[];
  /** Tokens of the roles' actors, in the order of `roles`. */
  readonly tokens: readonly string[];
  readonly options: RoleOptions;
  readonly telemetry: OtelTelemetry;
  readonly nats: NatsConnection;
  readonly clock: NodeClock;
  readonly clockErrorUs: () => number;
}

/** Creates the resources that the actors of one process share: connection, links, clock, and local actors. */
async function shareAmongActors({ roles, tokens, options, telemetry, nats, clock, clockErrorUs }: SharedParts) {
  // Every role with links may publish to an actor's subject, so the barrier uses a random one.
  const barrierSubject = (): string => subjectsOf(options.cluster).actor(actorKey(randomInt(1, ACTOR_KEY_MAX - 1)));
  const control = new HostBus({ under: nats.control, barrierSubject });
  const bulk = new HostBus({ under: nats.bulk, barrierSubject });
  const onFault = (text: string): void => telemetry.log.warn({ fault: text }, "links");
  const links = await openLinks(roles, { buses: { control, bulk }, onFault });
  const local: LocalActors = {};
  const stallDetector = new BrokerStallDetector(nats.control, clock, AWAKE_WITHIN, PULSE_EVERY);
  const vitals = watchVitals(new EventLoopTurns(), () => ({
    ...nats.traffic(),
    ...{ linkMessagesOut: control.links.traffic.messages + bulk.links.traffic.messages },
    ...{ linkBytesOut: control.links.traffic.bytes + bulk.links.traffic.bytes },
    clockErrorUs: clockErrorUs(),
    ...(roles.length === 1 && { loopBusyUs: loopBusyUs() }),
  }));
  // The process's own figures are reported once: by an actor that schedules, where there is one, as its role says then
  // whose event loop they are about.
  const reporter = Math.max(0, roles.findIndex(decides));
  const { store } = nats;
  // A port under a wrong name would go unnoticed when these are spread.
  const common = {
    store,
    clock,
    randomBytes,
    processLives,
    local,
    stallDetector,
  } satisfies Partial<ActorPorts>;
  return {
    portsOf: (index: number): ActorPorts => ({
      ...{ ...common, bus: control.actor(), bulk: bulk.actor() },
      // A role is a service in traces, whatever process it shares.
      telemetry: telemetry.of({ service: `tutti-${roles[index]!}`, instance: tokens[index]! }),
      ...(nats.answers !== undefined && { answers: nearFirst(bulk.actor(), nats.answers) }),
      ...(links !== undefined && { links }),
      ...(index === reporter && { vitals }),
    }),
    close: () => links?.close(),
  };
}

const configOf = (options: RoleOptions, key: ActorConfig["key"]): ActorConfig => ({
  key,
  cluster: options.cluster,
  host: options.host ?? hostname(),
  pid: process.pid,
  heartbeatEvery: HEARTBEAT_EVERY,
  idleHeartbeatEvery: IDLE_HEARTBEAT_EVERY,
  peerTimeout: PEER_TIMEOUT,
});

/** Opens links, except for a process with gateways only: they speak to publishers' subjects alone. */
const openLinks = async (roles: readonly Role[], options: HostLinksOptions): Promise<HostLinks | undefined> =>
  roles.every((role) => role === "gateway") ? undefined : HostLinks.open(options);

/** Resolves when the actor serves. */
function startActor(start: StartRole, context: RoleContext): Promise<Actor> {
  return new Promise((resolve, reject) => {
    let isReady = false;
    let actor: Actor | undefined;
    const settle = (): void => {
      if (isReady && actor !== undefined) resolve(actor);
    };
    Promise.resolve(
      start(context, () => {
        isReady = true;
        settle();
      }),
    ).then((started) => {
      actor = started;
      settle();
    }, reject);
  });
}

async function connect(roles: readonly Role[], options: RoleOptions, { log }: OtelTelemetry): Promise<NatsConnection> {
  const name = processRoleOf(roles);
  const waiting = setInterval(() => {
    log.warn({ nats: shownAddresses(options.nats) }, "waits for a NATS server to answer");
  }, WAITING_SAID_MS);
  const nats = await connectNats({
    servers: options.nats,
    name: `tutti-${name}`,
    inboxPrefix: roleInboxPrefix(name),
    waitForServer: true,
    noEcho: true,
    ...(options.creds !== undefined && { credentials: readCredentials(options.creds) }),
    ...(roles.includes("ingress") &&
      options.answersCreds !== undefined && { answersCredentials: readCredentials(options.answersCreds) }),
    // The path is absolute because each reconnect reads the file, and an executor may have changed its directory by
    // then.
    ...(options.tlsCa !== undefined && { tls: { caFile: resolve(options.tlsCa) } }),
  });
  clearInterval(waiting);
  if (nats.warning !== undefined) log.warn({ nats: shownAddresses(options.nats) }, nats.warning);
  return nats;
}

/**
 * Routes answers: those to the gateway of this process stay in it. Others go out on the connection that may publish to
 * applications' inboxes only.
 */
function nearFirst(near: Bus, far: Bus): Bus {
  return {
    get payloadMax() {
      return far.payloadMax;
    },
    get connected() {
      return far.connected;
    },
    publish: (subject, payload, options) =>
      (near.isNear?.(subject) === true ? near : far).publish(subject, payload, options),
    isNear: (subject) => near.isNear?.(subject) === true,
    subscribe: (subject, onDelivery, options) => far.subscribe(subject, onDelivery, options),
    request: (subject, payload, options, done) => far.request(subject, payload, options, done),
    newInbox: () => far.newInbox(),
    flush: (done) => far.flush(done),
    onStatus: (listener) => far.onStatus(listener),
    announce: (service) => far.announce(service),
    close: (done) => far.close(done),
  };
}

/**
 * Stops the actors in order on SIGTERM, on Ctrl-C without a supervisor, or when the supervisor ends. A second signal
 * does not wait.
 */
function endInOrder(
  actors: readonly Actor[],
  { ending, endNow }: { readonly ending: { begun: boolean }; readonly endNow: () => void },
  close: () => Promise<void>,
): void {
  const end = (drainMs: number): void => {
    if (ending.begun) endNow();
    ending.begun = true;
    setTimeout(endNow, drainMs).unref();
    drainInOrder(actors, () => {
      close().then(() => process.exit(EXIT.ok), endNow);
    });
  };
  process.off("disconnect", exitNow);
  process.on("SIGTERM", () => end(DRAIN_MS));
  process.on("SIGINT", () => {
    // A terminal sends Ctrl-C to all its processes; the supervisor stops this one in its own order.
    if (!process.connected) end(DRAIN_MS);
  });
  process.on("disconnect", () => {
    if (!ending.begun) end(ORPHAN_DRAIN_MS);
  });
}
