import { type GpuId, type Instant, type Micros, gpuId, instant, seconds } from "@tutti/units";
import fc from "fast-check";
import { expect, test } from "vitest";
import {
  LEAVES_AFTER,
  type ModelToPark,
  type ParkingPlaces,
  isSameParking,
  loadWaking,
  parkModels,
} from "./parking.ts";
import type { ExecutorToPlace } from "./placement-problem.ts";
import { planPlacement } from "./plan-placement.ts";

const at = (s: number): Instant => instant(1_000e6 + s * 1e6);
const IDLE = seconds(10);
const model = (number: number, usedAt: Instant): ModelToPark => ({ number, idle: IDLE, usedAt });
const GPUS: ParkingPlaces["gpus"] = [{ gpu: gpuId(0), subCluster: "main" }];
const served = (...numbers: number[]): ParkingPlaces => ({
  models: numbers.map((number) => ({ number, subCluster: "main" })),
  gpus: GPUS,
});
const executor = (loaded: readonly number[], gpu = 0, subCluster = "main"): ExecutorToPlace => ({
  ...{ key: gpu + 1, gpus: [gpuId(gpu)], memoryBytesMax: Infinity, subCluster, loaded: new Set(loaded) },
});

test("a model is marked when it has been idle for long enough, and leaves two seconds later (PARK-1)", () => {
  const models = [model(1, at(0)), model(2, at(5))];
  expect(parkModels(served(1, 2), models, at(9.9)).parked).toEqual([]);
  const marked = parkModels(served(1, 2), models, at(10));
  expect([marked.parked, [...marked.unplaced]]).toEqual([[{ number: 1, since: at(10) }], []]);
  expect(marked.before).toEqual(served(1, 2));
  const before = { ...served(1, 2), parked: marked.parked };
  expect([...parkModels(before, models, at(11.9)).unplaced]).toEqual([]);
  const left = parkModels(before, models, at(10 + LEAVES_AFTER / 1e6));
  expect([left.parked, [...left.unplaced]]).toEqual([[{ number: 1, since: at(10) }], [1]]);
  expect(left.before).toEqual(served(2));
});

test("a request for a marked model, and the end of its option, take the mark away (PARK-1)", () => {
  const before = { ...served(1), parked: [{ number: 1, since: at(10) }] };
  expect(parkModels(before, [model(1, at(11))], at(12)).parked).toEqual([]);
  expect(parkModels(before, [], at(12))).toMatchObject({ parked: [], before: served(1) });
  // A parked one without the option is placed like a new one.
  const gone = parkModels({ ...before, models: [] }, [], at(20));
  expect([gone.parked, gone.unplaced.size, gone.waking.size]).toEqual([[], 0, 0]);
});

test("a model that moves is not marked, and without a placement nothing is", () => {
  const before = { models: [{ number: 1, subCluster: "main", next: "b" }], gpus: GPUS };
  expect(parkModels(before, [model(1, at(0))], at(60)).parked).toEqual([]);
  expect(parkModels(undefined, [model(1, at(0))], at(60))).toMatchObject({ parked: [], before: undefined });
});

test("a parked model that is asked for wakes, is loaded where it is placed, and is served once one of them has it (PARK-2)", () => {
  const before = { ...served(2), parked: [{ number: 1, since: at(10) }] };
  expect([...parkModels(before, [model(1, at(10))], at(500)).unplaced]).toEqual([1]);
  const waking = parkModels(before, [model(1, at(500))], at(500.1));
  expect([[...waking.waking], [...waking.unplaced]]).toEqual([[1], []]);
  const plan = served(1, 2);
  const loading = loadWaking(plan, waking, [executor([2])]);
  expect(loading).toEqual({ ...served(2), parked: [{ number: 1, since: at(10), next: "main" }] });
  // It is planned from where it is loaded.
  const again = parkModels(loading, [model(1, at(500))], at(501));
  expect(again.before).toEqual({ models: [...served(2).models, ...served(1).models], gpus: GPUS });
  expect(loadWaking(plan, again, [executor([2]), executor([1, 2], 1)]).parked).toHaveLength(1); // 1 is placed nowhere
  const both = { ...plan, gpus: [...GPUS, { gpu: gpuId(1), subCluster: "main" }] };
  expect(loadWaking(both, again, [executor([2]), executor([2], 1)]).parked).toHaveLength(1);
  expect(loadWaking(both, again, [executor([1, 2]), executor([2], 1)])).toEqual({ ...both, parked: [] });
});

test("a model that nobody asks for while it is loaded is parked again, and one without room waits (PARK-3)", () => {
  const before = { ...served(2), parked: [{ number: 1, since: at(10), next: "main" }] };
  const given = parkModels(before, [model(1, at(500))], at(510));
  expect([given.parked, [...given.unplaced]]).toEqual([[{ number: 1, since: at(10) }], [1]]);
  const waking = parkModels(before, [model(1, at(500))], at(501));
  expect(loadWaking(served(2), waking, [executor([2])]).parked).toEqual([{ number: 1, since: at(10) }]);
});

test("parkings are the same in whatever order", () => {
  const [a, b] = [
    { number: 1, since: at(1) },
    { number: 2, since: at(2), next: "main" },
  ];
  expect(isSameParking([a, b], [b, a])).toBe(true);
  expect(isSameParking(undefined, [])).toBe(true);
  for (const other of [[a], [a, { number: 2, since: at(2) }], [a, { ...b, since: at(3) }], undefined])
    expect(isSameParking([a, b], other)).toBe(false);
});

test("whatever is asked for and loaded when, each model is served, parked or both; it leaves only unused, and comes back when it is used", () => {
  const step = fc.record({
    seconds: fc.constantFrom(0.1, 1, 3, 12),
    used: fc.subarray([1, 2, 3]),
    loads: fc.boolean(),
  });
  fc.assert(
    fc.property(fc.array(step, { maxLength: 40 }), (steps) => {
      let places: ParkingPlaces = served(1, 2, 3);
      let loaded: readonly number[] = [1, 2, 3];
      let now = at(0);
      const usedAt = new Map<number, Instant>([1, 2, 3].map((number) => [number, now]));
      const tick = (used: readonly number[], duration: number, loads: boolean): void => {
        now = (now + duration * 1e6) as Instant;
        for (const number of used) usedAt.set(number, now);
        const models = [...usedAt].map(([number, used]) => model(number, used));
        const parking = parkModels(places, models, now);
        const executors = [executor(loaded)];
        const plan = planPlacement({
          subClusters: ["main"],
          models: [1, 2, 3]
            .filter((number) => !parking.unplaced.has(number))
            .map((number) => ({ number, name: `m${number}`, rate: 1, work: 0.1, memoryBytes: 1, isPinned: true })),
          ...{ executors, before: parking.before, awaited: new Set<GpuId>(), costMax: 10, mayBalance: true, seed: 1 },
        });
        const next = loadWaking(plan, parking, executors);
        for (const number of [1, 2, 3]) {
          const isServed = next.models.some((one) => one.number === number);
          const mark = next.parked.find((one) => one.number === number);
          expect(isServed || mark !== undefined).toBe(true);
          if (isServed) expect(mark?.next).toBeUndefined();
          const unusedFor = (now - usedAt.get(number)!) as Micros;
          const wasServed = places.models.some((one) => one.number === number);
          if (wasServed && !isServed) expect(unusedFor).toBeGreaterThanOrEqual(IDLE);
          if (!wasServed && isServed) expect(loaded).toContain(number);
        }
        places = next;
        const wanted = [...next.models, ...next.parked.filter((mark) => mark.next === "main")];
        if (loads) loaded = wanted.map(({ number }) => number);
      };
      for (const { used, seconds: duration, loads } of steps) tick(used, duration, loads);
      for (let i = 0; i < 3; i++) tick([1, 2, 3], 0.1, true);
      expect(places.models).toHaveLength(3);
    }),
  );
});
