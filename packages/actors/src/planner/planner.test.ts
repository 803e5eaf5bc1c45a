import { poolCapacity } from "@tutti/planning/live";
import { LatencyTable } from "@tutti/profile";
import { BUCKET, PLACEMENT_KEY } from "@tutti/protocol";
import { millis, seconds } from "@tutti/units";
import { toJson } from "@tutti/wire";
import { expect, test } from "vitest";
import { PlannerScene } from "./testing/planner-scene.ts";

/** A cluster with the given sub-clusters that has been planned. */
function settled(executors: number, models: number, subClusters: readonly string[] = ["main"]): PlannerScene {
  const scene = new PlannerScene();
  for (const subCluster of subClusters) scene.ranker(subCluster);
  for (let gpu = 0; gpu < executors; gpu++) scene.executor(gpu);
  for (let number = 1; number <= models; number++) scene.model(number);
  scene.ingress();
  scene.planner();
  scene.run(seconds(3));
  return scene;
}

test("everything that is there gets a place once everybody could be heard, and then nothing is written any more", () => {
  const scene = settled(2, 3);
  expect(scene.models).toEqual({ 1: "main", 2: "main", 3: "main" });
  expect(scene.gpus).toEqual({ main: 2 });
  const { length } = scene.placements;
  scene.run(seconds(60));
  expect(scene.placements).toHaveLength(length);
});

test("models and executors that come get their places within 200 ms, those that go lose them", () => {
  const scene = settled(1, 1);
  scene.model(2);
  scene.executor(1);
  scene.run(millis(200));
  expect([scene.models, scene.gpus]).toEqual([{ 1: "main", 2: "main" }, { main: 2 }]);
  scene.unload(1);
  scene.run(millis(200));
  expect(scene.models).toEqual({ 2: "main" });
  // An executor that dies may be back soon: its place is kept for an epoch.
  scene.killExecutor(1);
  scene.run(seconds(3));
  expect(scene.gpus).toEqual({ main: 2 });
  scene.run(seconds(10));
  expect(scene.gpus).toEqual({ main: 1 });
});

test("an executor that was killed and is back counts once, though its old self has not been missed yet", () => {
  const scene = settled(2, 1);
  scene.executor(1);
  scene.model(2); // something to write
  scene.run(millis(300));
  expect([scene.models, scene.gpus]).toEqual([{ 1: "main", 2: "main" }, { main: 2 }]);
  expect(scene.unreadable).toBe(0);
});

test("rates that drift apart move a model in two steps: loaded where it goes before it is served there (PL3)", () => {
  const scene = settled(4, 4, ["main", "b"]);
  for (const number of [1, 2, 3, 4]) scene.rates.set(number, { rate: 40, badPercent: 0 });
  scene.run(seconds(60));
  const places = Object.values(scene.models).sort();
  expect(places).toEqual(["b", "b", "main", "main"]);
  expect(scene.gpus).toEqual({ main: 2, b: 2 });
  const moved = Object.entries(scene.models).find(([, place]) => place === "b")![0];
  const story = scene.placements.map(({ models }) => models.find(({ number }) => String(number) === moved));
  const steps = story.map((model) =>
    model?.next === undefined ? model?.subCluster : `${model.subCluster}>${model.next}`,
  );
  expect([...new Set(steps)].slice(-3)).toEqual(["main", "main>b", "b"]);
});

test("the report says what each sub-cluster is expected to carry of its mix, and all accelerators undivided", () => {
  const scene = settled(4, 4, ["main", "b"]);
  for (const number of [1, 2, 3, 4]) scene.rates.set(number, { rate: 40, badPercent: 0 });
  scene.model(5, { latencyMs: 60 });
  scene.run(seconds(60));
  // Two accelerators each, and runs of 10 ms within 100 ms: 200 r/s, less room for swings.
  const profile = LatencyTable.fromPoints([{ batchSize: 1, latency: millis(10) }]);
  const pool = [1, 2, 3, 4].map(() => ({ share: 1, slo: millis(100), dispersion: 1, profile }));
  const rps = (models: number, gpus: number): number => 1e6 * poolCapacity(pool.slice(0, models), gpus).carried;
  expect(rps(2, 2)).toBeGreaterThan(100);
  expect(rps(2, 2)).toBeLessThan(190);
  const { subClusters, undividedRps } = scene.report!;
  for (const { carriedRps, waits } of subClusters)
    expect([Math.round(carriedRps!), waits]).toEqual([Math.round(rps(2, 2)), undefined]);
  expect(undividedRps).toBeCloseTo(rps(4, 4), 0);
  // A model that everybody waits for.
  scene.rates.set(5, { rate: 1, badPercent: 0 });
  scene.run(seconds(30));
  const place = scene.models[5]!;
  const crowded = scene.report!.subClusters.find(({ subCluster }) => subCluster === place)!;
  expect(crowded.carriedRps).toBeLessThan(rps(2, 2));
});

test("accelerators go where they are lacking most, and stay where it is even", () => {
  const scene = settled(8, 2, ["main", "b"]);
  scene.rates.set(1, { rate: 100, badPercent: 0 });
  scene.rates.set(2, { rate: 100, badPercent: 0 });
  scene.run(seconds(30));
  expect(new Set(Object.values(scene.models))).toEqual(new Set(["main", "b"]));
  expect(scene.gpus).toEqual({ main: 4, b: 4 });
  const { length } = scene.placements;
  scene.run(seconds(60));
  expect(scene.placements).toHaveLength(length);
  const busy = scene.models[1]!;
  // One model of 300 r/s and one of 100 r/s: sub-clusters differ, and no move would make it better.
  // Six would carry 300 r/s more easily, but two leave less for the swings of 100 r/s.
  scene.rates.set(1, { rate: 300, badPercent: 0 });
  scene.run(seconds(20));
  expect(scene.gpus[busy]).toBe(5);
});

test("a planner that is killed is missed by nobody, and the next goes on from what stands (PN1)", () => {
  const scene = new PlannerScene();
  for (const subCluster of ["main", "b"]) scene.ranker(subCluster);
  for (let gpu = 0; gpu < 4; gpu++) scene.executor(gpu);
  for (const number of [1, 2, 3, 4]) scene.model(number);
  for (const number of [1, 2, 3, 4]) scene.rates.set(number, { rate: 40, badPercent: 0 });
  scene.ingress();
  const first = scene.planner();
  scene.run(seconds(40));
  const { models, gpus, placement } = scene;
  first.kill();
  first.actor.drain(() => undefined);
  scene.run(seconds(5));
  scene.planner();
  scene.run(seconds(40));
  expect([scene.models, scene.gpus]).toEqual([models, gpus]);
  expect(scene.placement).toEqual(placement);
});

test("two planners don't fight: each goes on from what the other wrote, and they come to rest", () => {
  const scene = settled(4, 4, ["main", "b"]);
  scene.planner();
  for (const number of [1, 2, 3, 4]) scene.rates.set(number, { rate: 40, badPercent: 0 });
  scene.run(seconds(60));
  expect(Object.values(scene.models).sort()).toEqual(["b", "b", "main", "main"]);
  const epochs = scene.placements.map(({ epoch }) => epoch);
  expect(epochs).toEqual(Array.from(epochs, (_, i) => i + 1));
  const { length } = scene.placements;
  scene.run(seconds(60));
  expect(scene.placements).toHaveLength(length);
});

test("a sub-cluster whose leader is gone for good is left by its models and accelerators, and not for a takeover", () => {
  const scene = new PlannerScene();
  scene.ranker("main");
  const leader = scene.ranker("b");
  for (let gpu = 0; gpu < 4; gpu++) scene.executor(gpu);
  for (const number of [1, 2]) scene.model(number);
  for (const number of [1, 2]) scene.rates.set(number, { rate: 40, badPercent: 0 });
  scene.ingress();
  scene.planner();
  scene.run(seconds(30));
  expect(scene.gpus).toEqual({ main: 2, b: 2 });
  leader.kill();
  scene.run(seconds(2));
  const next = scene.ranker("b");
  scene.run(seconds(10));
  expect(scene.gpus).toEqual({ main: 2, b: 2 });
  next.kill();
  scene.run(seconds(5));
  expect(scene.gpus).toEqual({ main: 4 });
  expect(scene.models).toEqual({ 1: "main", 2: "main" });
});

test("memory that is short puts models into sub-clusters of their own, or leaves them out with figures", () => {
  const scene = new PlannerScene();
  scene.capacity = 4e9;
  for (const subCluster of ["main", "b"]) scene.ranker(subCluster);
  for (let gpu = 0; gpu < 2; gpu++) scene.executor(gpu);
  for (const number of [1, 2]) scene.model(number, { bytes: 3e9 });
  scene.model(3, { bytes: 5e9 });
  scene.planner();
  scene.run(seconds(5));
  expect(new Set([scene.models[1], scene.models[2]])).toEqual(new Set(["main", "b"]));
  expect(scene.gpus).toEqual({ main: 1, b: 1 });
  expect(scene.models[3]).toBeUndefined();
  expect(scene.report?.leftOut).toEqual([
    { number: 3, text: "is left out: it needs 5 GB, and no accelerator holds more than 4 GB" },
  ]);
});

test("an entry that can't be read is overwritten, and a malformed message changes nothing (T8)", () => {
  const scene = settled(1, 1);
  const { length } = scene.placements;
  const { epoch } = scene.placement!;
  scene.store.put(BUCKET.plan, PLACEMENT_KEY, toJson({ epoch: "x" }), () => undefined);
  scene.run(seconds(2));
  expect(scene.placements.length).toBe(length + 1);
  // Readers ignore placements older than the one that they know.
  expect(scene.placement!.epoch).toBeGreaterThan(epoch);
  expect(scene.models).toEqual({ 1: "main" });
});

test("advice follows a load that steps up within two windows, and down in two more, and says how many there ought to be", () => {
  const scene = settled(1, 1);
  // 10 ms each: 40 r/s are 0.4 of an accelerator, 250 r/s are 2.5.
  scene.rates.set(1, { rate: 40, badPercent: 0 });
  const wanted = (): number => scene.advised.at(-1)!.gpus + scene.advised.at(-1)!.advice;
  const setBusy = (busy: number): void => {
    for (const executor of scene.executors.values()) executor.busy = busy;
  };
  setBusy(0.4);
  scene.run(seconds(10));
  expect(wanted()).toBe(1);
  scene.rates.set(1, { rate: 250, badPercent: 60 });
  setBusy(1);
  scene.run(seconds(4));
  expect(wanted()).toBeGreaterThanOrEqual(3);
  expect(wanted()).toBeLessThanOrEqual(5);
  for (const gpu of [1, 2, 3]) scene.executor(gpu);
  scene.rates.set(1, { rate: 250, badPercent: 0 });
  setBusy(2.5 / 4);
  scene.run(seconds(10));
  expect(wanted()).toBeGreaterThanOrEqual(3);
  scene.rates.set(1, { rate: 40, badPercent: 0 });
  setBusy(0.1);
  scene.run(seconds(20));
  expect(wanted()).toBe(1);
  expect(scene.advised.at(-1)).toMatchObject({ gpus: 4, advice: -3, badRate: 0 });
});

test("each sub-cluster with models keeps an accelerator, however little is asked for", () => {
  const scene = settled(4, 2, ["main", "b"]);
  for (const number of [1, 2]) scene.rates.set(number, { rate: 40, badPercent: 0 });
  scene.run(seconds(20));
  expect(new Set(Object.values(scene.models))).toEqual(new Set(["main", "b"]));
  scene.rates.clear();
  scene.run(seconds(30));
  expect(scene.advised.at(-1)).toMatchObject({ gpus: 4, advice: -2 });
});
