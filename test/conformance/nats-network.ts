import type { NatsConnection, NatsUser } from "@tutti/bus-nats";
import type { NatsFixture } from "../fixtures/nats.ts";
import type { BusNetwork } from "./bus-tools.ts";
import type { StoreUnderTest } from "./store.suite.ts";

/** Users for the suites on buses and stores, which don't test permissions. */
export const SUITE_USERS: readonly NatsUser[] = [
  { name: "everything", inboxPrefix: "_INBOX_everything", publish: [">"], subscribe: [">"] },
  {
    name: "restricted",
    inboxPrefix: "_INBOX_restricted",
    publish: ["open.>"],
    subscribe: ["open.>", "_INBOX_restricted.>"],
  },
];

export function natsNetwork(nats: NatsFixture): BusNetwork {
  const { connect, ...rest } = breakable(nats);
  return {
    ...rest,
    connect: async () => (await connect("everything")).control,
    connectRestricted: async () => (await connect("restricted")).control,
  };
}

export function natsStores(nats: NatsFixture): StoreUnderTest {
  const { connect, ...rest } = breakable(nats);
  return { ...rest, open: async () => (await connect("everything")).store };
}

/** A server that dies, and comes back on the same port with the same store. */
function breakable(nats: NatsFixture) {
  const open: NatsConnection[] = [];
  return {
    connect: async (user: string): Promise<NatsConnection> => {
      const connection = await nats.connect(user);
      open.push(connection);
      return connection;
    },
    cut: () => nats.kill(),
    heal: () => nats.start(),
    closeAll: async (): Promise<void> => {
      await Promise.all(open.splice(0).map((connection) => connection.close()));
    },
  };
}
