import { beforeEach } from "vitest";
import { withNatsContainer } from "../fixtures/nats-container.ts";
import { SUITE_USERS, natsStores } from "./nats-network.ts";
import { type StoreUnderTest, storeConformance } from "./store.suite.ts";

const nats = withNatsContainer({ users: SUITE_USERS });
let stores: StoreUnderTest | undefined;
beforeEach(() => {
  stores ??= natsStores(nats());
});

storeConformance("nats in a container", () => stores!);
