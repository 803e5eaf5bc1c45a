/** Room for models that have it nowhere (MP8), and for those that leave a closing sub-cluster (MP5). */
import { gpuId } from "@tutti/units";
import fc from "fast-check";
import { expect, test, vi } from "vitest";
import { PlacementDraft } from "./placement-draft.ts";
import { planPlacement } from "./plan-placement.ts";
import { makeRoom } from "./room-moves.ts";
import type { ExecutorToPlace, ModelToPlace, PlacementPlan, PlacementProblem, Places } from "./placement-problem.ts";

const MB = 1e6;
const NAMES = ["main", "b", "c"];

interface Given {
  /** Memory by model. */
  readonly sizes: readonly number[];
  /** Sub-cluster by model; undefined: none. */
  readonly homes: readonly (string | undefined)[];
  /** Memory by accelerator, in the order of the sub-clusters. */
  readonly capacities: readonly number[];
}

function problemOf({ sizes, homes, capacities }: Given): PlacementProblem {
  const models = sizes.map((size, i): ModelToPlace => {
    return { number: i + 1, name: `m${i + 1}`, rate: 10, work: 0.1, memoryBytes: size * MB };
  });
  const subClusters = NAMES.slice(0, capacities.length);
  const places = homes.flatMap((subCluster, i) => (subCluster === undefined ? [] : [{ number: i + 1, subCluster }]));
  const before: Places = {
    models: places,
    gpus: subClusters.map((subCluster, i) => ({ gpu: gpuId(i), subCluster })),
  };
  const executors = capacities.map((capacity, i): ExecutorToPlace => {
    const loaded = new Set(places.flatMap(({ number, subCluster }) => (subCluster === NAMES[i] ? [number] : [])));
    return { key: i, gpus: [gpuId(i)], memoryBytesMax: capacity * MB, subCluster: NAMES[i]!, loaded };
  });
  const free = { awaited: new Set<never>(), costMax: 0, seed: 1 };
  return { subClusters, models, executors, before, ...free, mayBalance: true };
}

/** The problem once executors have loaded what the plan says, and are where it says. */
function next(problem: PlacementProblem, { models, gpus }: PlacementPlan): PlacementProblem {
  const placeOf = new Map(gpus.map(({ gpu, subCluster }) => [gpu, subCluster]));
  const executors = problem.executors.map((one): ExecutorToPlace => {
    const subCluster = placeOf.get(one.gpus[0]!) ?? one.subCluster;
    const own = models.filter((place) => place.subCluster === subCluster || place.next === subCluster);
    return { ...one, subCluster, loaded: new Set(own.map(({ number }) => number)) };
  });
  return { ...problem, executors, before: { models, gpus } };
}

const homesOf = ({ models }: Places): string[] =>
  models.map(({ number, subCluster, next: to }) => `${number} ${subCluster}${to === undefined ? "" : `>${to}`}`);
const TIGHT: Given = { sizes: [32, 10, 38], homes: ["main", "b", undefined], capacities: [45, 44] };

test("a model that fits where another leaves is placed there, once that one has arrived elsewhere", () => {
  const problem = problemOf(TIGHT);
  const first = planPlacement(problem);
  expect(homesOf(first)).toEqual(["1 main", "2 b>main"]);
  expect(first.modelMoves).toEqual([{ number: 2, from: "b", to: "main", cost: 20 * MB, isForced: true }]);
  expect(first.reasons.map(({ about, text }) => `${about} ${text}`)).toEqual([
    "m3 waits for 38 MB in b until m2 has gone to main",
    "m2 goes from b to main: that makes room for m3",
  ]);
  // Nothing is loaded yet: the same moves go on.
  const waiting = planPlacement({ ...problem, before: { models: first.models, gpus: first.gpus } });
  expect([homesOf(waiting), waiting.modelMoves]).toEqual([homesOf(first), []]);
  const second = planPlacement(next(problem, first));
  expect([homesOf(second), second.leftOut]).toEqual([["1 main", "2 main", "3 b"], []]);
});

test("the fewest bytes move, and none where that makes no room, or the model's last move has failed", () => {
  const several = {
    sizes: [20, 5, 30, 25, 18],
    homes: ["main", "main", "b", "c", undefined],
    capacities: [40, 40, 40],
  };
  expect(planPlacement(problemOf(several)).modelMoves).toMatchObject([{ number: 2, from: "main", to: "b" }]);
  expect(planPlacement(problemOf({ ...TIGHT, capacities: [41, 41] })).modelMoves).toEqual([]);
  const problem = problemOf(TIGHT);
  const pinned = problem.models.map((one) => ({ ...one, isPinned: one.number < 3 }));
  expect(planPlacement({ ...problem, models: pinned }).modelMoves).toEqual([]);
});

test("a model stays in a closing sub-cluster where its own accelerator alone could hold it in another", () => {
  const given = { sizes: [3, 22, 20], homes: ["main", "b", "c"], capacities: [20, 25, 22] };
  const closing = { ...problemOf(given), closing: new Set(["b"]) };
  const plan = planPlacement(closing);
  expect([homesOf(plan), plan.gpus.map(({ subCluster }) => subCluster)]).toEqual([
    ["1 main", "2 b", "3 c"],
    ["main", "b", "c"],
  ]);
  const larger = { ...problemOf({ ...given, capacities: [25, 25, 22] }), closing: new Set(["b"]) };
  expect(homesOf(planPlacement(larger))).toEqual(["1 main", "2 b>main", "3 c"]);
});

test("several leave where one isn't enough", () => {
  const given = { sizes: [10, 12, 20, 20, 30], homes: ["main", "main", "b", "c", undefined], capacities: [32, 32, 32] };
  const problem = problemOf(given);
  const first = planPlacement(problem);
  expect(homesOf(first)).toEqual(["1 main>c", "2 main>b", "3 b", "4 c"]);
  expect(homesOf(planPlacement(next(problem, first)))).toEqual(["1 c", "2 b", "3 b", "4 c", "5 main"]);
});

/**
 * Models without a place, of these sizes: one sub-cluster with a far larger accelerator seems to have room for them.
 */
function manyModels(homeless: readonly number[]): PlacementProblem {
  const models = 300;
  const sizes = [9_980, ...Array<number>(models - 1).fill(10), ...homeless];
  const homes = sizes.map((_, i) => (i < models ? NAMES[i % 3] : undefined));
  return problemOf({ sizes, homes, capacities: [10_980, 1_003, 1_003] });
}

test.each([0, 50])("models that no move makes room for cost together what one may, while %i others move", (moving) => {
  const problem = manyModels(Array<number>(100).fill(15));
  const places = problem.before!.models.map((place) => {
    const isMoving = place.subCluster !== "main" && place.number <= 1.5 * moving;
    return { ...place, ...(isMoving && { next: "main" }) };
  });
  const draft = new PlacementDraft({ ...problem, before: { ...problem.before!, models: places } });
  const [tried, changed] = [vi.spyOn(draft, "couldHold"), vi.spyOn(draft, "set")];
  const looked = vi.spyOn(draft, "lostWith");
  expect(makeRoom(draft, () => true).moves).toEqual([]);
  expect(tried.mock.calls.length).toBeLessThanOrEqual(500);
  expect(looked.mock.calls.length).toBeLessThanOrEqual(500 * NAMES.length);
  expect(changed.mock.calls.length).toBeLessThanOrEqual(2 * 500);
});

test("a model that no move makes room for takes none from one of lower rate", () => {
  const problem = manyModels([15, 12]);
  const models = problem.models.map((one) => (one.number === 301 ? { ...one, rate: 20 } : one));
  expect(makeRoom(new PlacementDraft({ ...problem, models }), () => true)).toMatchObject({
    moves: [{ to: "main" }],
    waiting: 302,
  });
});

/** Whether one move to an accelerator that holds the model would make room for model `left`, by trying all of them. */
function hasRoomAfterOneMove({ sizes, homes, capacities }: Given, gpus: Places["gpus"], left: number): boolean {
  const holds = (needs: readonly number[]): boolean => {
    const used = needs.filter((need) => need > 0).sort((a, b) => b - a);
    const largest = capacities.toSorted((a, b) => b - a);
    return used.every((need, i) => need <= (largest[i] ?? 0));
  };
  const names = NAMES.slice(0, capacities.length);
  const needsOf = (at: readonly (readonly string[])[]): number[] =>
    names.map((name) => sizes.reduce((sum, size, i) => (at[i]!.includes(name) ? sum + size : sum), 0));
  const now = homes.map((home) => (home === undefined ? [] : [home]));
  const isHeld = (at: readonly (readonly string[])[], name: string): boolean =>
    gpus.some(({ gpu, subCluster }) => subCluster === name && needsOf(at)[names.indexOf(name)]! <= capacities[gpu]!);
  return homes.some((home, mover) =>
    names.some((to) => {
      if (home === undefined || to === home) return false;
      const during = now.with(mover, [home, to]);
      if (!holds(needsOf(during)) || !isHeld(during, to)) return false;
      return names.some((place) => holds(needsOf(now.with(mover, [to]).with(left, [place]))));
    }),
  );
}

test("a model is left out only where no move of another would make room, no model loses its place, and moves end", () => {
  const drawn = fc.record({
    capacities: fc.array(fc.integer({ min: 20, max: 60 }), { minLength: 2, maxLength: 3 }),
    sizes: fc.array(fc.integer({ min: 5, max: 40 }), { minLength: 3, maxLength: 6 }),
    picks: fc.array(fc.nat(2), { minLength: 6, maxLength: 6 }),
  });
  fc.assert(
    fc.property(drawn, ({ capacities, sizes, picks }) => {
      const free = [...capacities];
      const homes = sizes.map((size, i) => {
        const at = picks[i]! % capacities.length;
        if (size > free[at]!) return undefined;
        free[at]! -= size;
        return NAMES[at];
      });
      let problem = problemOf({ sizes, homes, capacities });
      for (let step = 0; step < 20; step++) {
        const plan = planPlacement(problem);
        const served = new Set(plan.models.map(({ number }) => number));
        for (const { number } of problem.before!.models) expect(served.has(number)).toBe(true);
        if (
          plan.modelMoves.length === 0 &&
          plan.arrived.length === 0 &&
          served.size === problem.before!.models.length
        ) {
          const final = sizes.map((_, i) => plan.models.find(({ number }) => number === i + 1)?.subCluster);
          for (const { number } of plan.leftOut)
            expect(hasRoomAfterOneMove({ sizes, homes: final, capacities }, plan.gpus, number - 1)).toBe(false);
          return;
        }
        problem = next(problem, plan);
      }
      throw new Error("models move for ever");
    }),
    { numRuns: 500 },
  );
});
