/** What every role's process does: reads its command line, connects, starts its actor, says when it is ready, and ends in order. */
import { randomBytes, randomInt } from "node:crypto";
import { hostname } from "node:os";
import type { Actor, ActorConfig, ActorPorts } from "@tutti/actors";
import type { BusStatus } from "@tutti/bus";
import { type NatsConnection, connectNats, readCredentials, roleInboxPrefix } from "@tutti/bus-nats";
import { NodeClock } from "@tutti/clock-node";
import type { Role } from "@tutti/protocol";
import { type OtelTelemetry, createTelemetry } from "@tutti/telemetry-otel";
import { ACTOR_KEY_MAX, actorKey, actorToken, millis } from "@tutti/units";
import { EXIT, explain } from "../failure.ts";
import { helpersGiveWay } from "./helper-threads.ts";
import { processLives } from "./process-lives.ts";
import { type RoleOptions, parseRoleOptions } from "./role-options.ts";
import { COLLECT_ALONE, decides } from "./service-main.ts";
import { watchVitals } from "./vitals.ts";

export interface RoleContext {
  readonly options: RoleOptions;
  readonly ports: ActorPorts;
  readonly config: ActorConfig;
  readonly nats: NatsConnection;
  readonly clock: NodeClock;
  /** Told to whoever started this process, beside that it is ready. */
  readonly told: Record<string, unknown>;
  /** Ends the process at once: what it drives is unusable, and its supervisor starts it again. */
  readonly fail: (reason: string) => void;
  /** Called before the process ends by itself, however it does. */
  readonly onEnd: (run: () => void) => void;
}

/** Builds the actor on its ports; `ready` is called once it serves. */
export type StartRole = (context: RoleContext, ready: () => void) => Actor | Promise<Actor>;

/** Several times a second, as T5 and docs/architecture.md, 4 need it. */
const HEARTBEAT_EVERY = millis(100);
/** Only a peer that hangs is noticed by its silence; who is killed is noticed by probes. No process waits so long for its turn on a busy machine. */
const PEER_TIMEOUT = millis(1_000);
/** An ingress waits for the answers that it owes; SLOs beyond this are cut off by a stop. */
const DRAIN_MS = 9_000;
/** Whoever started us is gone, and nobody is left to wait for. */
const ORPHAN_DRAIN_MS = 1_000;

const WAITING_SAID_MS = 3_000;

const LOGGED_MS = 50;

const exitNow = (): void => process.exit(EXIT.failed);
/**
 * Of an executor's process: `process.exit` waits for its worker threads, and one in a native run that does not end would keep it for ever. (Ending such a
 * worker otherwise aborts the process.)
 */
const killNow = (): void => {
  process.emit("exit", EXIT.failed);
  process.kill(process.pid, "SIGKILL");
};

export async function runRole(role: Role, start: StartRole): Promise<void> {
  let telemetry: OtelTelemetry | undefined;
  if (decides(role) && process.execArgv.includes(COLLECT_ALONE)) helpersGiveWay();
  try {
    const options = parseRoleOptions(role, process.argv.slice(2));
    const key = actorKey(randomInt(1, ACTOR_KEY_MAX - 1));
    telemetry = await createTelemetry({
      service: `tutti-${role}`,
      instance: actorToken(key),
      level: options.logLevel,
      ...(options.otlp !== undefined && { otlp: options.otlp }),
    });
    await serve({ role, options, telemetry, key, start });
  } catch (error) {
    const { text, exitCode } = explain(error);
    process.stderr.write(`tutti run ${role}: ${text}\n`);
    await telemetry?.close();
    process.exit(exitCode === EXIT.ok ? EXIT.failed : exitCode);
  }
}

interface Serving {
  readonly role: Role;
  readonly options: RoleOptions;
  readonly telemetry: OtelTelemetry;
  readonly key: ActorConfig["key"];
  readonly start: StartRole;
}

async function serve({ role, options, telemetry, key, start }: Serving): Promise<void> {
  const { log } = telemetry;
  // Until there is something to drain; `endInOrder` takes over.
  process.on("disconnect", exitNow);
  const waiting = setInterval(() => {
    log.warn({ nats: options.nats.join(",") }, "waits for a NATS server to answer");
  }, WAITING_SAID_MS);
  const nats = await connectNats({
    servers: options.nats,
    name: `tutti-${role}`,
    inboxPrefix: roleInboxPrefix(role),
    waitForServer: true,
    ...(options.creds !== undefined && { credentials: readCredentials(options.creds) }),
    ...(role === "ingress" &&
      options.answersCreds !== undefined && { answersCredentials: readCredentials(options.answersCreds) }),
    ...(options.tlsCa !== undefined && { tls: { caFile: options.tlsCa } }),
  });
  clearInterval(waiting);
  let clockErrorUs = 0;
  const clock = new NodeClock({
    onSkew: (error) => {
      clockErrorUs = Math.round(error);
      log.warn({ errorUs: clockErrorUs }, "the wall clock is off; this clock slews towards it");
    },
    onDegraded: (reason) => log.warn({ reason }, "alarms are no longer precise"),
  });
  await clock.ready();
  const told: Record<string, unknown> = {};
  const ending = { begun: false };
  const context: RoleContext = {
    options,
    nats,
    clock,
    told,
    ports: portsOf(nats, clock, telemetry, () => clockErrorUs),
    config: {
      key,
      cluster: options.cluster,
      host: options.host ?? hostname(),
      pid: process.pid,
      heartbeatEvery: HEARTBEAT_EVERY,
      peerTimeout: PEER_TIMEOUT,
    },
    fail: (reason) => {
      log.error({ reason }, "can't go on");
      if (role !== "executor") process.exit(EXIT.failed);
      setTimeout(killNow, LOGGED_MS); // the log is written in the background
    },
    onEnd: (run) => void process.once("exit", run),
  };
  const onStatus = (status: BusStatus): void => {
    if (status.kind === "closed" && !ending.begun) context.fail(`the connection to NATS was closed: ${status.reason}`);
    if (status.kind === "permission-denied")
      log.error({ subject: status.subject, text: status.text }, "NATS does not allow it");
  };
  nats.control.onStatus(onStatus);
  nats.answers?.onStatus(onStatus);
  const actor = await start(context, () => {
    log.info({ role, actor: actorToken(key), nats: options.nats.join(","), ...told }, "ready");
    process.send?.({ ready: true, actor: actorToken(key), ...told });
  });
  endInOrder(actor, { ending, endNow: role === "executor" ? killNow : exitNow }, async () => {
    await nats.close();
    clock.close();
    await telemetry.close();
  });
}

function portsOf(
  nats: NatsConnection,
  clock: NodeClock,
  telemetry: OtelTelemetry,
  clockErrorUs: () => number,
): ActorPorts {
  const { control, bulk, answers, store } = nats;
  return {
    ...{ bus: control, bulk, store, clock, telemetry, randomBytes, processLives },
    ...(answers !== undefined && { answers }),
    vitals: watchVitals(() => ({ ...nats.traffic(), clockErrorUs: clockErrorUs() })),
  };
}

/** SIGTERM (and Ctrl-C, when nobody supervises us) drains; a second one does not wait; the end of the supervisor is a signal too. */
function endInOrder(
  actor: Actor,
  { ending, endNow }: { readonly ending: { begun: boolean }; readonly endNow: () => void },
  close: () => Promise<void>,
): void {
  const end = (drainMs: number): void => {
    if (ending.begun) endNow();
    ending.begun = true;
    setTimeout(endNow, drainMs).unref();
    actor.drain(() => {
      close().then(() => process.exit(EXIT.ok), endNow);
    });
  };
  process.off("disconnect", exitNow);
  process.on("SIGTERM", () => end(DRAIN_MS));
  process.on("SIGINT", () => {
    // A terminal sends Ctrl-C to all of its processes; the supervisor stops us in its own order.
    if (!process.connected) end(DRAIN_MS);
  });
  process.on("disconnect", () => {
    if (!ending.begun) end(ORPHAN_DRAIN_MS);
  });
}
