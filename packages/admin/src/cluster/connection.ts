import { type NatsConnection, connectNats, readCredentials } from "@tutti/bus-nats";
import { type Cluster, type ClusterOptions, findCluster } from "./find-cluster.ts";
import { connectionRefused, unlessDenied } from "./refused.ts";

export interface ConnectionOptions {
  readonly servers: string | readonly string[];
  /** Path of a credentials file. */
  readonly credentials: string | undefined;
  /** Path of the certificate of the authority that signed the servers' certificates; if given, TLS is required. */
  readonly tlsCa?: string | undefined;
  readonly name: string;
  /** Prefix for reply subjects: `_INBOX.<app>` for an application. */
  readonly inboxPrefix?: string;
}

/** @throws {TuttiError} UNAVAILABLE or FORBIDDEN, saying which server and why */
export function openConnection(options: ConnectionOptions): Promise<NatsConnection> {
  const { credentials, inboxPrefix, tlsCa, ...rest } = options;
  return connectNats({
    ...rest,
    ...(tlsCa !== undefined && { tls: { caFile: tlsCa } }),
    inboxPrefix: inboxPrefix ?? `_INBOX.${options.name}`,
    ...(credentials !== undefined && { credentials: readCredentials(credentials) }),
  });
}

type Named = Pick<ConnectionOptions, "name" | "inboxPrefix">;

/** Connects as an operator. @throws {TuttiError} UNAVAILABLE, or FORBIDDEN naming the credentials to use */
export async function openCluster(cluster: Cluster, named: Named): Promise<NatsConnection> {
  const { servers, credentials, tlsCa } = cluster;
  try {
    return await openConnection({ servers, credentials, tlsCa, ...named });
  } catch (error) {
    throw await connectionRefused(error, cluster);
  }
}

/**
 * Connects as the command line says, runs `use`, and closes the connection in any case.
 *
 * @throws {TuttiError} as `openCluster`, also when NATS refuses a subject meanwhile
 */
export async function withCluster<Result>(
  options: ClusterOptions & Named & { readonly isForApps?: boolean },
  use: (nats: NatsConnection, cluster: Cluster) => Promise<Result>,
): Promise<Result> {
  const { name, inboxPrefix, isForApps = false } = options;
  const cluster = await findCluster(options);
  const nats = await openCluster(cluster, { name, ...(inboxPrefix !== undefined && { inboxPrefix }) });
  try {
    return await unlessDenied(nats, { ...cluster, isForApps }, () => use(nats, cluster));
  } finally {
    await nats.close();
  }
}
