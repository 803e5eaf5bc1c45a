/** A planner that chooses how many sub-clusters it uses, among actors that report like real ones. */
import { seconds } from "@tutti/units";
import { expect, test } from "vitest";
import { PlannerScene } from "./testing/planner-scene.ts";

/** Models of 10 ms within 100 ms, each asked for at the given rate. */
function chosen(
  subClusters: readonly string[],
  { executors = 4, rates = [40, 40, 40, 40], least = 1 }: { executors?: number; rates?: number[]; least?: number } = {},
) {
  const scene = new PlannerScene();
  const rankers = subClusters.map((subCluster) => scene.ranker(subCluster));
  for (let gpu = 0; gpu < executors; gpu++) scene.executor(gpu);
  for (const [i, rate] of rates.entries()) {
    scene.model(i + 1);
    scene.rates.set(i + 1, { rate, badPercent: 0 });
  }
  scene.ingress();
  scene.planner({ subClustersMin: least });
  return { scene, rankers };
}
const usedIn = (scene: PlannerScene): string[] => [...new Set(Object.values(scene.models))].sort();

test("a division that would carry less than nine tenths is refused, and the report has the rates", () => {
  const { scene } = chosen(["main", "b", "c", "d"]);
  scene.run(seconds(60));
  expect([usedIn(scene), scene.gpus]).toEqual([["main"], { main: 4 }]);
  const { division, undividedRps } = scene.report!;
  expect(division).toMatchObject({ asked: 4, used: 1, needed: 1, because: "costly" });
  expect(division!.dividedRps!).toBeLessThan(0.9 * division!.undividedRps!);
  expect(undividedRps).toBeUndefined();
});

test("told so, the planner uses as many all the same", () => {
  const { scene } = chosen(["main", "b"], { least: 2 });
  scene.run(seconds(40));
  expect(usedIn(scene)).toEqual(["b", "main"]);
  expect(scene.report!.division).toMatchObject({ asked: 2, used: 2, because: "demanded" });
});

test("a division that costs little is made once three windows agree", () => {
  const { scene } = chosen(["main", "b"], { executors: 60, rates: [40, 40] });
  scene.run(seconds(12));
  expect(usedIn(scene)).toEqual(["main"]);
  scene.run(seconds(20));
  expect(usedIn(scene)).toEqual(["b", "main"]);
  expect(scene.report!.division).toMatchObject({ asked: 2, used: 2, because: "cheap" });
});

test("a busy ranker gets a second one beside it, however costly that is, and loses it when both are calm", () => {
  const { scene, rankers } = chosen(["main", "b", "c"]);
  for (const ranker of rankers) ranker.busy = 0.02;
  rankers[0]!.busy = 0.6;
  scene.run(seconds(40));
  expect(usedIn(scene)).toEqual(["main"]);
  rankers[0]!.busy = 0.8;
  scene.run(seconds(30));
  expect(usedIn(scene)).toEqual(["b", "main"]);
  expect(scene.report!.division).toMatchObject({ asked: 3, used: 2, needed: 2, because: "costly" });
  for (const ranker of rankers) ranker.busy = 0.3;
  scene.run(seconds(60));
  expect(usedIn(scene)).toEqual(["b", "main"]);
  for (const ranker of rankers) ranker.busy = 0.1;
  scene.run(seconds(60));
  expect([usedIn(scene), scene.gpus]).toEqual([["main"], { main: 4 }]);
});

test("models whose runs need too much memory beside each other get a sub-cluster each, and the report says what binds", () => {
  const { scene } = chosen(["main", "b"], { executors: 2, rates: [40, 40] });
  scene.capacity = 5e6;
  scene.dynamic.set(1, 3.5e6);
  scene.run(seconds(30));
  expect(usedIn(scene)).toEqual(["b", "main"]);
  const { division, subClusters, models } = scene.report!;
  expect(division).toMatchObject({ used: 2, needed: 2, because: "memory" });
  const crowded = subClusters.find(({ subCluster }) => subCluster === scene.models[1])!;
  expect(crowded).toMatchObject({ memoryBytes: 1e6, dynamicBytes: 3.5e6, memoryBytesMax: 5e6, binds: ["memory"] });
  expect(models.find(({ number }) => number === 1)).toMatchObject({ memoryBytes: 1e6, dynamicBytes: 3.5e6 });
});

test("a rate that a ranker can hardly decide for binds, and is what its busy share leaves room for", () => {
  const { scene, rankers } = chosen(["main"], { executors: 20 });
  rankers[0]!.busy = 0.65;
  scene.run(seconds(20));
  const [main] = scene.report!.subClusters;
  expect(main!.busy).toBeCloseTo(0.65, 6);
  expect(main!.rateMax).toBeCloseTo((0.7 * 160) / 0.65, 6);
  expect(main!.binds).toEqual(["rate"]);
  expect(scene.report!.division).toBeUndefined();
});
