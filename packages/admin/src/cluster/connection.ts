import { type NatsConnection, connectNats, readCredentials } from "@tutti/bus-nats";
import { type Cluster, type ClusterOptions, findCluster } from "./find-cluster.ts";

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

/** Connects as the command line says, runs `use`, and closes the connection in any case. */
export async function withCluster<Result>(
  options: ClusterOptions & { readonly name: string },
  use: (nats: NatsConnection, cluster: Cluster) => Promise<Result>,
): Promise<Result> {
  const cluster = await findCluster(options);
  const nats = await openConnection({
    servers: cluster.servers,
    credentials: cluster.credentials,
    tlsCa: cluster.tlsCa,
    name: options.name,
  });
  try {
    return await use(nats, cluster);
  } finally {
    await nats.close();
  }
}
