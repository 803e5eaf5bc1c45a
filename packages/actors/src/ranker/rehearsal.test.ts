import { VirtualClock } from "@tutti/clock";
import { after, micros, millis, seconds } from "@tutti/units";
import { expect, test } from "vitest";
import type { Actor, ActorConfig, ActorPorts } from "../ports.ts";
import { createRanker } from "./ranker.ts";
import { type RehearsedLead, rehearseLead } from "./rehearsal.ts";

const rehearsed: Omit<RehearsedLead, "clock"> = {
  subCluster: "main",
  create: (ports: ActorPorts, config: ActorConfig, ready: () => void): Actor => {
    const more = { subCluster: "main", pingEvery: millis(5), ctrlFloor: micros(100) };
    return createRanker(ports, { ...config, ...more }, ready);
  },
  goesOn: () => true,
  grants: 500,
};

test("a rehearsal takes the lead, gives every grant that it should, and leaves nothing behind", () => {
  const clock = new VirtualClock();
  let given = 0;
  rehearseLead({ ...rehearsed, clock }, (grants) => (given = grants));
  expect(clock.runUntil(() => given > 0, after(clock.now(), seconds(4)))).toBe(true);
  expect(given).toBeGreaterThanOrEqual(500);
  expect(given).toBeLessThanOrEqual(502); // of the other two models
  clock.advanceBy(seconds(1));
  expect(clock.nextAt).toBe(Infinity);
});

test("it ends as soon as there is no time for it", () => {
  const clock = new VirtualClock();
  let [left, given] = [3, -1];
  rehearseLead({ ...rehearsed, clock, goesOn: () => left-- > 0, grants: 1e9 }, (grants) => (given = grants));
  expect(clock.runUntil(() => given >= 0, after(clock.now(), millis(100)))).toBe(true);
  expect(given).toBeGreaterThan(0);
  clock.advanceBy(seconds(1));
  expect(clock.nextAt).toBe(Infinity);
});
