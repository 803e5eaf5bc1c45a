import { BUCKET, PLACEMENT_KEY, type Placement, type PlanReport, REPORT_KEY } from "@tutti/protocol";
import { InMemoryStore } from "@tutti/ports/store";
import { gpuId, instant } from "@tutti/units";
import { expect, test } from "vitest";
import { PlanWatch, isSpareIn } from "./plan-watch.ts";

const placementOf = (gpus: readonly string[], models: Placement["models"]): Placement => ({
  ...{ epoch: 1, madeAt: instant(1), models },
  gpus: gpus.map((subCluster, gpu) => ({ gpu: gpuId(gpu), subCluster })),
});
const reportOf = (obeyed: readonly string[]): PlanReport => ({
  ...{ at: instant(1), epoch: 1, subClusters: [], models: [], waiting: [], leftOut: [], reasons: [] },
  executors: obeyed.map((subCluster, gpu) => ({ gpus: [gpuId(gpu)], subCluster, memoryBytes: 0, models: 0 })),
  advice: { gpus: obeyed.length, advice: 0, badRate: 0, idleShare: 0 },
});
const inMain = { number: 1, subCluster: "main" };
const goesToB = { number: 2, subCluster: "main", next: "b" };

test("the last executor of a sub-cluster with models isn't spare, the last one of an empty sub-cluster is", () => {
  const placement = placementOf(["main", "main", "b"], [inMain]);
  const report = reportOf(["main", "main", "b"]);
  expect(isSpareIn({ placement, report }, [2], [[0], [1]])).toBe(true);
  expect(isSpareIn({ placement, report }, [1], [[0], [2]])).toBe(true);
  expect(isSpareIn({ placement, report }, [1], [[2]])).toBe(false);
});

test("a model that is on its way counts where it goes", () => {
  const placement = placementOf(["main", "main", "b"], [inMain, goesToB]);
  expect(isSpareIn({ placement, report: reportOf(["main", "main", "b"]) }, [2], [[0], [1]])).toBe(false);
});

test("a parked model counts where it is being loaded, and nowhere while nobody asks for it", () => {
  const report = reportOf(["main", "main", "b"]);
  const placement = placementOf(["main", "main", "b"], [inMain]);
  const parked = { number: 2, since: instant(1) };
  expect(isSpareIn({ placement: { ...placement, parked: [parked] }, report }, [2], [[0], [1]])).toBe(true);
  const waking = { ...placement, parked: [{ ...parked, next: "b" }] };
  expect(isSpareIn({ placement: waking, report }, [2], [[0], [1]])).toBe(false);
});

test("another one that is still on its way there, or leaves, serves nobody there", () => {
  const models = [inMain, { number: 2, subCluster: "b" }];
  const [arriving, leaving] = [placementOf(["main", "b", "b"], models), placementOf(["main", "main", "b"], models)];
  expect(isSpareIn({ placement: arriving, report: reportOf(["main", "main", "b"]) }, [2], [[0], [1]])).toBe(false);
  expect(isSpareIn({ placement: arriving, report: reportOf(["main", "b", "b"]) }, [2], [[0], [1]])).toBe(true);
  expect(isSpareIn({ placement: leaving, report: reportOf(["main", "b", "b"]) }, [2], [[0], [1]])).toBe(false);
});

test("one that is on its way is spare only where both sides have another one", () => {
  const models = [inMain, { number: 2, subCluster: "b" }];
  const placement = placementOf(["main", "b", "b"], models);
  const report = reportOf(["main", "main", "b"]);
  expect(isSpareIn({ placement, report }, [1], [[0], [2]])).toBe(true);
  expect(isSpareIn({ placement, report }, [1], [[2]])).toBe(false);
});

test("before anybody has planned any other one will do, and what an executor drives goes together", () => {
  expect(isSpareIn({ placement: undefined, report: undefined }, [1], [[0]])).toBe(true);
  expect(isSpareIn({ placement: undefined, report: undefined }, [1], [])).toBe(false);
  const placement = placementOf(["main", "main", "b", "b"], [inMain, { number: 2, subCluster: "b" }]);
  expect(isSpareIn({ placement, report: undefined }, [2, 3], [[0, 1]])).toBe(false);
});

test("what stands in the store is followed, and what can't be read changes nothing", () => {
  const later: (() => void)[] = [];
  const store = new InMemoryStore({ deliver: (run) => void later.push(run) });
  const bytes = (value: unknown): Uint8Array => new TextEncoder().encode(JSON.stringify(value));
  const write = (key: string, value: Uint8Array): void => {
    store.put(BUCKET.plan, key, value, () => undefined);
    for (let run = later.shift(); run !== undefined; run = later.shift()) run();
  };
  const watch = new PlanWatch(store);
  write(PLACEMENT_KEY, bytes(placementOf(["main", "b"], [inMain, { number: 2, subCluster: "b" }])));
  write(REPORT_KEY, bytes(reportOf(["main", "b"])));
  expect(watch.isSpare([1], [[0]])).toBe(false);
  for (const bad of [new Uint8Array([0xff]), bytes(null), bytes({ epoch: 2 })]) {
    write(PLACEMENT_KEY, bad);
    write(REPORT_KEY, bad);
  }
  expect(watch.isSpare([1], [[0]])).toBe(false);
  write(PLACEMENT_KEY, bytes(placementOf(["main", "main"], [inMain])));
  write(REPORT_KEY, bytes(reportOf(["main", "main"])));
  expect(watch.isSpare([1], [[0]])).toBe(true);
  watch.stop();
});
