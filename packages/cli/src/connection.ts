import { type NatsConnections, connectNats } from "@tutti/bus-nats";
import { type Cluster, type ClusterOptions, findCluster } from "./cluster.ts";

/** Connects as the command line does, runs `use`, and closes whatever happens. */
export async function withCluster<Result>(
  options: ClusterOptions & { readonly name: string },
  use: (nats: NatsConnections, cluster: Cluster) => Promise<Result>,
): Promise<Result> {
  const cluster = await findCluster(options);
  const { servers, credentials } = cluster;
  const nats = await connectNats({ servers, name: options.name, ...(credentials !== undefined && { credentials }) });
  try {
    return await use(nats, cluster);
  } finally {
    await nats.close();
  }
}
