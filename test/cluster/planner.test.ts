/** The planner decides, and production's other actors follow, while requests arrive: in virtual time. */
import {
  BUCKET,
  PLACEMENT_KEY,
  type Placement,
  type PlanReport,
  REPORT_KEY,
  isPlacement,
  isPlanReport,
} from "@tutti/protocol";
import { type Micros, Prng, gpuId, millis, seconds } from "@tutti/units";
import { fromJson } from "@tutti/wire";
import { expect, test } from "vitest";
import { VirtualCluster } from "./virtual-cluster.ts";
import type { Asked, VirtualClusterOptions } from "./virtual-cluster-options.ts";

const EPOCH = seconds(6);
/** l(b) = b + 4 ms; SLO 60 ms. */
const SHAPE = { alphaMs: 1, betaMs: 4, sloMs: 60, batchSizeMax: 8 } as const;

class Planned {
  readonly cluster: VirtualCluster;
  readonly placements: Placement[] = [];
  readonly models: string[] = [];
  readonly asked: Asked[] = [];
  #planners = 0;
  #report: PlanReport | undefined;

  constructor(options: VirtualClusterOptions & { readonly models?: number; readonly memory?: number } = {}) {
    const gpus = options.gpus ?? 4;
    this.cluster = new VirtualCluster({ gpus, executors: gpus, subClusters: ["main", "s1"], ...options });
    this.cluster.store.watch(BUCKET.plan, "", {
      onEntry: ({ key, value }) => {
        const read: unknown = fromJson(value);
        if (key === PLACEMENT_KEY && isPlacement(read)) this.placements.push(read);
        if (key === REPORT_KEY && isPlanReport(read)) this.#report = read;
      },
      onDelete: () => undefined,
      onReady: () => undefined,
      onFailure: () => undefined,
    });
    for (let i = 0; i < (options.models ?? 4); i++) this.addModel(options.memory);
  }

  addModel(memory?: number): void {
    const name = `m${this.models.length + 1}`;
    this.models.push(name);
    this.cluster.addModel({ ...SHAPE, name, ...(memory !== undefined && { memory }) });
  }
  /** @param least - sub-clusters that are used whatever they cost. Default: all that have a ranker */
  startPlanner(least = 9): string {
    const name = `planner-${this.#planners++}`;
    this.cluster.startPlanner(name, { epoch: EPOCH, subClustersMin: least });
    return name;
  }
  /** The planner's last report. */
  get report(): PlanReport | undefined {
    return this.#report;
  }
  get placement(): Placement | undefined {
    return this.placements.at(-1);
  }
  /** `main`, or `main>s1` while it moves, in the order of the models. */
  get places(): string[] {
    return (this.placement?.models ?? []).map(({ subCluster, next }) => (next ? `${subCluster}>${next}` : subCluster));
  }
  gpus(subCluster: string): number {
    return (this.placement?.gpus ?? []).filter((placed) => placed.subCluster === subCluster).length;
  }

  /** Requests of each model at a rate per second, evenly and one model after the other. */
  load(duration: Micros, perSecond: number, models: readonly string[] = this.models): Asked[] {
    const first = this.asked.length;
    const every = millis(1_000 / perSecond / models.length);
    for (let at = 0, i = 0; at < duration; at += every, i++) {
      this.asked.push(this.cluster.ask(models[i % models.length]!, { sloMs: SHAPE.sloMs }));
      this.cluster.run(every);
    }
    return this.asked.slice(first);
  }
}

const statuses = (asked: readonly Asked[]): string[] => [
  ...new Set(asked.map(({ outcomes }) => outcomes.map(({ status }) => status).join("+"))),
];

test("models and accelerators spread over sub-clusters under load, and no request is lost or refused", () => {
  const planned = new Planned();
  planned.cluster.run(seconds(2));
  planned.startPlanner();
  const asked = planned.load(seconds(20), 30);
  planned.cluster.run(millis(200));
  expect(planned.places.toSorted()).toEqual(["main", "main", "s1", "s1"]);
  expect([planned.gpus("main"), planned.gpus("s1")]).toEqual([2, 2]);
  expect(statuses(asked)).toEqual(["ok"]);
  // At rest no placement is written.
  const { length } = planned.placements;
  planned.load(seconds(13), 30);
  expect(planned.placements).toHaveLength(length);
});

test("a planner that is killed in the middle of a move loses nothing, and its successor makes an end of it", () => {
  const planned = new Planned();
  planned.cluster.run(seconds(2));
  const first = planned.startPlanner();
  const asked: Asked[] = [];
  while (!planned.places.some((place) => place.includes(">"))) asked.push(...planned.load(millis(100), 30));
  planned.cluster.kill(first);
  asked.push(...planned.load(seconds(5), 30));
  expect(planned.places.some((place) => place.includes(">"))).toBe(true);
  planned.startPlanner();
  asked.push(...planned.load(seconds(20), 30));
  planned.cluster.run(millis(200));
  expect(planned.places.toSorted()).toEqual(["main", "main", "s1", "s1"]);
  expect(statuses(asked)).toEqual(["ok"]);
});

test("a model and an executor that come are served and granted within a second, placed at once", () => {
  const planned = new Planned({ models: 1, subClusters: ["main"], gpus: 1 });
  planned.startPlanner();
  planned.cluster.run(seconds(4));
  planned.addModel();
  planned.cluster.startExecutor("executor-late", [gpuId(7)]);
  planned.cluster.run(seconds(1));
  expect([planned.places, planned.gpus("main")]).toEqual([["main", "main"], 2]);
  const asked = planned.load(millis(500), 20, ["m2"]);
  planned.cluster.run(millis(200));
  expect(statuses(asked)).toEqual(["ok"]);
});

test("models that don't fit into one memory together are served by sub-clusters, and what fits nowhere waits until it does", () => {
  const planned = new Planned({ models: 2, memory: 3e9, memoryBytesMax: 4e9, gpus: 2 });
  planned.startPlanner();
  planned.cluster.run(seconds(6));
  expect(planned.places.toSorted()).toEqual(["main", "s1"]);
  const asked = planned.load(seconds(2), 20);
  planned.addModel(3e9);
  planned.cluster.run(seconds(2));
  expect(planned.places).toHaveLength(2);
  planned.cluster.startRanker("ranker-s2", "s2");
  planned.cluster.startExecutor("executor-late", [gpuId(7)]);
  asked.push(...planned.load(seconds(8), 20, ["m1", "m2"]));
  expect(planned.places.toSorted()).toEqual(["main", "s1", "s2"]);
  asked.push(...planned.load(seconds(1), 20));
  planned.cluster.run(millis(200));
  expect(statuses(asked)).toEqual(["ok"]);
});

test("a sub-cluster whose last executor dies is given another, and its models are served again", () => {
  const planned = new Planned();
  planned.cluster.run(seconds(2));
  planned.startPlanner();
  planned.load(seconds(20), 50);
  for (const { gpu, subCluster } of planned.placement!.gpus)
    if (subCluster === "s1") planned.cluster.kill(`executor-${gpu}`);
  planned.load(seconds(6), 50);
  const asked = planned.load(seconds(4), 50);
  planned.cluster.run(millis(200));
  expect(statuses(asked)).toEqual(["ok"]);
});

test.each([1, 2])(
  "whoever dies and comes back, each request is answered once, and in the end all is served again (seed %i)",
  (seed) => {
    const prng = new Prng(seed);
    const planned = new Planned({ seed });
    let planner = planned.startPlanner();
    planned.cluster.run(seconds(3));
    for (let round = 0; round < 8; round++) {
      const victim = prng.nextInt(4);
      const what = prng.nextInt(4);
      if (what === 0) {
        planned.cluster.kill(planner);
        planned.load(millis(prng.nextInt(3_000)), 25);
        planner = planned.startPlanner();
      } else if (what === 1) {
        planned.cluster.kill(`executor-${victim}`);
        planned.load(millis(500 + prng.nextInt(2_000)), 25);
        planned.cluster.startExecutor(`executor-${victim}`, [gpuId(victim)]);
      } else if (what === 2) {
        const name = prng.nextInt(2) === 0 ? "ranker-0" : "ranker-s1-0";
        planned.cluster.kill(name);
        planned.load(millis(500), 25);
        planned.cluster.startRanker(name, name === "ranker-0" ? "main" : "s1");
      } else planned.cluster.drain(`executor-${victim}`);
      planned.load(millis(prng.nextInt(2_000)), 25, planned.models.slice(0, 1 + prng.nextInt(4)));
      if (what === 3) planned.cluster.startExecutor(`executor-${victim}`, [gpuId(victim)]);
    }
    planned.load(seconds(8), 25);
    planned.cluster.run(seconds(1));
    expect(planned.asked.filter(({ outcomes }) => outcomes.length !== 1)).toEqual([]);
    const asked = planned.load(seconds(2), 25);
    planned.cluster.run(millis(200));
    expect(statuses(asked)).toEqual(["ok"]);
  },
);

test("a division that costs more than a tenth is refused; a busy ranker is divided all the same, and reunited when it is calm, without a loss", () => {
  let busy = 0.1;
  const rankerBusy = (name: string): number => (name.startsWith("ranker-s1") ? 0.02 : busy);
  const planned = new Planned({ rankerBusy, models: 3, gpus: 2 });
  planned.cluster.run(seconds(2));
  planned.startPlanner(1);
  const asked = planned.load(seconds(25), 50);
  expect([planned.places, planned.gpus("main")]).toEqual([["main", "main", "main"], 2]);
  expect(planned.report!.division).toMatchObject({ asked: 2, used: 1, needed: 1, because: "costly" });
  busy = 0.8;
  asked.push(...planned.load(seconds(30), 50));
  expect(new Set(planned.places)).toEqual(new Set(["main", "s1"]));
  expect([planned.gpus("main"), planned.gpus("s1")]).toEqual([1, 1]);
  expect(planned.report!.division).toMatchObject({ asked: 2, used: 2, needed: 2, because: "rankers" });
  busy = 0.3;
  asked.push(...planned.load(seconds(40), 50));
  expect([planned.places, planned.gpus("main")]).toEqual([["main", "main", "main"], 2]);
  planned.cluster.run(millis(200));
  expect(statuses(asked)).toEqual(["ok"]);
});

test("models whose runs don't fit beside each other are placed apart once executors have measured them", () => {
  const runBytes = (): number => 1.6e9;
  const planned = new Planned({ models: 2, memory: 1e9, memoryBytesMax: 3e9, gpus: 2, runBytes });
  planned.startPlanner(1);
  planned.cluster.run(seconds(4));
  const asked = planned.load(seconds(30), 20);
  // Weights of 2 GB and a run of 1.6 GB: more than 3 GB.
  expect(planned.places.toSorted()).toEqual(["main", "s1"]);
  const { division, subClusters } = planned.report!;
  expect(division).toMatchObject({ asked: 2, used: 2, because: "memory" });
  for (const one of subClusters)
    expect(one).toMatchObject({ memoryBytes: 1e9, dynamicBytes: 1.6e9, memoryBytesMax: 3e9, binds: [] });
  const late = planned.load(seconds(5), 20);
  planned.cluster.run(millis(200));
  expect(statuses([...asked, ...late])).toEqual(["ok"]);
});
