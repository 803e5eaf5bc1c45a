import { micros, millis } from "@tutti/units";
import { expect, test } from "vitest";
import { createRanker } from "./ranker.ts";
import { rehearseLead } from "./rehearsal.ts";

test("a rehearsal takes the lead and gives every grant that it should", () => {
  const rehearsal = { subCluster: "main", pingEvery: millis(5), ctrlFloor: micros(100) };
  const grants = rehearseLead((ports, config, ready) => createRanker(ports, { ...config, ...rehearsal }, ready), 500);
  expect(grants).toBeGreaterThanOrEqual(500);
  expect(grants).toBeLessThan(600);
});
