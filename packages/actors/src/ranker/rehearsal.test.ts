import { micros, millis } from "@tutti/units";
import { expect, test } from "vitest";
import type { Actor, ActorConfig, ActorPorts } from "../ports.ts";
import { createRanker } from "./ranker.ts";
import { rehearseLead } from "./rehearsal.ts";

test("a rehearsal takes the lead and gives every grant that it should", () => {
  const rehearsal = { subCluster: "main", pingEvery: millis(5), ctrlFloor: micros(100) };
  const create = (ports: ActorPorts, config: ActorConfig, ready: () => void): Actor =>
    createRanker(ports, { ...config, ...rehearsal }, ready);
  const grants = rehearseLead("main", create, 500);
  expect(grants).toBeGreaterThanOrEqual(500);
  expect(grants).toBeLessThan(520);
});
