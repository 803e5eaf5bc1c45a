/** Opens the connections of one actor to NATS, and a bus on each. */
import { AsyncLocalStorage } from "node:async_hooks";
import { subscribe } from "node:diagnostics_channel";
import type { Socket } from "node:net";
import type { Bus } from "@tutti/ports/bus";
import { TuttiError } from "@tutti/protocol";
import { shownAddresses } from "@tutti/units";
import { type NatsConnection as Connection, type ConnectionOptions, connect } from "@nats-io/transport-node";
import { type Credentials, authenticatorOf, inboxPrefixOf } from "./credentials.ts";
import { NatsBus } from "./nats-bus.ts";
import { identityCheck } from "./server-identity.ts";

export interface BusOptions {
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
  /** Ignores the addresses that servers gossip of each other, which a mapped port makes useless. Default false. */
  readonly ignoreClusterUpdates?: boolean;
}

/**
 * Control and bulk data are separate, because a slow consumer of bulk data stalls the whole connection of its sender
 * (docs/architecture.md, 8).
 */
export interface NatsBuses {
  readonly control: Bus;
  readonly bulk: Bus;
  /** Only with `answersCredentials`. */
  readonly answers?: Bus;
  readonly serverVersion: string;
  /** Messages and bytes of all connections since they were opened. */
  traffic(): Traffic;
  /** Flushes and closes all connections. */
  close(): Promise<void>;
}

/** A connection and the bus on it. */
export interface NatsLink {
  readonly connection: Connection;
  readonly bus: NatsBus;
}

/** The same connections for a store, which needs more of them than a bus has. */
export interface NatsLinks {
  readonly control: NatsLink;
  readonly bulk: NatsLink;
  readonly inboxPrefix: string;
  readonly inCluster: boolean;
}

export interface Traffic {
  readonly messagesIn: number;
  readonly messagesOut: number;
  readonly bytesIn: number;
  readonly bytesOut: number;
}

export const SERVER_VERSION_MIN = "2.9.10";

/** @throws {TuttiError} UNAVAILABLE: no server there, or an older one; FORBIDDEN: the credentials are not accepted */
export async function connectBuses(
  options: BusOptions,
): Promise<{ readonly buses: NatsBuses; readonly links: NatsLinks }> {
  const opened: Connection[] = [];
  try {
    const open = async (
      purpose: string,
      credentials: Credentials | undefined,
      inboxPrefix: string,
    ): Promise<NatsLink> => {
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
    const all = [control.bus, bulk.bus, ...(answers === undefined ? [] : [answers.bus])];
    const buses = {
      control: control.bus,
      bulk: bulk.bus,
      ...(answers !== undefined && { answers: answers.bus }),
      serverVersion,
      traffic: () => trafficOf(opened),
      close: async () => {
        await Promise.all(all.map((bus) => new Promise<void>((resolve) => bus.close(resolve))));
      },
    };
    return { buses, links: { control, bulk, inboxPrefix, inCluster } };
  } catch (error) {
    await Promise.allSettled(opened.map((connection) => connection.close()));
    throw error instanceof TuttiError ? error : refusalOf(error, options);
  }
}

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
  options: BusOptions,
  purpose: string,
  credentials: Credentials | undefined,
  inboxPrefix: string,
): Promise<Connection> {
  const servers = [options.servers].flat().flatMap((text) => text.split(","));
  // The client hands all of it to `tls.connect`.
  const tls = { ...options.tls, checkServerIdentity: identityCheck(servers) };
  const settings: ConnectionOptions = {
    servers,
    name: `${options.name} ${purpose}`,
    inboxPrefix,
    // A stack trace per request costs as much as the request.
    noAsyncTraces: true,
    noEcho: options.noEcho ?? false,
    maxReconnectAttempts: -1,
    reconnectTimeWait: options.reconnectMs ?? 20,
    reconnectJitter: 10,
    waitOnFirstConnect: options.waitForServer ?? false,
    pingInterval: 3_000,
    maxPingOut: 2, // unanswered: they end a connection that hangs
    // Time limit of one attempt: as long as a starved machine may need. A server that hangs keeps the client so long
    // from the next one of the list.
    timeout: 5_000,
    ignoreClusterUpdates: options.ignoreClusterUpdates ?? false,
    ...(credentials !== undefined && { authenticator: authenticatorOf(credentials) }),
    ...(options.tls !== undefined && { tls }),
  };
  const attempt: Attempt = { isOver: false };
  return attempts
    .run(attempt, () => connect(settings))
    .catch((error: unknown) => {
      attempt.socket?.destroy();
      throw error;
    })
    .finally(() => (attempt.isOver = true));
}

interface Attempt {
  /** The newest. */
  socket?: Socket;
  isOver: boolean;
}

/** The client leaves the socket of an attempt that times out open. It would keep the process that gives up. */
const attempts = new AsyncLocalStorage<Attempt>();
subscribe("net.client.socket", (message) => {
  const attempt = attempts.getStore();
  if (attempt === undefined || attempt.isOver) return;
  attempt.socket?.destroy();
  attempt.socket = (message as { readonly socket: Socket }).socket;
});

function refusalOf(error: unknown, options: BusOptions): TuttiError {
  const reason = error instanceof Error ? error.message : String(error);
  const servers = shownAddresses(options.servers);
  if (/authorization|authentication/i.test(reason)) {
    const text = `${servers} does not accept the credentials of ${options.name}: ${reason}`;
    return new TuttiError("TUTTI_FORBIDDEN", text, { cause: error });
  }
  return new TuttiError("TUTTI_UNAVAILABLE", `no NATS server answers at ${servers}: ${reason}`, { cause: error });
}
