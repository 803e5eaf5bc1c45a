/** Deaths of rankers and executors, and what is lost on the way between ranker, batcher and executor (docs/architecture.md, 4). */
import { millis, seconds } from "@tutti/units";
import { expect, test } from "vitest";
import { type Asked, VirtualCluster, type VirtualClusterOptions } from "./virtual-cluster.ts";

const FAST = { name: "fast", alphaMs: 1, betaMs: 4, sloMs: 50 };

function serving(options: VirtualClusterOptions = {}): VirtualCluster {
  const cluster = new VirtualCluster(options);
  cluster.addModel(FAST);
  cluster.run(seconds(2));
  return cluster;
}
const statuses = (asked: readonly Asked[]): string[] => asked.map((one) => one.outcomes.map((o) => o.status).join());
const notOk = (asked: readonly Asked[]): string[] => statuses(asked).filter((status) => status !== "ok");

test("a killed executor is noticed by probes, long before its time-out: what it held runs elsewhere in time", () => {
  const cluster = serving({ gpus: 4, executors: 2, policy: { kind: "eager" } });
  const asked = cluster.load("fast", { rate: 400, duration: millis(100), sloMs: 80 });
  cluster.kill("executor-0");
  asked.push(...cluster.load("fast", { rate: 400, duration: millis(100), sloMs: 80 }));
  cluster.run(millis(200));
  expect(notOk(asked)).toEqual([]);
});
