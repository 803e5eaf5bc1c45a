/**
 * Models and accelerators move between sub-clusters as a placement says, while requests come (docs/architecture.md, 3
 * and 4).
 */
import { BatchDispatched, ExecutorInventory, ModelReported, subjectsOf } from "@tutti/protocol";
import { type GpuId, type Micros, gpuId, millis, modelNumberOf, seconds } from "@tutti/units";
import { FrameReader } from "@tutti/wire";
import { expect, test } from "vitest";
import { VirtualCluster } from "./virtual-cluster.ts";
import type { Asked, VirtualClusterOptions } from "./virtual-cluster-options.ts";

const A = { name: "a", alphaMs: 1, betaMs: 4, sloMs: 60 } as const;
const B = { name: "b", alphaMs: 1, betaMs: 3, sloMs: 60 } as const;

/** A cluster of two sub-clusters, each accelerator in a process of its own. */
class Stage {
  readonly cluster: VirtualCluster;
  /** The newest inventory of each accelerator. */
  readonly inventories = new Map<GpuId, ExecutorInventory>();
  readonly reports: ModelReported[] = [];
  /** Since `restart`: which accelerators ran which models. */
  #ran = new Map<number, Set<GpuId>>();

  constructor(options: VirtualClusterOptions & { readonly models?: readonly (typeof A & { memory?: number })[] } = {}) {
    const gpus = options.gpus ?? 4;
    this.cluster = new VirtualCluster({ gpus, executors: gpus, subClusters: ["main", "s1"], ...options });
    const reader = new FrameReader()
      .on(BatchDispatched, ({ thread, gpu }) => void setOf(this.#ran, modelNumberOf(thread)).add(gpu))
      .on(ModelReported, (report) => void this.reports.push(report))
      .on(ExecutorInventory, (inventory) => {
        for (const gpu of inventory.gpus) this.inventories.set(gpu, inventory);
      });
    const tap = this.cluster.network.connect({ name: "tap" });
    for (const subject of [`${subjectsOf("main").prefix}.to.*`, subjectsOf("main").role("profiler")])
      tap.subscribe(subject, ({ payload }) => void (payload.length > 0 && reader.read(payload)));
    for (const model of options.models ?? [A, B]) this.cluster.addModel(model);
  }

  /** Asks each model at an even rate, while time passes. */
  load(duration: Micros, { every = millis(4), sloMs = 60, models = ["a", "b"] } = {}): Asked[] {
    const asked: Asked[] = [];
    for (let at = 0; at < duration; at += every) {
      for (const name of models) asked.push(this.cluster.ask(name, { sloMs }));
      this.cluster.run(every);
    }
    return asked;
  }
  ranOn(model: number): number[] {
    return [...(this.#ran.get(model) ?? [])].sort();
  }
  /** Accelerators outside `within` that ran a model. */
  strayed(model: number, within: readonly number[]): number[] {
    expect(this.ranOn(model)).not.toEqual([]);
    return this.ranOn(model).filter((gpu) => !within.includes(gpu));
  }
  forget(): void {
    this.#ran.clear();
  }
  /** Numbers of the models that an accelerator has. */
  has(gpu: number): number[] {
    return (this.inventories.get(gpuId(gpu))?.models ?? []).map(({ number }) => number).sort();
  }
  where(gpu: number): string | undefined {
    return this.inventories.get(gpuId(gpu))?.subCluster;
  }
}
function setOf<Key, Item>(map: Map<Key, Set<Item>>, key: Key): Set<Item> {
  let set = map.get(key);
  if (set === undefined) map.set(key, (set = new Set()));
  return set;
}
const statuses = (asked: readonly Asked[]): string[] => [
  ...new Set(asked.map(({ outcomes }) => outcomes.map(({ status }) => status).join("+"))),
];

test("as long as nobody plans, everything belongs to `main`, and the other's leader grants nothing", () => {
  const stage = new Stage();
  stage.cluster.run(seconds(2));
  const asked = stage.load(millis(400));
  stage.cluster.run(millis(100));
  expect(statuses(asked)).toEqual(["ok"]);
  expect([0, 1, 2, 3].map((gpu) => [stage.where(gpu), stage.has(gpu)])).toEqual(Array(4).fill(["main", [1, 2]]));
});

test("models and accelerators move under load: nothing is lost or refused, and each runs only where it belongs", () => {
  const stage = new Stage();
  const { cluster } = stage;
  cluster.place({ a: "main", b: "main" }, ["main", "main", "main", "main"]);
  cluster.run(seconds(2));
  const asked = stage.load(millis(200));
  cluster.place({ a: "main", b: "main" }, ["main", "main", "s1", "s1"]);
  asked.push(...stage.load(millis(800)));
  expect([stage.where(0), stage.where(2), stage.has(2)]).toEqual(["main", "s1", []]);
  cluster.place({ a: "main", b: "main>s1" }, ["main", "main", "s1", "s1"]);
  asked.push(...stage.load(millis(300)));
  expect([stage.has(2), stage.has(3)]).toEqual([[2], [2]]);
  stage.forget();
  cluster.place({ a: "main", b: "s1" }, ["main", "main", "s1", "s1"]);
  asked.push(...stage.load(millis(20)));
  stage.forget();
  asked.push(...stage.load(millis(1_500)));
  expect([stage.strayed(1, [0, 1]), stage.strayed(2, [2, 3])]).toEqual([[], []]);
  expect([stage.has(0), stage.has(1)]).toEqual([[1], [1]]);
  // The model moves back, and an accelerator moves to a model that comes back.
  cluster.place({ a: "main", b: "s1>main" }, ["main", "main", "s1", "s1"]);
  asked.push(...stage.load(millis(300)));
  cluster.place({ a: "main", b: "main" }, ["main", "main", "s1", "s1"]);
  asked.push(...stage.load(millis(100)));
  cluster.place({ a: "main", b: "main" }, ["main", "main", "main", "main"]);
  asked.push(...stage.load(millis(800)));
  stage.forget();
  asked.push(...stage.load(millis(300)));
  cluster.run(millis(100));
  expect([...stage.has(0), ...stage.has(3)]).toEqual([1, 2, 1, 2]);
  expect(stage.ranOn(2).some((gpu) => gpu < 2)).toBe(true);
  expect(statuses(asked)).toEqual(["ok"]);
  expect(asked.length).toBeGreaterThan(2_000);
});

test("what is in no placement waits: a model is not loaded, an accelerator is not granted and tells what it has; placed, they serve", () => {
  const stage = new Stage();
  const { cluster } = stage;
  cluster.place({ a: "main" }, ["main", "main", undefined, undefined]);
  cluster.run(seconds(2));
  stage.forget();
  const first = stage.load(millis(200), { models: ["a"] });
  const unplaced = cluster.ask("b");
  cluster.run(millis(100));
  expect(statuses(first)).toEqual(["ok"]);
  expect(unplaced.outcomes.map(({ status }) => status)).toEqual(["TUTTI_NOT_READY"]);
  expect([stage.has(0), stage.has(2), stage.strayed(1, [0, 1])]).toEqual([[1], [], []]);
  cluster.place({ a: "main", b: "s1" }, ["main", "main", "s1", "main"]);
  cluster.run(seconds(2));
  stage.forget();
  const asked = stage.load(millis(300));
  cluster.run(millis(100));
  expect(statuses(asked)).toEqual(["ok"]);
  expect([stage.has(0), stage.has(2), stage.has(3)]).toEqual([[1], [2], [1]]);
  expect([stage.strayed(1, [0, 1, 3]), stage.ranOn(2)]).toEqual([[], [2]]);
});

test("a model is ready when the executors of its sub-cluster have it, whoever else there is", () => {
  const stage = new Stage({ models: [A] });
  const { cluster } = stage;
  cluster.place({ a: "main" }, ["main", "main", "s1", "s1"]);
  cluster.run(seconds(2));
  cluster.addModel(B);
  cluster.place({ a: "main", b: "s1" }, ["main", "main", "s1", "s1"]);
  cluster.run(seconds(2));
  const asked = stage.load(millis(200));
  cluster.run(millis(100));
  expect(statuses(asked)).toEqual(["ok"]);
  expect([0, 1, 2, 3].map((gpu) => stage.has(gpu))).toEqual([[1], [1], [2], [2]]);
});

test("while nobody leads the sub-cluster that an accelerator and a model go to, the others serve on; its next leader serves them", () => {
  const stage = new Stage({ rankers: 2 });
  const { cluster } = stage;
  cluster.place({ a: "main", b: "main>s1" }, ["main", "main", "s1", "s1"]);
  cluster.run(seconds(2));
  const asked = stage.load(millis(100));
  cluster.run(millis(100));
  // Both rankers of the target sub-cluster are gone when the model is told to move.
  cluster.kill("ranker-s1-0");
  cluster.kill("ranker-s1-1");
  cluster.place({ a: "main", b: "s1" }, ["main", "main", "s1", "s1"]);
  asked.push(...stage.load(millis(300), { models: ["a"] }));
  const without = cluster.ask("b", { sloMs: 60 });
  asked.push(...stage.load(millis(200), { models: ["a"] }));
  cluster.startRanker("ranker-s1-2", "s1");
  asked.push(...stage.load(millis(500), { models: ["a"] }));
  asked.push(...stage.load(millis(300)));
  cluster.run(millis(100));
  expect(statuses(asked)).toEqual(["ok"]);
  expect(without.outcomes).toHaveLength(1);
  expect(without.outcomes[0]!.status).not.toBe("ok");
});

test("a leader that dies while an accelerator and a model go to it is replaced by its spare, and nothing is lost or refused", () => {
  const stage = new Stage();
  const { cluster } = stage;
  cluster.place({ a: "main", b: "main>s1" }, ["main", "main", "s1", "s1"]);
  cluster.run(seconds(2));
  const asked = stage.load(millis(100), { sloMs: 150 });
  cluster.place({ a: "main", b: "s1" }, ["main", "s1", "s1", "s1"]);
  cluster.run(micros50);
  cluster.kill("ranker-s1-0");
  asked.push(...stage.load(millis(1_000), { sloMs: 150 }));
  cluster.run(millis(200));
  expect(statuses(asked)).toEqual(["ok"]);
});
const micros50 = 50 as Micros;

const MB = 1_000_000;
const LARGE = [
  { ...A, memory: 60 * MB },
  { ...B, memory: 50 * MB },
] as unknown as (typeof A & { memory?: number })[];

test("what does not fit into an accelerator's memory is not loaded, and the report names both figures; the others are served", () => {
  const stage = new Stage({ gpus: 1, memoryBytesMax: 100 * MB, models: LARGE });
  stage.cluster.run(seconds(2));
  const asked = stage.load(millis(200), { models: ["a"] });
  const refused = stage.cluster.ask("b");
  stage.cluster.run(millis(100));
  expect(statuses(asked)).toEqual(["ok"]);
  expect(stage.has(0)).toEqual([1]);
  expect(stage.inventories.get(gpuId(0))).toMatchObject({ memoryBytes: 60 * MB, memoryBytesMax: 100 * MB });
  expect(stage.reports.find(({ state }) => state === "failed")?.reason).toMatch(
    /take 50 MB, and of the 100 MB .* 40 MB/,
  );
  expect(refused.outcomes.map(({ status, text }) => [status, text.includes("50 MB")])).toEqual([
    ["TUTTI_NOT_READY", true],
  ]);
});

test("a model that did not fit before the first placement is tried again where that leaves it room, wherever it is placed", () => {
  const stage = new Stage({ gpus: 2, memoryBytesMax: 100 * MB, models: LARGE });
  stage.cluster.run(seconds(2));
  const before = stage.cluster.ask("b");
  stage.cluster.place({ a: "s1", b: "main" }, ["main", "s1"]);
  stage.cluster.run(seconds(3));
  const asked = stage.load(millis(200));
  stage.cluster.run(millis(100));
  expect(statuses([before])).toEqual(["TUTTI_NOT_READY"]);
  expect(statuses(asked)).toEqual(["ok"]);
});

test("an accelerator that can't hold what it serves and what it will serve leaves first, unloads, loads, and joins the other", () => {
  const stage = new Stage({ gpus: 3, memoryBytesMax: 100 * MB, models: LARGE });
  const { cluster } = stage;
  cluster.place({ a: "main", b: "s1" }, ["main", "main", "s1"]);
  cluster.run(seconds(2));
  const asked = stage.load(millis(200));
  cluster.place({ a: "main", b: "s1" }, ["main", "s1", "s1"]);
  asked.push(...stage.load(seconds(1)));
  expect([stage.where(1), stage.has(1)]).toEqual(["s1", [2]]);
  stage.forget();
  asked.push(...stage.load(millis(300)));
  cluster.run(millis(100));
  expect([stage.ranOn(1), stage.strayed(2, [1, 2])]).toEqual([[0], []]);
  expect(stage.ranOn(2)).toContain(1);
  expect(statuses(asked)).toEqual(["ok"]);
  expect(stage.reports.filter(({ state }) => state === "failed")).toEqual([]);
});
