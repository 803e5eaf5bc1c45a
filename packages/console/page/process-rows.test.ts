import { expect, test } from "vitest";
import type { FeedActor } from "../src/feed.ts";
import { processRows, restartMeans } from "./process-rows.ts";

const actor = (id: string, role: string, pid: number, process: string): FeedActor => ({
  ...{ actor: id, role, host: "a", pid, process, startedAt: 0, epoch: null, duty: "" },
  ...{ subCluster: null, restarts: 0, queue: 0, health: ["ok"] },
});

test("roles of one process are one row with one restart, and processes of one name or host stay apart", () => {
  const rows = processRows([
    actor("i1", "ingress", 7, "node"),
    actor("e1", "executor", 8, "executor-0"),
    actor("b1", "batcher", 7, "node"),
    actor("i2", "ingress", 9, "node"),
    actor("r1", "ranker", 10, ""),
    actor("p1", "planner", 10, ""),
    actor("", "jobs", 0, "jobs"),
  ]);
  expect(rows.map(({ name, actors, restartBy }) => [name, actors.map((one) => one.actor), restartBy?.actor])).toEqual([
    ["node", ["i1", "b1"], "i1"],
    ["executor-0", ["e1"], "e1"],
    ["node", ["i2"], "i2"],
    ["ranker, planner", ["r1", "p1"], "r1"],
    ["jobs", [""], undefined],
  ]);
  expect(new Set(rows.map(({ key }) => key)).size).toBe(rows.length);
});

test("what a restart means is said of the whole process, and never that a spare is there", () => {
  const [node, ranker] = processRows([
    ...["ranker", "gateway"].map((role) => actor(role, role, 7, "node")),
    actor("r2", "ranker", 8, "ranker"),
  ]).map(restartMeans);
  expect(ranker).toBe("No request is lost by it. A spare takes the lead in milliseconds.");
  expect(node).toMatch(
    /^It is ranker, gateway at once\. Others .* where there are none, nothing is served .* This page/,
  );
  expect(node).not.toContain("No request");
});
