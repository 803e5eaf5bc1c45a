/** Bounds of a live placement: R_max, and memory with what runs take besides (docs/algorithms.md, E1 and E5). */
import { type GpuId, Prng, gpuId } from "@tutti/units";
import fc from "fast-check";
import { expect, test } from "vitest";
import { bestAssignment } from "../sub-clusters/baselines.ts";
import { planPlacement } from "./plan-placement.ts";
import type { ExecutorToPlace, ModelToPlace, PlacementPlan, PlacementProblem } from "./placement-problem.ts";

const GB = 1e9;
const NAMES = ["main", "b", "c"];
const models = (rates: readonly number[], statics: readonly number[], dynamics: readonly number[]): ModelToPlace[] =>
  rates.map((rate, i) => ({
    ...{ number: i + 1, name: `m${i + 1}`, rate, work: rate / 100 },
    ...{ memoryBytes: statics[i]! * GB, dynamicBytes: dynamics[i]! * GB },
  }));
const executors = (count: number, memory: number, subClusters: number): ExecutorToPlace[] =>
  Array.from({ length: count }, (_, i) => {
    const subCluster = NAMES[i % subClusters]!;
    return { key: i + 1, gpus: [gpuId(i)], memoryBytesMax: memory * GB, subCluster, loaded: new Set<number>() };
  });
const placedAt = (homes: readonly number[], count: number, subClusters: number) => ({
  models: homes.map((home, i) => ({ number: i + 1, subCluster: NAMES[home]! })),
  gpus: Array.from({ length: count }, (_, i) => ({ gpu: gpuId(i), subCluster: NAMES[i % subClusters]! })),
});
const problem = (more: Partial<PlacementProblem>): PlacementProblem => ({
  ...{ subClusters: ["main", "b"], models: [], executors: [], before: undefined, awaited: new Set() },
  ...{ costMax: Infinity, mayBalance: true, seed: 1 },
  ...more,
});
const goals = (plan: PlacementPlan): string[] => plan.models.map(({ subCluster, next = subCluster }) => next);

/** E5: six models in {1, 2, 3 | 4, 5, 6}, whose second sub-cluster is asked for 150 r/s of at most 120. */
const worked = (costMax: number, memory = 15): PlacementProblem =>
  problem({
    models: models([10, 20, 30, 40, 50, 60], [4, 3, 2, 6, 5, 1], [1, 2, 3, 1, 2, 3]),
    executors: executors(2, memory, 2),
    before: placedAt([0, 0, 0, 1, 1, 1], 2, 2),
    ...{ costMax: costMax * GB, rateMax: 120 },
  });

test("E5 with live inputs: within 2 GB of moves model 6 goes, within 1 GB nothing can, and within 18 GB models 1 and 5 go", () => {
  expect(goals(planPlacement(worked(1)))).toEqual(["main", "main", "main", "b", "b", "b"]);
  expect(goals(planPlacement(worked(2)))).toEqual(["main", "main", "main", "b", "b", "main"]);
  // Both sides hold a model on its way: 19 GB. Within 15 GB the moves wait.
  expect(goals(planPlacement(worked(18, 19)))).toEqual(["b", "main", "main", "b", "main", "b"]);
  const waiting = planPlacement(worked(18));
  expect(waiting.waiting.map(({ number }) => number)).toEqual([1, 5]);
});

test("a rate above R_max is restored though loads are even enough, and a plan above it is not made", () => {
  const given = problem({
    models: models([55, 50, 45, 40], [0, 0, 0, 0], [0, 0, 0, 0]),
    executors: executors(2, Infinity, 2),
    before: placedAt([0, 0, 1, 1], 2, 2),
  });
  expect(planPlacement(given).modelMoves).toEqual([]);
  expect(goals(planPlacement({ ...given, rateMax: 100 }))).not.toEqual(["main", "main", "b", "b"]);
  // No plan keeps 90: loads are made as even as can be.
  expect(planPlacement({ ...given, rateMax: 90 }).loads.map(({ rate }) => rate)).toEqual([95, 95]);
});

test("sub-clusters have equal work, not equal rates, which R_max bounds all the same", () => {
  const unlike = models([100, 100, 10, 10], [1, 1, 1, 1], [0, 0, 0, 0]).map((one, i) => ({
    ...one,
    work: i < 2 ? 0.5 : 2,
  }));
  const given = problem({
    models: unlike,
    executors: executors(2, 9, 2),
    before: placedAt([0, 1, 0, 0], 2, 2),
  });
  const plan = planPlacement(given);
  expect(plan.loads.map(({ work }) => work)).toEqual([2.5, 2.5]);
  // Models 1 and 2 have no work yet: it is that of as many requests of the others.
  const unmeasured = unlike.map((one, i) => (i < 2 ? { ...one, work: 0 } : one));
  const before = placedAt([0, 0, 1, 1], 2, 2);
  const other = planPlacement({ ...given, models: unmeasured, before });
  expect(other.loads.map(({ rate }) => rate)).toEqual([110, 110]);
  // Even work puts models 1 and 2 together, which are asked for 160 times a second.
  const bounded = unlike.map((one, i) => ({ ...one, work: [1, 1, 2, 0][i]!, rate: [100, 60, 20, 20][i]! }));
  const even = { ...given, models: bounded, before: placedAt([0, 1, 1, 1], 2, 2) };
  expect(planPlacement(even).loads.map(({ work }) => work)).toEqual([2, 2]);
  expect(planPlacement({ ...even, rateMax: 150 }).loads.map(({ work }) => work)).not.toEqual([2, 2]);
});

test("what runs take besides counts once for each sub-cluster, for the model that takes most", () => {
  const plan = (dynamic: number): PlacementPlan =>
    planPlacement(
      problem({
        subClusters: ["main"],
        models: models([1, 1], [2, 2], [dynamic, dynamic]),
        executors: executors(1, 7, 1),
        before: placedAt([0], 1, 1),
      }),
    );
  expect(plan(3).leftOut).toEqual([]);
  expect(plan(3).loads[0]).toMatchObject({ memoryBytes: 4 * GB, dynamicBytes: 3 * GB });
  expect(plan(4).leftOut.map(({ number }) => number)).toEqual([2]);
  expect(plan(4).reasons.at(-1)!.text).toContain("it needs 2 GB and 4 GB while it runs");
});

test("models that run go on where their runs are found to take too much, and nothing is placed beside them", () => {
  const running = executors(1, 4, 1).map((one) => ({ ...one, loaded: new Set([1, 2]) }));
  const given = problem({
    models: models([10, 20, 1], [1, 2, 1], [3, 0, 0]),
    executors: [...running, ...executors(2, 4, 2).slice(1)],
    before: placedAt([0, 0], 2, 2),
    mayBalance: false,
  });
  const plan = planPlacement(given);
  expect([goals(plan), plan.gpus.map(({ subCluster }) => subCluster)]).toEqual([
    ["main", "main", "b"],
    ["main", "b"],
  ]);
  expect(planPlacement({ ...given, mayBalance: true }).modelMoves).toMatchObject([{ from: "main", to: "b" }]);
});

test("a move after which accelerators would carry less than is asked for is not made, and the plan says so", () => {
  const given = problem({
    models: models([100, 100, 10], [0, 0, 0], [0, 0, 0]),
    executors: executors(4, Infinity, 2),
    before: placedAt([0, 0, 1], 4, 2),
  });
  expect(planPlacement(given).modelMoves).toHaveLength(1);
  const carries = (numbers: readonly number[]): number => (numbers.includes(1) && numbers.includes(3) ? 0.5 : 10);
  const pinned = { ...given, models: given.models.map((one) => ({ ...one, isPinned: one.number !== 1 })), carries };
  const plan = planPlacement(pinned);
  expect(plan.modelMoves).toEqual([]);
  expect(plan.reasons[0]).toMatchObject({ about: "m1", text: expect.stringContaining("could not carry its requests") });
});

test("models leave a closing sub-cluster in two steps, its accelerators follow them, and the last one leaves when they have", () => {
  const closing = new Set(["b"]);
  const given = problem({
    models: models([10, 10], [1, 1], [0, 0]),
    executors: executors(4, 4, 2),
    before: placedAt([0, 1], 4, 2),
    closing,
  });
  const first = planPlacement(given);
  expect(first.models[1]).toEqual({ number: 2, subCluster: "b", next: "main" });
  expect(first.modelMoves).toMatchObject([{ number: 2, from: "b", to: "main", isForced: true }]);
  expect(first.gpus.some(({ subCluster }) => subCluster === "b")).toBe(true);
  // It has arrived, and nothing is left there.
  const loaded = given.executors.map((one) => ({ ...one, subCluster: "main", loaded: new Set([1, 2]) }));
  const second = planPlacement({ ...given, executors: loaded, before: first });
  expect(second.models).toEqual([1, 2].map((number) => ({ number, subCluster: "main" })));
  expect(second.gpus.every(({ subCluster }) => subCluster === "main")).toBe(true);
});

test("a model that has room only in a closing sub-cluster stays there, and one that comes is placed there", () => {
  const given = problem({
    models: models([10, 10, 10], [3, 3, 1], [0, 0, 0]),
    executors: executors(2, 4, 2),
    before: placedAt([0, 1], 2, 2),
    closing: new Set(["b"]),
  });
  const plan = planPlacement(given);
  expect([goals(plan), plan.leftOut]).toEqual([["main", "b", "main"], []]);
  const crowded = planPlacement({ ...given, models: models([10, 10, 10], [4, 3, 1], [0, 0, 0]) });
  expect([goals(crowded), crowded.leftOut]).toEqual([["main", "b", "b"], []]);
});

const drawn = fc.record({
  models: fc.array(
    fc.record({ rate: fc.integer({ min: 1, max: 60 }), home: fc.nat(2), dynamic: fc.nat(3), size: fc.nat(3) }),
    { minLength: 2, maxLength: 6 },
  ),
  subClusters: fc.integer({ min: 2, max: 3 }),
  rateMax: fc.integer({ min: 20, max: 160 }),
});

test("a plan never breaks R_max where one that keeps it exists, nor ever breaks memory", () => {
  let bound = 0;
  fc.assert(
    fc.property(drawn, ({ models: given, subClusters, rateMax }) => {
      const placed = models(
        given.map(({ rate }) => rate),
        given.map(({ size }) => size),
        given.map(({ dynamic }) => dynamic),
      );
      const homes = given.map(({ home }) => home % subClusters);
      const memory = 2 * placed.reduce((sum, one) => sum + one.memoryBytes, 0) + 3 * GB;
      const plan = planPlacement(
        problem({
          ...{ subClusters: NAMES.slice(0, subClusters), models: placed, rateMax },
          executors: executors(3, memory / GB, subClusters),
          before: placedAt(homes, 3, subClusters),
        }),
      );
      for (const { memoryBytes, dynamicBytes } of plan.loads)
        expect(memoryBytes + dynamicBytes).toBeLessThanOrEqual(memory);
      const offline = placed.map(({ rate }) => ({ rate, staticMemory: 0, dynamicMemory: 0 }));
      const best = bestAssignment({ models: offline, clusters: subClusters, rateMax, memoryMax: Infinity });
      if (best === undefined) return;
      bound++;
      for (const { rate } of plan.loads) expect(rate).toBeLessThanOrEqual(rateMax + 1e-6);
    }),
    { numRuns: 300 },
  );
  expect(bound).toBeGreaterThan(50);
});

test("with tight memory no executor ever holds more than it has, what its models' runs take included", () => {
  fc.assert(
    fc.property(
      drawn,
      fc.integer({ min: 3, max: 9 }),
      fc.boolean(),
      ({ models: given, subClusters }, memory, closes) => {
        const placed = models(
          given.map(({ rate }) => rate),
          given.map(({ size }) => size),
          given.map(({ dynamic }) => dynamic),
        );
        const cluster = problem({
          ...{ subClusters: NAMES.slice(0, subClusters), models: placed },
          ...(closes && { closing: new Set([NAMES[subClusters - 1]!]) }),
          executors: executors(3, memory, subClusters),
          before: placedAt([], 3, subClusters),
        });
        let plan = planPlacement(cluster);
        for (let round = 0; round < 4; round++) {
          const places = new Map(plan.gpus.map(({ gpu, subCluster }) => [gpu, subCluster]));
          for (const place of new Set(places.values())) {
            const held = plan.models.filter(({ subCluster, next }) => subCluster === place || next === place);
            const of = ({ number }: { number: number }): ModelToPlace => placed[number - 1]!;
            const statics = held.reduce((sum, one) => sum + of(one).memoryBytes, 0);
            const most = held.reduce((largest, one) => Math.max(largest, of(one).dynamicBytes!), 0);
            expect(statics + most).toBeLessThanOrEqual(memory * GB);
          }
          const loaded = (subCluster: string): Set<number> =>
            new Set(
              plan.models
                .filter((one) => one.subCluster === subCluster || one.next === subCluster)
                .map(({ number }) => number),
            );
          const followed = cluster.executors.map((one) => {
            const subCluster = places.get(one.gpus[0]!) ?? one.subCluster;
            return { ...one, subCluster, loaded: loaded(subCluster) };
          });
          plan = planPlacement({ ...cluster, executors: followed, before: plan });
        }
      },
    ),
    { numRuns: 300 },
  );
});

test("an executor whose runs take more than it has goes on with its models, but is given to no sub-cluster of as many", () => {
  // Together the models of main take 12 GB of 10: those of b, which take 11, must not count on its executors.
  const running = executors(3, 10, 3).map((one) => ({ ...one, subCluster: "main", loaded: new Set([1, 2]) }));
  const plan = planPlacement(
    problem({
      models: models([10, 20, 30], [4, 5, 11], [3, 0, 0]),
      executors: running,
      before: { models: placedAt([0, 0], 0, 1).models, gpus: running.map(({ gpus: [gpu] }) => at(gpu!, "main")) },
      mayBalance: false,
    }),
  );
  expect([goals(plan), plan.leftOut.map(({ number }) => number)]).toEqual([["main", "main"], [3]]);
  expect(plan.executorMoves).toEqual([]);
});
const at = (gpu: GpuId, subCluster: string) => ({ gpu, subCluster });

const state = fc.record({
  models: fc.array(
    fc.record({
      rate: fc.nat(60),
      size: fc.integer({ min: 1, max: 5 }),
      dynamic: fc.nat(4),
      home: fc.nat(3),
      next: fc.nat(5),
    }),
    { minLength: 1, maxLength: 7 },
  ),
  executors: fc.array(fc.record({ memory: fc.integer({ min: 3, max: 14 }), home: fc.nat(2) }), {
    minLength: 1,
    maxLength: 6,
  }),
  dead: fc.nat(3),
  mayBalance: fc.boolean(),
});

test("whatever stands, with executors of any sizes, one that gets a model which it hasn't loaded holds them all", () => {
  let over = 0;
  fc.assert(
    fc.property(state, (given) => {
      const all = models(
        given.models.map(({ rate }) => rate),
        given.models.map(({ size }) => size),
        given.models.map(({ dynamic }) => dynamic),
      );
      const before = given.models.flatMap(({ home, next }, i) => {
        const goes = next < 3 && next !== home ? { next: NAMES[next]! } : {};
        return home < 3 ? [{ number: i + 1, subCluster: NAMES[home]!, ...goes }] : [];
      });
      const present = given.executors.map(({ memory, home }, i): ExecutorToPlace => {
        const subCluster = NAMES[home]!;
        const loaded = new Set<number>();
        let left = memory * GB;
        for (const { number } of before.filter((one) => one.subCluster === subCluster)) {
          if (all[number - 1]!.memoryBytes > left) continue;
          left -= all[number - 1]!.memoryBytes;
          loaded.add(number);
        }
        return { key: i + 1, gpus: [gpuId(i)], memoryBytesMax: memory * GB, subCluster, loaded };
      });
      const plan = planPlacement(
        problem({
          ...{ subClusters: NAMES.filter((_, i) => i !== given.dead), models: all, executors: present },
          before: { models: before, gpus: present.map(({ gpus: [gpu], subCluster }) => at(gpu!, subCluster)) },
          ...{ costMax: 20 * GB, mayBalance: given.mayBalance },
        }),
      );
      for (const { gpu, subCluster: place } of plan.gpus) {
        const { memoryBytesMax, loaded } = present[gpu]!;
        const held = plan.models.filter(({ subCluster, next }) => subCluster === place || next === place);
        const statics = held.reduce((sum, { number }) => sum + all[number - 1]!.memoryBytes, 0);
        const most = held.reduce((largest, { number }) => Math.max(largest, all[number - 1]!.dynamicBytes!), 0);
        if (statics + most <= memoryBytesMax) continue;
        over++;
        expect(held.filter(({ number }) => !loaded.has(number))).toEqual([]);
      }
    }),
    { numRuns: 1_000 },
  );
  expect(over).toBeGreaterThan(50);
});

test("few requests that come at random move models seldom, and many that are uneven move them", () => {
  const prng = new Prng(1);
  const present = executors(6, Infinity, 3);
  const counted = (rate: number): number => {
    let [count, at] = [0, prng.nextExponential(1)];
    for (; at < 5 * rate; at += prng.nextExponential(1)) count++;
    return count / 5;
  };
  const movesAt = (rateOf: (model: number) => number): number => {
    let [before, moves]: [Pick<PlacementPlan, "models" | "gpus">, number] = [
      placedAt(Array.from({ length: 12 }, (_, i) => i % 3), 6, 3), // prettier-ignore
      0,
    ];
    for (let epoch = 0; epoch < 100; epoch++) {
      const drawn = models(
        before.models.map((_, i) => counted(rateOf(i))),
        before.models.map(() => 1),
        before.models.map(() => 0),
      );
      const loaded = (place: string) =>
        new Set(
          before.models.filter(({ subCluster, next }) => place === (next ?? subCluster)).map((one) => one.number),
        );
      const followed = present.map((one) => ({ ...one, loaded: loaded(one.subCluster) }));
      const plan = planPlacement(
        problem({ subClusters: NAMES, models: drawn, executors: followed, before, costMax: 2.4 * GB, seed: epoch }),
      );
      moves += plan.modelMoves.length;
      before = plan;
    }
    return moves;
  };
  expect(movesAt(() => 0.25)).toBeLessThan(6);
  expect(movesAt((i) => (i % 3 === 0 ? 40 : 10))).toBeGreaterThan(0);
});
