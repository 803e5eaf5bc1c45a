import { randomInt } from "node:crypto";
import { hostname } from "node:os";
import { setTimeout as pause } from "node:timers/promises";
import { type NatsConnection, connectNats, readCredentials } from "@tutti/bus-nats";
import { TuttiError } from "@tutti/protocol";
import { ACTOR_KEY_MAX, actorKey } from "@tutti/units";
import { HostAgent } from "./host-agent.ts";
import type { ProcessManager } from "./process-manager.ts";

export interface AgentOptions {
  readonly servers: string | readonly string[];
  /** Path of the credentials of the user `agent`; undefined on a server without accounts. */
  readonly credentials: string | undefined;
  /** Path of the authority's certificate. */
  readonly tlsCa?: string | undefined;
  readonly cluster: string;
  readonly host?: string | undefined;
  readonly processManager: ProcessManager;
  /** Called with the reason if operators can't reach this host; serving goes on. */
  readonly onTrouble: (text: string) => void;
}

const RETRY_MS = 250;

export interface RunningAgent {
  stop(): Promise<void>;
}

/** Connects as `agent`, waiting for a server as long as necessary, and answers operators from then on. */
export function startAgent(options: AgentOptions): RunningAgent {
  const stopping = new AbortController();
  const started = connected(options, stopping.signal)
    .then((nats) => {
      if (nats === undefined || stopping.signal.aborted) return { nats, agent: undefined };
      nats.control.onStatus((status) => {
        if (status.kind === "permission-denied" && !stopping.signal.aborted)
          options.onTrouble(`operators can't reach the processes of this host: NATS does not allow ${status.subject}`);
      });
      const { cluster, processManager } = options;
      const key = actorKey(randomInt(1, ACTOR_KEY_MAX - 1));
      const host = options.host ?? hostname();
      return {
        nats,
        agent: new HostAgent({ bus: nats.control, cluster, key, host, pid: process.pid, processManager }),
      };
    })
    .catch((error: unknown) => {
      options.onTrouble(`operators can't reach the processes of this host: ${(error as Error).message}`);
      return undefined;
    });
  return {
    async stop() {
      stopping.abort();
      // Without a connection, no goodbye can be sent.
      const running = await Promise.race([
        started,
        new Promise<undefined>((resolve) => setTimeout(() => resolve(undefined), 100)),
      ]);
      running?.agent?.close();
      await running?.nats?.close();
    },
  };
}

/** Waits for a server as long as necessary. The client's own waiting can't be given up, and would keep the process. */
async function connected(options: AgentOptions, signal: AbortSignal): Promise<NatsConnection | undefined> {
  while (!signal.aborted)
    try {
      return await connectNats({
        servers: options.servers,
        name: "tutti-agent",
        inboxPrefix: "_INBOX_agent",
        ...(options.credentials !== undefined && { credentials: readCredentials(options.credentials) }),
        ...(options.tlsCa !== undefined && { tls: { caFile: options.tlsCa } }),
      });
    } catch (error) {
      if (!(error instanceof TuttiError && error.code === "TUTTI_UNAVAILABLE" && error.retryable)) throw error;
      await pause(RETRY_MS, undefined, { signal }).catch(() => undefined);
    }
  return undefined;
}
