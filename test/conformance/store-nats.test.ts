import { beforeAll } from "vitest";
import { withNats } from "../fixtures/nats.ts";
import { SUITE_USERS, natsStores } from "./nats-network.ts";
import { type StoreUnderTest, storeConformance } from "./store.suite.ts";

const nats = withNats({ users: SUITE_USERS });
let stores: StoreUnderTest;
beforeAll(() => {
  stores = natsStores(nats());
});

storeConformance("nats", () => stores);
