import { type GpuId, gpuId } from "@tutti/units";
import fc from "fast-check";
import { expect, test } from "vitest";
import { isSamePlace, planPlacement } from "./plan-placement.ts";
import type { ExecutorToPlace, ModelToPlace, PlacementPlan, PlacementProblem, Places } from "./placement-problem.ts";

const GB = 1e9;
const model = (number: number, more: Partial<ModelToPlace> = {}): ModelToPlace => ({
  number,
  name: `m${number}`,
  rate: 0,
  work: 0,
  memoryBytes: 0,
  ...more,
});
const executor = (gpu: number, more: Partial<ExecutorToPlace> = {}): ExecutorToPlace => ({
  key: gpu + 1,
  gpus: [gpuId(gpu)],
  memoryBytesMax: Infinity,
  subCluster: "main",
  loaded: new Set(),
  ...more,
});
const problem = (more: Partial<PlacementProblem>): PlacementProblem => ({
  subClusters: ["main"],
  models: [],
  executors: [],
  before: { models: [], gpus: [] },
  awaited: new Set(),
  costMax: Infinity,
  mayBalance: true,
  seed: 1,
  ...more,
});
const at = (models: readonly [number, string, string?][], gpus: readonly [number, string][]): Places => ({
  models: models.map(([number, subCluster, next]) => ({ number, subCluster, ...(next !== undefined && { next }) })),
  gpus: gpus.map(([gpu, subCluster]) => ({ gpu: gpuId(gpu), subCluster })),
});
const homes = ({ models }: Places): Record<number, string> =>
  Object.fromEntries(
    models.map(({ number, subCluster, next }) => [number, next ? `${subCluster}>${next}` : subCluster]),
  );
const owners = ({ gpus }: Places): Record<number, string> =>
  Object.fromEntries(gpus.map(({ gpu, subCluster }) => [gpu, subCluster]));

test("where nobody has ever planned, what is loaded stays where it is, and the rest joins it", () => {
  const plan = planPlacement(
    problem({
      before: undefined,
      models: [model(1), model(2)],
      executors: [executor(0, { loaded: new Set([1]) }), executor(1)],
    }),
  );
  expect(homes(plan)).toEqual({ 1: "main", 2: "main" });
  expect(owners(plan)).toEqual({ 0: "main", 1: "main" });
  expect([plan.modelMoves, plan.executorMoves, plan.leftOut]).toEqual([[], [], []]);
});

test("a move is over when every executor that obeys the target's leader has the model, and not before", () => {
  const moving = (loaded: readonly (readonly number[])[]) =>
    planPlacement(
      problem({
        subClusters: ["a", "b"],
        models: [model(1), model(2)],
        before: at([[1, "a", "b"], [2, "a"]], [[0, "a"], [1, "b"], [2, "b"]]), // prettier-ignore
        executors: ["a", "b", "b"].map((subCluster, gpu) =>
          executor(gpu, { subCluster, loaded: new Set(loaded[gpu]) }),
        ),
        mayBalance: false,
      }),
    );
  expect(homes(moving([[1, 2], [1], []]))).toEqual({ 1: "a>b", 2: "a" });
  const over = moving([[1, 2], [1], [1]]);
  expect(homes(over)).toEqual({ 1: "b", 2: "a" });
  expect(over.arrived).toEqual([1]);
});

test("a move is taken back from a target without a leader or that takes too long, and a home without a leader is left in two steps", () => {
  const executors = [executor(0, { subCluster: "a", loaded: new Set([1]) })];
  const back = planPlacement(
    problem({ subClusters: ["a"], models: [model(1)], executors, before: at([[1, "a", "b"]], [[0, "a"]]) }),
  );
  expect(homes(back)).toEqual({ 1: "a" });
  expect(back.reasons[0]?.text).toContain("taken back from b");
  const pair = [...executors, executor(1, { subCluster: "b" })];
  const both = {
    subClusters: ["a", "b"],
    executors: pair,
    before: at(
      [[1, "a", "b"]],
      [
        [0, "a"],
        [1, "b"],
      ],
    ),
  };
  expect(homes(planPlacement(problem({ ...both, models: [model(1)], mayBalance: false })))).toEqual({ 1: "a>b" });
  const stuck = planPlacement(problem({ ...both, models: [model(1, { isStuck: true })] }));
  expect(homes(stuck)).toEqual({ 1: "a" });
  expect(stuck.reasons[0]?.text).toContain("not loaded in time");
  const left = planPlacement(
    problem({ subClusters: ["a"], models: [model(1)], executors, before: at([[1, "b"]], [[0, "b"]]) }),
  );
  expect(homes(left)).toEqual({ 1: "b>a" });
  expect(owners(left)).toEqual({ 0: "a" });
  expect(left.modelMoves).toEqual([{ number: 1, from: "b", to: "a", cost: 0, isForced: true }]);
});

test("a model that fits nowhere is left out, with what it needs and what there is", () => {
  const executors = [0, 1].map((gpu) => executor(gpu, { memoryBytesMax: 4 * GB }));
  const models = [
    model(1, { memoryBytes: 3 * GB }),
    model(2, { memoryBytes: 5 * GB }),
    model(3, { memoryBytes: 2 * GB }),
  ];
  const plan = planPlacement(
    problem({
      models,
      executors,
      before: at(
        [[1, "main"]],
        [
          [0, "main"],
          [1, "main"],
        ],
      ),
    }),
  );
  expect(homes(plan)).toEqual({ 1: "main" });
  expect(plan.leftOut).toEqual([
    { number: 2, name: "m2", memoryBytes: 5 * GB, largestBytes: 4 * GB, freeBytes: 1 * GB },
    { number: 3, name: "m3", memoryBytes: 2 * GB, largestBytes: 4 * GB, freeBytes: 1 * GB },
  ]);
  expect(plan.reasons.map(({ about, text }) => `${about} ${text}`)).toEqual([
    "m2 is left out: it needs 5 GB, and no accelerator holds more than 4 GB",
    "m3 is left out: it needs 2 GB, and of the 4 GB that the largest accelerator holds, 1 GB are free at most",
  ]);
});

test("models without any accelerator are told so", () => {
  const plan = planPlacement(problem({ models: [model(1)], before: at([[1, "main"]], []) }));
  expect(plan.reasons).toEqual([{ about: "main", text: "has models and no accelerator: there is none" }]);
});

test("an executor that only one sub-cluster's models need is relieved where it serves, and goes once it can", () => {
  const sizes = [4, 4, 8];
  const given = problem({
    subClusters: ["a", "b"],
    models: [model(1, { rate: 5, memoryBytes: 3 * GB }), model(2, { rate: 5, memoryBytes: 6 * GB })],
    executors: sizes.map((memory, gpu) =>
      executor(gpu, { memoryBytesMax: memory * GB, subCluster: "a", loaded: new Set([1]) }),
    ),
    // Accelerator 2 alone holds model 2, and alone is where model 1 is served.
    before: at([[1, "a"], [2, "b"]], [[2, "a"]]), // prettier-ignore
  });
  const joined = given.executors.map((one) => ({ ...one, loaded: new Set(one.key === 3 ? [1] : []) }));
  const first = planPlacement({ ...given, executors: joined });
  expect(owners(first)).toMatchObject({ 2: "a" });
  expect(first.reasons.map(({ about, text }) => `${about} ${text}`)).toContainEqual(
    expect.stringMatching(
      /^b has models and no accelerator: it waits for accelerator 2 of a, until accelerator \d serves in its place$/,
    ),
  );
  // An executor that joined and has not loaded the model yet relieves no other.
  expect(owners(planPlacement({ ...given, before: first, executors: joined }))).toMatchObject({ 2: "a" });
  const second = planPlacement({ ...given, before: first, executors: follow(first, given.executors) });
  expect(owners(second)).toMatchObject({ 2: "b" });
  expect(Object.values(owners(second)).filter((place) => place === "a").length).toBeGreaterThan(0);
});

test("models that don't fit together go to different sub-clusters, each with an accelerator of its own", () => {
  const executors = [0, 1].map((gpu) => executor(gpu, { memoryBytesMax: 4 * GB }));
  const models = [1, 2].map((number) => model(number, { memoryBytes: 3 * GB }));
  const plan = planPlacement(problem({ subClusters: ["a", "b"], models, executors, before: undefined }));
  expect(new Set(Object.values(homes(plan)))).toEqual(new Set(["a", "b"]));
  expect(new Set(Object.values(owners(plan)))).toEqual(new Set(["a", "b"]));
  expect(plan.leftOut).toEqual([]);
});

test("accelerators follow the work, none is taken that is a sub-cluster's last, and halves stay where they are", () => {
  const split = (work: readonly [number, number], inA: number): Record<string, number> => {
    const plan = planPlacement(
      problem({
        subClusters: ["a", "b"],
        models: [model(1, { work: work[0] }), model(2, { work: work[1] })],
        executors: Array.from({ length: 8 }, (_, gpu) => executor(gpu)),
        before: at(
          [
            [1, "a"],
            [2, "b"],
          ],
          Array.from({ length: 8 }, (_, gpu) => [gpu, gpu < inA ? "a" : "b"]),
        ),
      }),
    );
    return { a: plan.gpus.filter(({ subCluster }) => subCluster === "a").length, moved: plan.executorMoves.length };
  };
  expect(split([6, 2], 6)).toEqual({ a: 6, moved: 0 });
  expect(split([6, 2], 5)).toEqual({ a: 6, moved: 1 });
  expect(split([5.6, 2.4], 5)).toEqual({ a: 5, moved: 0 });
  // A quarter of the executors moves at once.
  expect(split([8, 0], 4)).toEqual({ a: 6, moved: 2 });
  expect(split([8, 0], 7)).toEqual({ a: 7, moved: 0 });
});

test("an accelerator that is away for a moment keeps its place, and one that is too small for a sub-cluster leaves it", () => {
  const plan = planPlacement(
    problem({
      models: [model(1, { memoryBytes: 3 * GB })],
      executors: [executor(0, { memoryBytesMax: 4 * GB }), executor(1, { memoryBytesMax: 2 * GB })],
      before: at([[1, "main"]], [[0, "main"], [1, "main"], [2, "main"], [3, "main"]]), // prettier-ignore
      awaited: new Set([gpuId(2)]),
    }),
  );
  expect(owners(plan)).toEqual({ 0: "main", 2: "main" });
  expect(plan.unused).toEqual([1]);
});

test("models that nobody living can hold stay where accelerators are awaited, and those that others can hold go there", () => {
  const given = {
    subClusters: ["main", "b"],
    models: [1, 2, 3].map((number) => model(number, { rate: number, memoryBytes: number * GB })),
    executors: [executor(0, { memoryBytesMax: 4 * GB, loaded: new Set([3]) })],
    before: at([[1, "b"], [2, "b"], [3, "main"]], [[0, "main"], [1, "b"]]), // prettier-ignore
    mayBalance: false,
  };
  const waiting = planPlacement(problem({ ...given, awaited: new Set([gpuId(1)]) }));
  expect(homes(waiting)).toEqual({ 1: "main", 2: "b", 3: "main" });
  expect([owners(waiting), waiting.leftOut]).toEqual([{ 0: "main", 1: "b" }, []]);
  expect(waiting.reasons.map(({ about, text }) => `${about} ${text}`)).toContain(
    "m2 stays in b, whose accelerators are away: no other can hold it",
  );
  const given2 = { ...given, before: waiting };
  expect(homes(planPlacement(problem({ ...given2, awaited: new Set([gpuId(1)]) })))).toEqual(homes(waiting));
  // An accelerator that stays away is given up, and model 2 with it.
  const given3 = planPlacement(problem(given2));
  expect([homes(given3), given3.leftOut.map(({ number }) => number)]).toEqual([{ 1: "main", 3: "main" }, [2]]);
});

test("a model that runs is not taken out for a larger one whose accelerators are awaited", () => {
  const given = problem({
    subClusters: ["main", "b"],
    models: [model(1, { rate: 1, memoryBytes: 3 * GB }), model(2, { rate: 9, memoryBytes: 4 * GB })],
    executors: [executor(0, { memoryBytesMax: 4 * GB, loaded: new Set([1]) }), executor(2, { memoryBytesMax: 2 * GB })],
    before: at([[1, "main"], [2, "b"]], [[0, "main"], [1, "b"]]), // prettier-ignore
    awaited: new Set([gpuId(1)]),
  });
  const plan = planPlacement(given);
  expect([homes(plan), owners(plan)]).toEqual([{ 1: "main", 2: "b" }, { 0: "main", 1: "b" }]); // prettier-ignore
});

test("no model loses its place while accelerators are awaited, and those that live hold what they get", () => {
  const sizes = fc.array(fc.integer({ min: 1, max: 5 }), { minLength: 1, maxLength: 5 });
  const capacities = fc.array(fc.integer({ min: 4, max: 12 }), { minLength: 1, maxLength: 4 });
  fc.assert(
    fc.property(sizes, capacities, fc.integer({ min: 1, max: 15 }), fc.boolean(), (own, memory, gone, mayBalance) => {
      const models = own.map((size, i) => model(i + 1, { rate: i, memoryBytes: size * GB }));
      const executors = memory.map((size, i) => executor(i, { memoryBytesMax: size * GB }));
      const given = { subClusters: ["main", "b"], models, mayBalance };
      const before = planPlacement(problem({ ...given, executors }));
      const living = executors.filter((_, i) => (gone & (2 ** i)) === 0);
      const awaited = new Set(executors.flatMap(({ gpus }, i) => ((gone & (2 ** i)) === 0 ? [] : gpus)));
      const plan = planPlacement(problem({ ...given, executors: living, before, awaited }));
      for (const number of Object.keys(homes(before))) expect(homes(plan)).toHaveProperty(number);
      for (const { gpus, memoryBytesMax } of living) {
        const [at] = gpus.map((gpu) => owners(plan)[gpu]);
        const there = plan.models.filter(({ subCluster, next }) => at !== undefined && [subCluster, next].includes(at));
        expect(there.reduce((sum, { number }) => sum + own[number - 1]! * GB, 0)).toBeLessThanOrEqual(memoryBytesMax);
      }
    }),
    { numRuns: 500 },
  );
});

test("rates that drift apart move models, no more than the budget, and what doesn't pay for itself stays", () => {
  const models = [1, 2, 3, 4].map((number) => model(number, { rate: 100, work: 1, memoryBytes: GB }));
  const given = {
    subClusters: ["a", "b"],
    models,
    executors: ["a", "a", "b"].map((subCluster, gpu) => executor(gpu, { subCluster })),
    before: at([[1, "a"], [2, "a"], [3, "a"], [4, "a"]], [[0, "a"], [1, "a"], [2, "b"]]), // prettier-ignore
  };
  expect(planPlacement(problem({ ...given, costMax: 2 * GB })).modelMoves).toHaveLength(1);
  expect(planPlacement(problem({ ...given, costMax: 4 * GB })).modelMoves).toHaveLength(2);
  expect(planPlacement(problem({ ...given, costMax: GB })).modelMoves).toHaveLength(0);
  expect(planPlacement(problem({ ...given, mayBalance: false })).modelMoves).toHaveLength(0);
  const pinned = models.map((one) => ({ ...one, isPinned: true }));
  expect(planPlacement(problem({ ...given, models: pinned, costMax: 100 * GB })).modelMoves).toHaveLength(0);
  const even = at([[1, "a"], [2, "a"], [3, "b"], [4, "b"]], [[0, "a"], [1, "a"], [2, "b"]]); // prettier-ignore
  const slight = models.map((one, i) => ({ ...one, rate: i < 2 ? 105 : 95 }));
  expect(planPlacement(problem({ ...given, models: slight, before: even })).modelMoves).toHaveLength(0);
});

/** Executors that follow a placement at once. */
function follow(plan: Places, executors: readonly ExecutorToPlace[]): ExecutorToPlace[] {
  const owned = new Map(plan.gpus.map(({ gpu, subCluster }) => [gpu, subCluster]));
  return executors.map((one) => {
    const subCluster = owned.get(one.gpus[0]!) ?? one.subCluster;
    const isPlaced = owned.has(one.gpus[0]!);
    const own = plan.models.filter(({ subCluster: home, next }) => home === subCluster || next === subCluster);
    return { ...one, subCluster, loaded: new Set(isPlaced ? own.map(({ number }) => number) : []) };
  });
}

const clusters = fc.record({
  subClusters: fc.integer({ min: 1, max: 4 }),
  models: fc.array(
    fc.record({
      rate: fc.integer({ min: 0, max: 300 }),
      memory: fc.integer({ min: 0, max: 4 }),
      work: fc.integer({ min: 0, max: 5 }),
    }),
    { minLength: 1, maxLength: 10 },
  ),
  executors: fc.array(fc.record({ memory: fc.constantFrom(4, 8, 8, Infinity), gpus: fc.integer({ min: 1, max: 3 }) }), {
    minLength: 1,
    maxLength: 7,
  }),
  budget: fc.integer({ min: 0, max: 12 }),
});
type Drawn = typeof clusters extends fc.Arbitrary<infer T> ? T : never;

function drawn({ subClusters, models, executors, budget }: Drawn): PlacementProblem {
  let next = 0;
  return problem({
    subClusters: ["main", "b", "c", "d"].slice(0, subClusters),
    models: models.map(({ rate, memory, work }, i) => model(i + 1, { rate, work, memoryBytes: memory * GB })),
    executors: executors.map(({ memory, gpus }, i) => ({
      key: i + 1,
      gpus: Array.from({ length: gpus }, (): GpuId => gpuId(next++)),
      memoryBytesMax: memory * GB,
      subCluster: "main",
      loaded: new Set<number>(),
    })),
    before: undefined,
    costMax: 2 * budget * GB,
  });
}

function check(given: PlacementProblem, plan: PlacementPlan): void {
  const sizes = new Map(given.models.map(({ number, memoryBytes }) => [number, memoryBytes]));
  const owned = new Map(plan.gpus.map(({ gpu, subCluster }) => [gpu, subCluster]));
  const places = given.executors.map(({ gpus }) => new Set(gpus.map((gpu) => owned.get(gpu))));
  for (const [i, { memoryBytesMax }] of given.executors.entries()) {
    expect(places[i]!.size).toBe(1);
    const [place] = places[i]!;
    const held = plan.models.filter(
      ({ subCluster, next }) => place !== undefined && [subCluster, next].includes(place),
    );
    expect(held.reduce((sum, { number }) => sum + sizes.get(number)!, 0)).toBeLessThanOrEqual(memoryBytesMax);
  }
  const placed = plan.models.map(({ number }) => number);
  expect(new Set(placed).size).toBe(placed.length);
  expect(new Set([...placed, ...plan.leftOut.map(({ number }) => number)])).toEqual(
    new Set(given.models.map(({ number }) => number)),
  );
  const unforced = plan.modelMoves.filter(({ isForced }) => !isForced);
  expect(unforced.reduce((sum, { cost }) => sum + cost, 0)).toBeLessThanOrEqual(given.costMax);
}

/** Sub-clusters with models keep an executor that they had. */
function checkKept(given: PlacementProblem, plan: PlacementPlan): void {
  const before = new Map(given.before!.gpus.map(({ gpu, subCluster }) => [gpu, subCluster]));
  const after = new Map(plan.gpus.map(({ gpu, subCluster }) => [gpu, subCluster]));
  for (const subCluster of new Set(plan.models.map((one) => one.subCluster))) {
    const had = given.executors.filter(({ gpus }) => before.get(gpus[0]!) === subCluster);
    if (had.length > 0) expect(had.some(({ gpus }) => after.get(gpus[0]!) === subCluster)).toBe(true);
  }
}

test("memory is never exceeded, no last accelerator is taken, budgets are kept, and with nothing new nothing moves for ever", () => {
  fc.assert(
    fc.property(clusters, (cluster) => {
      let given = drawn(cluster);
      let plan = planPlacement(given);
      check(given, plan);
      expect(planPlacement(given)).toEqual(plan);
      let rounds = 0;
      for (; rounds < 60; rounds++) {
        given = { ...given, before: plan, executors: follow(plan, given.executors) };
        const next = planPlacement(given);
        check(given, next);
        checkKept(given, next);
        if (isSamePlace(plan, next)) break;
        plan = next;
      }
      expect(rounds).toBeLessThan(60);
      expect(plan.models.every(({ next }) => next === undefined)).toBe(true);
      const used = new Set(plan.models.map(({ subCluster }) => subCluster));
      for (const subCluster of used) expect(plan.gpus.some((one) => one.subCluster === subCluster)).toBe(true);
    }),
    { numRuns: 120 },
  );
});

test("whatever dies, what lives keeps these promises, and every model that fits is served again in the end", () => {
  const deaths = fc.record({
    cluster: clusters,
    leaders: fc.integer({ min: 0, max: 15 }),
    executors: fc.integer({ min: 0, max: 127 }),
  });
  fc.assert(
    fc.property(deaths, ({ cluster, leaders, executors }) => {
      const whole = drawn(cluster);
      let plan = planPlacement(whole);
      const living = whole.subClusters.filter((_, i) => (leaders >> i) % 2 === 0);
      let given: PlacementProblem = {
        ...whole,
        subClusters: living,
        before: plan,
        executors: follow(plan, whole.executors).filter((_, i) => (executors >> i) % 2 === 0),
      };
      if (living.length === 0 || given.executors.length === 0) {
        const homesOf = ({ models }: Places): unknown => models.map(({ number, subCluster }) => [number, subCluster]);
        expect(homesOf(planPlacement(given))).toEqual(homesOf(plan));
        return;
      }
      for (let rounds = 0; rounds < 60; rounds++) {
        const next = planPlacement(given);
        check(given, next);
        if (isSamePlace(plan, next)) break;
        plan = next;
        given = { ...given, before: plan, executors: follow(plan, given.executors) };
      }
      const leftOut = new Set(planPlacement(given).leftOut.map(({ number }) => number));
      for (const { number, subCluster, next } of plan.models) {
        expect(next).toBeUndefined();
        if (leftOut.has(number)) continue; // it waits for its leader, or for room
        expect(living).toContain(subCluster);
        expect(plan.gpus.some((one) => one.subCluster === subCluster)).toBe(true);
      }
    }),
    { numRuns: 300 },
  );
});
