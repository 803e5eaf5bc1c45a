/** Batchers that die, join and leave while requests come in (docs/architecture.md, T9). */
import { BUCKET, leaseKeys } from "@tutti/protocol";
import { type ActorKey, millis, seconds } from "@tutti/units";
import { fromJson } from "@tutti/wire";
import { expect, test } from "vitest";
import { VirtualCluster } from "./virtual-cluster.ts";
import type { Asked, VirtualClusterOptions } from "./virtual-cluster-options.ts";

const POLICIES = [{ kind: "adaptive" }, { kind: "deferred" }] as const;
const names = (count: number): string[] => Array.from({ length: count }, (_, i) => `model-${i + 1}`);

function serving(options: VirtualClusterOptions, models: readonly string[]): VirtualCluster {
  const cluster = new VirtualCluster({ gpus: 8, executors: 2, ...options });
  cluster.startIngress("ingress-1");
  for (const name of models) cluster.addModel({ name, alphaMs: 1, betaMs: 4, sloMs: 50 });
  cluster.run(seconds(2));
  return cluster;
}

function holders(cluster: VirtualCluster, count: number): ActorKey[] {
  const found: ActorKey[] = [];
  for (let model = 1; model <= count; model++)
    cluster.store.get(BUCKET.leases, leaseKeys.model(model), (entry) => {
      if (entry !== "absent" && !("failure" in entry))
        found.push((fromJson(entry.value) as { batcher: ActorKey }).batcher);
    });
  cluster.run(millis(1));
  return found;
}
const countsOf = (cluster: VirtualCluster, models: number, batchers: readonly string[]): number[] => {
  const found = holders(cluster, models);
  return batchers.map((name) => found.filter((key) => key === cluster.running.get(name)!.actor.key).length);
};
const statuses = (asked: readonly Asked[]): string[] => asked.map((one) => one.outcomes.map((o) => o.status).join());
const notOk = (asked: readonly Asked[]): string[] => statuses(asked).filter((status) => status !== "ok");
const lateOnes = (asked: readonly Asked[]): Asked[] =>
  asked.filter(({ outcomes, deadline }) => outcomes.some(({ at }) => at > deadline));

/** Loads all models at once, for so many rounds. */
function loadAll(cluster: VirtualCluster, models: readonly string[], rounds: number, sloMs: number): Asked[] {
  const asked: Asked[] = [];
  for (let round = 0; round < rounds; round++)
    for (const name of models) asked.push(...cluster.load(name, { rate: 400, duration: millis(2), sloMs }));
  return asked;
}

test("with few models each batcher has its share of them", () => {
  const cluster = serving({ batchers: 3 }, names(4));
  expect(countsOf(cluster, 4, ["batcher-0", "batcher-1", "batcher-2"]).sort()).toEqual([1, 1, 2]);
});

test.each(POLICIES)("a batcher that joins is given its share while no request is refused or late ($kind)", (policy) => {
  const models = names(6);
  const cluster = serving({ batchers: 1, policy }, models);
  const before = loadAll(cluster, models, 20, 50);
  cluster.startBatcher("batcher-1");
  const during = loadAll(cluster, models, 100, 50);
  cluster.run(millis(200));
  expect(countsOf(cluster, 6, ["batcher-0", "batcher-1"])).toEqual([3, 3]);
  expect(notOk([...before, ...during])).toEqual([]);
  expect(lateOnes([...before, ...during])).toEqual([]);
});

test.each(POLICIES)(
  "a batcher that is stopped hands its models on while no request is refused or late ($kind)",
  (policy) => {
    const models = names(6);
    const cluster = serving({ batchers: 2, policy }, models);
    const before = loadAll(cluster, models, 20, 50);
    let goneAt = 0;
    const { actor } = cluster.running.get("batcher-0")!;
    actor.drain(() => {
      goneAt = cluster.clock.now();
      cluster.kill("batcher-0");
    });
    const startedAt = cluster.clock.now();
    const during = loadAll(cluster, models, 40, 50);
    cluster.run(millis(200));
    expect(goneAt - startedAt).toBeGreaterThan(0);
    expect(goneAt - startedAt).toBeLessThan(millis(100));
    expect(countsOf(cluster, 6, ["batcher-1"])).toEqual([6]);
    expect(notOk([...before, ...during])).toEqual([]);
    expect(lateOnes([...before, ...during])).toEqual([]);
  },
);

test("the only batcher hands on to one that has just been started in its place", () => {
  const models = names(3);
  const cluster = serving({ batchers: 1 }, models);
  cluster.startBatcher("batcher-1");
  cluster.run(millis(1));
  cluster.drain("batcher-0");
  const during = loadAll(cluster, models, 100, 50);
  cluster.run(millis(200));
  expect(countsOf(cluster, 3, ["batcher-1"])).toEqual([3]);
  expect(notOk(during)).toEqual([]);
});

test("the only batcher of all leaves at once when nobody could take its models", () => {
  const cluster = serving({ batchers: 1 }, names(2));
  let left = false;
  cluster.running.get("batcher-0")!.actor.drain(() => (left = true));
  cluster.run(millis(1));
  expect(left).toBe(true);
});

test("when a batcher dies its models are another's within 100 ms, and what waited is served from there", () => {
  const models = names(4);
  const cluster = serving({ batchers: 2 }, models);
  const before = loadAll(cluster, models, 10, 200);
  cluster.kill("batcher-0");
  const killedAt = cluster.clock.now();
  const isTaken = (): boolean => countsOf(cluster, 4, ["batcher-1"])[0] === 4;
  while (!isTaken() && cluster.clock.now() < killedAt + millis(100)) cluster.run(millis(1));
  expect(isTaken()).toBe(true);
  const during = loadAll(cluster, models, 20, 200);
  cluster.run(millis(400));
  expect(notOk([...before, ...during])).toEqual([]);
});

test("a batcher that dies just after it took models is inherited from as fast: its death is proved, so nobody waits for its silence", () => {
  const models = names(4);
  const cluster = serving({ batchers: 2 }, models);
  cluster.kill("batcher-0");
  cluster.run(millis(30));
  cluster.startBatcher("batcher-2");
  cluster.run(millis(120));
  expect(countsOf(cluster, 4, ["batcher-1", "batcher-2"])).toEqual([2, 2]);
  const asked = loadAll(cluster, models, 5, 200);
  cluster.kill("batcher-2");
  const killedAt = cluster.clock.now();
  cluster.run(millis(60));
  expect(countsOf(cluster, 4, ["batcher-1"])).toEqual([4]);
  expect(cluster.clock.now() - killedAt).toBeLessThan(millis(100));
  cluster.run(millis(300));
  expect(notOk(asked)).toEqual([]);
});

test("after deaths, stops and starts every batcher that lives has its share, and keeps it", () => {
  const models = names(4);
  const cluster = serving({ batchers: 2 }, models);
  cluster.kill("batcher-0");
  cluster.run(millis(100));
  cluster.startBatcher("batcher-2");
  cluster.run(millis(300));
  cluster.drain("batcher-1");
  cluster.run(millis(300));
  cluster.startBatcher("batcher-3");
  cluster.run(millis(300));
  expect(countsOf(cluster, 4, ["batcher-2", "batcher-3"])).toEqual([2, 2]);
  cluster.startBatcher("batcher-4");
  cluster.run(millis(300));
  const counts = countsOf(cluster, 4, ["batcher-2", "batcher-3", "batcher-4"]);
  expect(counts.toSorted()).toEqual([1, 1, 2]);
  const before = holders(cluster, 4);
  cluster.run(seconds(3));
  expect(holders(cluster, 4)).toEqual(before);
  cluster.drain("batcher-4");
  cluster.run(millis(300));
  expect(countsOf(cluster, 4, ["batcher-2", "batcher-3"])).toEqual([2, 2]);
});

test.each(POLICIES)(
  "models are spread by their loads: one that was moved from a busy batcher lost and refused nothing, and stays ($kind)",
  (policy) => {
    const models = names(6);
    const cluster = serving({ batchers: 2, policy }, models);
    const first = holders(cluster, 6);
    // Each batcher holds three models: all load is on those of one.
    const busy = models.filter((_, i) => first[i] === first[0]);
    expect(busy).toHaveLength(3);
    const heldBy = (key: ActorKey | undefined): string[] => {
      const held = holders(cluster, 6);
      return busy.filter((name) => held[models.indexOf(name)] === key);
    };
    const asked: Asked[] = [];
    for (let second = 0; second < 8; second++) asked.push(...loadAll(cluster, busy, 166, 50));
    expect(heldBy(first[0])).toHaveLength(2);
    const moved = holders(cluster, 6);
    for (let second = 0; second < 8; second++) asked.push(...loadAll(cluster, busy, 166, 50));
    expect(holders(cluster, 6)).toEqual(moved);
    cluster.run(millis(200));
    expect(notOk(asked)).toEqual([]);
    expect(lateOnes(asked)).toEqual([]);
  },
);
