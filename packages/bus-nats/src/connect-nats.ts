import { FILES_BUCKET } from "@tutti/protocol";
import type { Store } from "@tutti/ports/store";
import { type BusOptions, type NatsBuses, connectBuses, isAtLeast } from "./connect-buses.ts";
import { NatsJobQueue } from "./jobs/nats-job-queue.ts";
import { NatsStore } from "./nats-store.ts";

export interface NatsOptions extends BusOptions {
  /**
   * Replicas of the KV buckets and files that are made here. Default: 3 where the server belongs to a cluster, else 1.
   */
  readonly replicas?: number;
}

/** One actor's NATS connections, with the store on them. */
export interface NatsConnection extends NatsBuses {
  readonly store: Store;
  /** The durable queue of background jobs; nothing is made on the server before its first use. */
  readonly jobs: NatsJobQueue;
  /** Says what this server can't keep for us, and what to use instead. */
  readonly warning: string | undefined;
}

/** Replicas in a cluster: with three, any one may be lost. */
const CLUSTER_REPLICAS = 3;
/**
 * First version whose replicas stay equal when several actors create the same key. Older ones count such conflicts, and
 * after one of three servers was killed its copy has changes twice, with other revisions: two leaders, or none
 * (nats-server, pull request 5794).
 */
export const CLUSTER_VERSION_MIN = "2.10.19";

/** @throws {TuttiError} UNAVAILABLE: no server there, or an older one; FORBIDDEN: the credentials are not accepted */
export async function connectNats(options: NatsOptions): Promise<NatsConnection> {
  const { buses, links } = await connectBuses(options);
  const { inCluster, ...connections } = links;
  const replicas = options.replicas ?? (inCluster ? CLUSTER_REPLICAS : 1);
  const store = new NatsStore({
    ...connections,
    filesBucket: FILES_BUCKET,
    replicas,
    onError: throwAside,
  });
  const { serverVersion } = buses;
  const warning =
    inCluster && !isAtLeast(serverVersion, CLUSTER_VERSION_MIN) ? replicasDiffer(serverVersion) : undefined;
  const jobs = new NatsJobQueue(links.bulk.connection, replicas);
  return { ...buses, store, jobs, warning };
}

const replicasDiffer = (version: string): string =>
  `nats-server ${version} may keep changes twice after one server of a cluster was killed, so that models are not served: use ${CLUSTER_VERSION_MIN} or newer`;

/**
 * Throws the error of a callback in a turn of its own. The process must see the bug, but this turn's other work goes
 * on.
 */
function throwAside(error: unknown): void {
  queueMicrotask(() => {
    throw error;
  });
}
