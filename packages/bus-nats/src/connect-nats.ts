import type { Bus } from "@tutti/ports/bus";
import { FILES_BUCKET, TuttiError } from "@tutti/protocol";
import type { Store } from "@tutti/ports/store";
import { type NatsConnection as Connection, type ConnectionOptions, connect } from "@nats-io/transport-node";
import { type Credentials, authenticatorOf, inboxPrefixOf } from "./credentials.ts";
import { NatsBus } from "./nats-bus.ts";
import { NatsStore } from "./nats-store.ts";

export interface NatsOptions {
  /** `nats://host:port`, or several of one cluster, also in one text with commas between them. */
  readonly servers: string | readonly string[];
  /** Name in the server's monitoring; the connections add `control`, `bulk` or `answers`. */
  readonly name: string;
  /**
   * Subject prefix of replies; the credentials must allow subscribing to `<inboxPrefix>.>`. Default: the prefix that
   * the credentials file names beside the seed; without one, `_INBOX`.
   */
  readonly inboxPrefix?: string;
  readonly credentials?: Credentials;
  /** Opens a third connection whose user may publish only to applications' inboxes. */
  readonly answersCredentials?: Credentials;
  /** Suppresses the echo of a connection's own messages: for a HostBus, which delivers them itself. Default false. */
  readonly noEcho?: boolean;
  readonly tls?: { readonly caFile?: string; readonly certFile?: string; readonly keyFile?: string };
  /** Default false: an unreachable server is an error. True: retries until one answers. */
  readonly waitForServer?: boolean;
  /** Default 20 ms; use 100 ms or more in a fleet of hundreds. */
  readonly reconnectMs?: number;
  /** Default 3 s: two unanswered pings end a connection that hangs. */
  readonly pingMs?: number;
  /**
   * Replicas of the KV buckets and files that are made here. Default: 3 where the server belongs to a cluster, else 1.
   */
  readonly replicas?: number;
  /** Ignores the addresses that servers gossip of each other, which a mapped port makes useless. Default false. */
  readonly ignoreClusterUpdates?: boolean;
}

/**
 * One actor's NATS connections. Control and bulk data are separate, because a slow consumer of bulk data stalls the
 * whole connection of its sender (docs/architecture.md, 8).
 */
export interface NatsConnection {
  readonly control: Bus;
  readonly bulk: Bus;
  /** Only with `answersCredentials`. */
  readonly answers?: Bus;
  readonly store: Store;
  readonly serverVersion: string;
  /** Says what this server can't keep for us, and what to use instead. */
  readonly warning: string | undefined;
  /** Messages and bytes of all connections since they were opened. */
  traffic(): Traffic;
  /** Flushes and closes all connections. */
  close(): Promise<void>;
}

export interface Traffic {
  readonly messagesIn: number;
  readonly messagesOut: number;
  readonly bytesIn: number;
  readonly bytesOut: number;
}

/** Replicas in a cluster: with three, any one may be lost. */
const CLUSTER_REPLICAS = 3;
export const SERVER_VERSION_MIN = "2.9.10";
/**
 * First version whose replicas stay equal when several actors create the same key. Older ones count such conflicts, and
 * after one of three servers was killed its copy has changes twice, with other revisions: two leaders, or none
 * (nats-server, pull request 5794).
 */
export const CLUSTER_VERSION_MIN = "2.10.19";

/** @throws {TuttiError} UNAVAILABLE: no server there, or an older one; FORBIDDEN: the credentials are not accepted */
export async function connectNats(options: NatsOptions): Promise<NatsConnection> {
  const opened: Connection[] = [];
  try {
    const open = async (purpose: string, credentials: Credentials | undefined, inboxPrefix: string) => {
      const connection = await openConnection(options, purpose, credentials, inboxPrefix);
      opened.push(connection);
      return { connection, bus: new NatsBus(connection, inboxPrefix) };
    };
    const inboxPrefix = options.inboxPrefix ?? inboxPrefixOf(options.credentials) ?? "_INBOX";
    const control = await open("control", options.credentials, inboxPrefix);
    const serverVersion = control.connection.info?.version ?? "0.0.0";
    if (!isAtLeast(serverVersion, SERVER_VERSION_MIN)) {
      const text = `nats-server ${SERVER_VERSION_MIN} or newer is needed; ${control.connection.getServer()} runs ${serverVersion}`;
      throw new TuttiError("TUTTI_UNAVAILABLE", text, { retryable: false });
    }
    const inCluster = control.connection.info?.cluster !== undefined;
    const bulk = await open("bulk", options.credentials, inboxPrefix);
    const { answersCredentials } = options;
    const answersPrefix = inboxPrefixOf(answersCredentials) ?? inboxPrefix;
    const answers = answersCredentials && (await open("answers", answersCredentials, answersPrefix));
    const store = new NatsStore({
      control,
      bulk,
      inboxPrefix,
      filesBucket: FILES_BUCKET,
      replicas: options.replicas ?? (inCluster ? CLUSTER_REPLICAS : 1),
      onError: throwAside,
    });
    const buses = [control.bus, bulk.bus, ...(answers === undefined ? [] : [answers.bus])];
    return {
      control: control.bus,
      bulk: bulk.bus,
      ...(answers !== undefined && { answers: answers.bus }),
      store,
      serverVersion,
      warning: inCluster && !isAtLeast(serverVersion, CLUSTER_VERSION_MIN) ? replicasDiffer(serverVersion) : undefined,
      traffic: () => trafficOf(opened),
      close: async () => {
        await Promise.all(buses.map((bus) => new Promise<void>((resolve) => bus.close(resolve))));
      },
    };
  } catch (error) {
    await Promise.allSettled(opened.map((connection) => connection.close()));
    throw error instanceof TuttiError ? error : refusalOf(error, options);
  }
}

const replicasDiffer = (version: string): string =>
  `nats-server ${version} may keep changes twice after one server of a cluster was killed, so that models are not served: use ${CLUSTER_VERSION_MIN} or newer`;

function trafficOf(connections: readonly Connection[]): Traffic {
  const stats = connections.map((connection) => connection.stats());
  const sum = (read: (one: (typeof stats)[number]) => number): number =>
    stats.reduce((total, one) => total + read(one), 0);
  return {
    messagesIn: sum(({ inMsgs }) => inMsgs),
    messagesOut: sum(({ outMsgs }) => outMsgs),
    bytesIn: sum(({ inBytes }) => inBytes),
    bytesOut: sum(({ outBytes }) => outBytes),
  };
}

/** Compares versions number by number; a pre-release (after a `-`) is ignored. */
export function isAtLeast(version: string, least: string): boolean {
  const parts = (text: string) => text.split("-")[0]!.split(".").map(Number);
  const have = parts(version);
  for (const [i, wanted] of parts(least).entries()) {
    const part = have[i] ?? 0;
    if (Number.isNaN(part)) return false;
    if (part !== wanted) return part > wanted;
  }
  return true;
}

function openConnection(
  options: NatsOptions,
  purpose: string,
  credentials: Credentials | undefined,
  inboxPrefix: string,
): Promise<Connection> {
  const settings: ConnectionOptions = {
    servers: [options.servers].flat().flatMap((text) => text.split(",")),
    name: `${options.name} ${purpose}`,
    inboxPrefix,
    // A stack trace per request costs as much as the request.
    noAsyncTraces: true,
    noEcho: options.noEcho ?? false,
    maxReconnectAttempts: -1,
    reconnectTimeWait: options.reconnectMs ?? 20,
    reconnectJitter: 10,
    waitOnFirstConnect: options.waitForServer ?? false,
    pingInterval: options.pingMs ?? 3_000,
    maxPingOut: 2,
    // Time limit of one attempt: as long as a starved machine may need. A server that hangs keeps the client so long
    // from the next one of the list.
    timeout: 5_000,
    ignoreClusterUpdates: options.ignoreClusterUpdates ?? false,
    ...(credentials !== undefined && { authenticator: authenticatorOf(credentials) }),
    ...(options.tls !== undefined && { tls: options.tls }),
  };
  return connect(settings);
}

function refusalOf(error: unknown, options: NatsOptions): TuttiError {
  const reason = error instanceof Error ? error.message : String(error);
  const servers = typeof options.servers === "string" ? options.servers : options.servers.join(", ");
  if (/authorization|authentication/i.test(reason)) {
    const text = `${servers} does not accept the credentials of ${options.name}: ${reason}`;
    return new TuttiError("TUTTI_FORBIDDEN", text, { cause: error });
  }
  return new TuttiError("TUTTI_UNAVAILABLE", `no NATS server answers at ${servers}: ${reason}`, { cause: error });
}

/**
 * Throws the error of a callback in a turn of its own. The process must see the bug, but this turn's other work goes
 * on.
 */
function throwAside(error: unknown): void {
  queueMicrotask(() => {
    throw error;
  });
}
