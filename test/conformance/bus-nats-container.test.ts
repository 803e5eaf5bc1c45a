import { beforeEach } from "vitest";
import { withNatsContainer } from "../fixtures/nats-container.ts";
import { busConformance } from "./bus.suite.ts";
import type { BusNetwork } from "./bus-tools.ts";
import { SUITE_USERS, natsNetwork } from "./nats-network.ts";

const nats = withNatsContainer({ users: SUITE_USERS });
let network: BusNetwork | undefined;
beforeEach(() => {
  network ??= natsNetwork(nats());
});

busConformance("nats in a container", () => network!);
