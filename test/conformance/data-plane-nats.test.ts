import { NatsDataClient, type NatsConnection, serveNats } from "@tutti/bus-nats";
import type { DataClient, DataServer } from "@tutti/ports/pull";
import { withNats } from "../fixtures/nats.ts";
import { type DataPlane, dataPlaneConformance } from "./data-plane.suite.ts";

const nats = withNats();
const opened: (DataServer | DataClient)[] = [];
const connections: NatsConnection[] = [];

async function bulk() {
  const connection = await nats().connect();
  connections.push(connection);
  return connection.bulk;
}

const plane: DataPlane = {
  serve: async (key, handlers) => {
    const bus = await bulk();
    const server = serveNats({ bus, cluster: "test", key, handlers });
    await new Promise<boolean>((resolve) => bus.flush(resolve)); // The server knows of the subscription.
    opened.push(server);
    return server;
  },
  connect: async (key) => {
    const client = new NatsDataClient({ bus: await bulk(), cluster: "test", key });
    opened.push(client);
    return client;
  },
  closeAll: async () => {
    await Promise.all(opened.splice(0).map((it) => new Promise<void>((resolve) => it.close(resolve))));
    await Promise.all(connections.splice(0).map((connection) => connection.close()));
  },
};

dataPlaneConformance("NATS", () => plane);
