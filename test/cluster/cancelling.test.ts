/** Requests that are cancelled, and those that only their ingress remembers. */
import { millis, seconds } from "@tutti/units";
import { expect, test } from "vitest";
import { VirtualCluster } from "./virtual-cluster.ts";
import type { Asked, VirtualClusterOptions } from "./virtual-cluster-options.ts";

const FAST = { name: "fast", alphaMs: 1, betaMs: 4, sloMs: 200 };
function serving(options: VirtualClusterOptions = {}): VirtualCluster {
  const cluster = new VirtualCluster({ policy: { kind: "deferred" }, ...options });
  cluster.addModel(FAST);
  cluster.run(seconds(2));
  return cluster;
}
const statuses = (asked: readonly Asked[]): string[] => asked.map((one) => one.outcomes.map((o) => o.status).join());

test("a request that is cancelled before it runs is answered CANCELLED at once, never runs, and has one answer (T1)", () => {
  let runs = 0;
  const cluster = serving({ gpus: 1, fault: () => void runs++ });
  cluster.startIngress("ingress-1");
  cluster.run(seconds(2)); // Its own warm-up runs first.
  runs = 0;
  const [cancelled, other] = [cluster.ask("fast", { sloMs: 200 }), cluster.ask("fast", { sloMs: 100 })];
  cluster.run(millis(5));
  cluster.cancel(cancelled);
  cluster.run(millis(1));
  expect(statuses([cancelled, other])).toEqual(["TUTTI_CANCELLED", ""]);
  cluster.run(millis(300));
  expect(statuses([cancelled, other])).toEqual(["TUTTI_CANCELLED", "ok"]);
  expect(runs).toBe(1);
});

test("no application takes back another's request, and one that is answered stays answered", () => {
  const cluster = serving();
  const asked = cluster.ask("fast", { sloMs: 100 });
  cluster.run(millis(2));
  cluster.cancel(asked, "stranger");
  cluster.run(millis(200));
  cluster.cancel(asked);
  cluster.run(millis(200));
  expect(statuses([asked])).toEqual(["ok"]);
});

test("a request whose batch runs already is answered CANCELLED, and its result reaches nobody (T1)", () => {
  const cluster = serving({ gpus: 1, policy: { kind: "eager" } });
  const asked = cluster.ask("fast", { sloMs: 100 });
  cluster.run(millis(4));
  cluster.cancel(asked);
  cluster.run(millis(300));
  expect(statuses([asked])).toEqual(["TUTTI_CANCELLED"]);
});

test("what an executor pulled for a batcher that is gone since is sent again when that executor dies", () => {
  const cluster = serving({ gpus: 2, executors: 2, batchers: 2, policy: { kind: "eager" }, runTimes: () => 8 });
  const asked = Array.from({ length: 4 }, () => cluster.ask("fast", { sloMs: 900 }));
  cluster.run(millis(10)); // Both run now, for longer than it takes to notice the death of a batcher.
  cluster.kill("batcher-0");
  cluster.kill("batcher-1");
  cluster.startBatcher("batcher-2");
  cluster.run(millis(20));
  cluster.kill("executor-0");
  cluster.run(millis(800));
  expect(statuses(asked)).toEqual(["ok", "ok", "ok", "ok"]);
});

test("a request that runs for an earlier holder of its model does not run a second time for the next one", () => {
  let runs = 0;
  const cluster = serving({
    gpus: 2,
    batchers: 2,
    policy: { kind: "eager" },
    runTimes: () => 8,
    fault: () => void runs++,
  });
  runs = 0;
  const asked = cluster.ask("fast", { sloMs: 900 });
  cluster.run(millis(10));
  for (const name of ["batcher-0", "batcher-1"]) cluster.drain(name);
  cluster.startBatcher("batcher-2");
  cluster.run(millis(800));
  expect(statuses([asked])).toEqual(["ok"]);
  expect(runs).toBe(1);
});

test("an ingress that its batcher took for dead sends again what that one has dropped, and nothing that runs", () => {
  let silent = false;
  let runs = 0;
  const cluster = serving({
    gpus: 1,
    policy: { kind: "eager" },
    runTimes: () => 60,
    loses: (subject) => silent && subject.includes(".beat.ingress"),
    fault: () => void runs++,
  });
  runs = 0;
  const running = cluster.ask("fast", { sloMs: 900 });
  cluster.run(millis(10));
  const waiting = cluster.ask("fast", { sloMs: 900 });
  cluster.run(millis(10));
  silent = true;
  cluster.run(millis(150));
  silent = false;
  cluster.run(millis(900));
  expect(statuses([running, waiting])).toEqual(["ok", "ok"]);
  expect(runs).toBe(2);
});
