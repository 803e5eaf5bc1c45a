import { type NatsConnection, connectNats, readCredentials } from "@tutti/bus-nats";
import { type Cluster, type ClusterOptions, findCluster } from "./cluster.ts";

export interface ConnectionOptions {
  readonly servers: string | readonly string[];
  /** Path of a credentials file. */
  readonly credentials: string | undefined;
  readonly name: string;
  /** Below which answers come: `_INBOX.<app>` for whoever asks in the name of an application. */
  readonly inboxPrefix?: string;
}

/** @throws {TuttiError} UNAVAILABLE or FORBIDDEN, saying which server and why */
export function openConnection({ credentials, inboxPrefix, ...options }: ConnectionOptions): Promise<NatsConnection> {
  return connectNats({
    ...options,
    inboxPrefix: inboxPrefix ?? `_INBOX.${options.name}`,
    ...(credentials !== undefined && { credentials: readCredentials(credentials) }),
  });
}

/** Connects as the command line does, runs `use`, and closes whatever happens. */
export async function withCluster<Result>(
  options: ClusterOptions & { readonly name: string },
  use: (nats: NatsConnection, cluster: Cluster) => Promise<Result>,
): Promise<Result> {
  const cluster = await findCluster(options);
  const nats = await openConnection({ servers: cluster.servers, credentials: cluster.credentials, name: options.name });
  try {
    return await use(nats, cluster);
  } finally {
    await nats.close();
  }
}
