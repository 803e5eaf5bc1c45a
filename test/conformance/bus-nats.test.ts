import { beforeAll } from "vitest";
import { withNats } from "../fixtures/nats.ts";
import { busConformance } from "./bus.suite.ts";
import type { BusNetwork } from "./bus-tools.ts";
import { SUITE_USERS, natsNetwork } from "./nats-network.ts";

const nats = withNats({ users: SUITE_USERS });
let network: BusNetwork;
beforeAll(() => {
  network = natsNetwork(nats());
});

busConformance("nats", () => network);
