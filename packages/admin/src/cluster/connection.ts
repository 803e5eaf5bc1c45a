import { type NatsConnection, connectNats, inboxPrefixOf, readCredentials } from "@tutti/bus-nats";
import { type ClientBus, appBus } from "@tutti/client";
import { type Cluster, type ClusterOptions, findCluster } from "./find-cluster.ts";
import { connectionRefused, unlessDenied } from "./refused.ts";

export interface ConnectionOptions {
  readonly servers: string | readonly string[];
  /** Path of a credentials file. */
  readonly credentials: string | undefined;
  /** Path of the certificate of the authority that signed the servers' certificates; if given, TLS is required. */
  readonly tlsCa?: string | undefined;
  /** `tutti-…`: no application may have such a name. */
  readonly name: string;
}

/**
 * Everything that the command reads comes to an inbox that no application may hear: the one that the credentials file
 * names or, without one, that of the command's reserved name.
 *
 * @throws {TuttiError} UNAVAILABLE or FORBIDDEN, saying which server and why
 */
export function openConnection(options: ConnectionOptions): Promise<NatsConnection> {
  const { servers, name, tlsCa } = options;
  const credentials = options.credentials === undefined ? undefined : readCredentials(options.credentials);
  return connectNats({
    ...{ servers, name },
    ...(tlsCa !== undefined && { tls: { caFile: tlsCa } }),
    inboxPrefix: inboxPrefixOf(credentials) ?? `_INBOX.${name}`,
    ...(credentials !== undefined && { credentials }),
  });
}

/** A command's bus for requests in an application's name: ingresses answer below that application's inbox only. */
export const busInNameOf = (app: string, bus: ClientBus): ClientBus =>
  appBus(bus, () => `_INBOX.${app}.${crypto.randomUUID()}`);

type Named = Pick<ConnectionOptions, "name">;

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
  const { name, isForApps = false } = options;
  const cluster = await findCluster(options);
  const nats = await openCluster(cluster, { name });
  try {
    return await unlessDenied(nats, { ...cluster, isForApps }, () => use(nats, cluster));
  } finally {
    await nats.close();
  }
}
