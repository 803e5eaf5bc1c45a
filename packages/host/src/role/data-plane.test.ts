import { InMemoryNetwork } from "@tutti/ports/bus";
import { actorKey } from "@tutti/units";
import { expect, test } from "vitest";
import { serveDataPlane } from "./data-plane.ts";
import type { RoleContext } from "./run-process.ts";

const served = (dataPlane: "tcp" | "nats") =>
  serveDataPlane({
    options: { cluster: "c", dataPlane, dataHost: "127.0.0.1" },
    config: { key: actorKey(1_001) },
    ports: {
      bulk: new InMemoryNetwork().connect({ name: "ingress" }),
      telemetry: { log: { warn: expect.unreachable } },
    },
    told: {},
  } as unknown as RoleContext)({ onPull: () => undefined, onResults: () => undefined });

test("rows are pushed with their batch, except large ones where TCP serves them", async () => {
  const [direct, relayed] = [served("tcp"), served("nats")];
  await expect.poll(() => direct.address()).toBeDefined();
  expect([524_288, 524_289].map((bytes) => direct.pushes?.(bytes))).toEqual([true, false]);
  expect([524_288, 524_289].map((bytes) => relayed.pushes?.(bytes))).toEqual([true, true]);
  for (const server of [direct, relayed]) await new Promise<void>((resolve) => server.close(resolve));
});
