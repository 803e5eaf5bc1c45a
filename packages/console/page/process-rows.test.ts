import { expect, test } from "vitest";
import type { FeedActor } from "../src/feed.ts";
import { processRows } from "./process-rows.ts";

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
