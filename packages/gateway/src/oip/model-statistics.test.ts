import type { StatsReported } from "@tutti/protocol";
import { actorKey, instant, seconds } from "@tutti/units";
import { expect, test } from "vitest";
import { ClusterFigures } from "../metrics/cluster-figures.ts";
import { modelStatistics } from "./model-statistics.ts";

const NOW = instant(1_767_225_600_000_000);
const reported = (role: "ingress" | "batcher", figures: Record<string, number>): StatsReported => {
  const perThread = [{ thread: 64 as never, name: "m", figures }];
  return { key: actorKey(role === "ingress" ? 1 : 2), role, at: NOW, countedFor: seconds(0), figures: {}, perThread };
};

test("the counts of one answer agree, whichever actor has reported", () => {
  const cluster = new ClusterFigures(NOW);
  const statistics = () => modelStatistics({ name: "m", version: "1" }, cluster.models.get("m"), undefined);
  const counts = () => {
    const { inference_count, inference_stats } = statistics();
    return [inference_count, inference_stats.success.count, inference_stats.queue.count];
  };
  // Each reports once a second, and either may be the first to.
  cluster.hear(reported("ingress", { offered: 29, ok: 29, latencyUs: 580 }), NOW);
  expect(counts()).toEqual([29, 29, 29]);
  cluster.hear(reported("batcher", { batches: 10, items: 31 }), NOW);
  expect(counts()).toEqual([29, 29, 29]);
  expect(statistics().execution_count).toBe(10);
});
