import { BUCKET, PLACEMENT_KEY, type Placement } from "@tutti/protocol";
import { InMemoryStore } from "@tutti/ports/store";
import { type Logger, noTelemetry } from "@tutti/ports/telemetry";
import { gpuId, instant } from "@tutti/units";
import { toJson } from "@tutti/wire";
import { beforeEach, expect, test } from "vitest";
import { PlacementWatcher } from "./placement-watcher.ts";

let store: InMemoryStore;
let warnings: string[];
let changes: number;
let watcher: PlacementWatcher;

beforeEach(() => {
  store = new InMemoryStore({ deliver: (run) => run() });
  warnings = [];
  changes = 0;
  const log: Logger = { ...noTelemetry.log, warn: (_, text) => void warnings.push(text ?? "") };
  watcher = new PlacementWatcher(store, log, () => changes++);
});
const write = (value: unknown): void => store.put(BUCKET.plan, PLACEMENT_KEY, toJson(value), () => undefined);
const placement = (epoch: number, changed: Partial<Placement> = {}): Placement => ({
  ...{ epoch, madeAt: instant(1) },
  models: [
    { number: 1, subCluster: "main" },
    { number: 2, subCluster: "main", next: "s1" },
  ],
  gpus: [
    { gpu: gpuId(0), subCluster: "main" },
    { gpu: gpuId(4), subCluster: "s1" },
  ],
  ...changed,
});

test("as long as nobody has planned everything belongs to the default, and an executor to what it was started for", () => {
  let ready = 0;
  watcher.open(() => ready++);
  expect(ready).toBe(1);
  expect([watcher.subClusterOf(7), watcher.nextOf(7), watcher.placement]).toEqual(["main", undefined, undefined]);
  expect(watcher.subClusterOfExecutor([gpuId(3)])).toBe("main");
  expect(watcher.subClusterOfExecutor([gpuId(3)], "s1")).toBe("s1");
  expect([watcher.belongs(7, "main"), watcher.belongs(7, "s1"), watcher.belongs(7, undefined)]).toEqual([
    true,
    false,
    false,
  ]);
});

test("with a placement, what isn't in it waits; a model that moves belongs to both; an executor is where its least accelerator is", () => {
  write(placement(1));
  watcher.open(() => undefined);
  expect(changes).toBe(0);
  expect([1, 2, 3].map((number) => watcher.subClusterOf(number))).toEqual(["main", "main", undefined]);
  expect(watcher.nextOf(2)).toBe("s1");
  expect(["main", "s1", "s2"].map((name) => watcher.belongs(2, name))).toEqual([true, true, false]);
  expect(["main", "s1"].map((name) => watcher.belongs(3, name))).toEqual([false, false]);
  expect(watcher.subClusterOfExecutor([gpuId(9), gpuId(4)])).toBe("s1");
  expect(watcher.subClusterOfExecutor([gpuId(4), gpuId(0)], "s9")).toBe("main");
  expect(watcher.subClusterOfExecutor([gpuId(1)])).toBeUndefined();
});

test("an entry that can't be read is reported once and ignored, and so is an older one; a newer one counts (T8)", () => {
  watcher.open(() => undefined);
  write(placement(5));
  write({ epoch: 6, models: "all" });
  store.put(BUCKET.plan, PLACEMENT_KEY, Uint8Array.of(7, 1), () => undefined);
  write(placement(4, { models: [] }));
  expect(warnings).toHaveLength(2);
  expect([changes, watcher.placement?.epoch, watcher.subClusterOf(1)]).toEqual([1, 5, "main"]);
  write(placement(5, { models: [] }));
  expect([warnings.length, watcher.subClusterOf(1)]).toEqual([2, "main"]);
  write(placement(6, { models: [] }));
  expect([changes, watcher.subClusterOf(1)]).toEqual([2, undefined]);
});

test("other keys of the bucket say nothing, and one that was deleted is as if nobody had planned", () => {
  watcher.open(() => undefined);
  store.put(BUCKET.plan, "placement-of-another", toJson(placement(1, { models: [] })), () => undefined);
  expect(changes).toBe(0);
  write(placement(3, { models: [] }));
  expect(watcher.subClusterOf(1)).toBeUndefined();
  store.delete(BUCKET.plan, PLACEMENT_KEY, () => undefined);
  expect([changes, watcher.subClusterOf(1)]).toEqual([2, "main"]);
  write(placement(1));
  expect(watcher.nextOf(2)).toBe("s1");
});

test("a parked model is served nowhere, and one that wakes belongs only where it is loaded (PL6)", () => {
  const since = instant(1);
  write(
    placement(1, {
      parked: [
        { number: 1, since },
        { number: 7, since },
        { number: 8, since, next: "s1" },
      ],
    }),
  );
  watcher.open(() => undefined);
  expect([1, 2, 7, 8, 9].map((number) => watcher.isParked(number))).toEqual([true, false, true, true, false]);
  expect(watcher.parked).toBe(3);
  // It is about to leave, and is served until then.
  expect(watcher.subClusterOf(1)).toBe("main");
  expect([7, 8].map((number) => watcher.subClusterOf(number))).toEqual([undefined, undefined]);
  expect(["main", "s1"].map((name) => watcher.belongs(7, name))).toEqual([false, false]);
  expect(["main", "s1"].map((name) => watcher.belongs(8, name))).toEqual([false, true]);
  write(placement(2));
  expect([watcher.isParked(1), watcher.parked]).toEqual([false, 0]);
});
