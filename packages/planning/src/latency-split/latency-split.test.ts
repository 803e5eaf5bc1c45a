import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { type BatchLatency, type Query, type QueryStage, splitEvenly, splitLatency, structureOf } from "../index.ts";

const affine = (alpha: number, beta: number, most: number): BatchLatency => ({
  batchSizes: Array.from({ length: most }, (_, i) => i + 1),
  latency: (b) => (b > most ? Infinity : alpha * b + beta),
});

describe("C9.6: two stages", () => {
  /** r/s at 40, 50 and 60 ms. */
  const throughputs = (rates: readonly number[]): BatchLatency => {
    const points = rates.map((rate, i) => ({ latency: 40 + 10 * i, batchSize: (rate * (40 + 10 * i)) / 1000 }));
    return {
      batchSizes: points.map(({ batchSize }) => batchSize),
      latency: (b) => points.find(({ batchSize }) => batchSize === b)!.latency,
    };
  };
  const query = (fanOut: number): Query => ({
    stages: [
      { name: "X", rate: 1, latency: throughputs([200, 250, 300]) },
      { name: "Y", rate: fanOut, latency: throughputs([300, 400, 500]) },
    ],
    edges: [["X", "Y"]],
    bound: 100,
  });

  test.for([
    [0.1, 60, 40, 3.6667],
    [1, 50, 50, 6.5],
    [10, 40, 60, 25],
  ] as const)("with a fan-out of %f the split is (%i, %i)", ([fanOut, first, second, executors]) => {
    const split = splitLatency(query(fanOut), { step: 10, fits: 1 })!;
    expect(split.stages.map(({ budget }) => budget)).toEqual([first, second]);
    expect(split.executors).toBeCloseTo(executors, 4);
  });
});

describe("C9.7: a fork, and a fork that joins", () => {
  const stage = (name: string, alpha: number, beta: number, most: number, perSecond: number): QueryStage => ({
    name,
    rate: perSecond / 1000,
    latency: affine(alpha, beta, most),
  });
  const S = stage("S", 2, 10, 32, 200);
  const A = stage("A", 1, 12, 32, 50);
  const B = stage("B", 0.5, 6, 64, 400);
  const J = stage("J", 0.4, 3, 64, 200);
  const tree: Query = {
    stages: [S, A, B],
    edges: [
      ["S", "A"],
      ["S", "B"],
    ],
    bound: 100,
  };
  const joined: Query = { stages: [S, A, B, J], edges: [...tree.edges, ["A", "J"], ["B", "J"]], bound: 100 };
  const textOf = (query: Query, step: number, fits: number): string => {
    const { stages, executors } = splitLatency(query, { step, fits })!;
    return `${executors.toFixed(6)}: ${stages.map(({ name, budget, batchSize }) => `${name} ${budget} (${batchSize})`).join(", ")}`;
  };

  test("the shares of the worked example", () => {
    expect(textOf(tree, 1, 1)).toBe("0.787500: S 62 (26), A 38 (26), B 38 (64)");
    expect(textOf(joined, 1, 1)).toBe("0.916704: S 52 (21), A 35 (23), B 35 (58), J 13 (25)");
    expect(textOf(joined, 1, 2)).toBe("1.253736: S 48 (7), A 38 (7), B 38 (26), J 14 (10)");
    expect(splitLatency(joined, { step: 5, fits: 1 })!.executors).toBeCloseTo(0.917466, 6);
  });

  test("an even split needs more, and a bound that is too short has none", () => {
    const even = splitEvenly(joined, { fits: 1 })!;
    expect(even.stages.map(({ budget }) => budget)).toEqual(
      [100 / 3, 100 / 3, 100 / 3, 100 / 3].map((value) => expect.closeTo(value, 9)),
    );
    expect(even.executors).toBeGreaterThan(splitLatency(joined, { step: 1, fits: 1 })!.executors);
    expect(splitLatency({ ...joined, bound: 20 })).toBeUndefined();
  });
});

describe("what is no query says why", () => {
  const stages = ["a", "b", "c", "d", "e"].map((name): QueryStage => ({ name, rate: 1, latency: affine(1, 1, 8) }));
  test.for([
    [
      "two roots",
      [
        ["a", "c"],
        ["b", "c"],
        ["c", "d"],
        ["d", "e"],
      ],
      "2 stages are fed by no other",
    ],
    [
      "a circle",
      [
        ["a", "b"],
        ["b", "c"],
        ["c", "b"],
        ["a", "d"],
        ["d", "e"],
      ],
      "circle",
    ],
    ["a stage nobody knows", [["a", "x"]], "no stage is called x"],
    [
      "branches that cross",
      [
        ["a", "b"],
        ["a", "c"],
        ["b", "d"],
        ["b", "e"],
        ["c", "d"],
        ["c", "e"],
      ],
      "not series–parallel",
    ],
    [
      "branches of which only some meet",
      [
        ["a", "b"],
        ["a", "c"],
        ["a", "d"],
        ["b", "e"],
        ["c", "e"],
      ],
      "not series–parallel",
    ],
  ] as const)("%s", ([, edges, reason]) => {
    expect(() => structureOf({ stages, edges })).toThrow(reason);
  });

  test("a fork within a fork, and a stage that joins and forks, are fine", () => {
    const edges = [
      ["a", "b"],
      ["a", "c"],
      ["b", "d"],
      ["c", "d"],
      ["d", "e"],
    ] as const;
    const structure = structureOf({ stages, edges });
    expect(structure).toMatchObject({ kind: "series", parts: [{}, { kind: "parallel" }, {}, {}] });
    const deep = structureOf({
      stages,
      edges: [
        ["a", "b"],
        ["a", "e"],
        ["b", "c"],
        ["b", "d"],
        ["c", "e"],
        ["d", "e"],
      ],
    });
    expect(deep).toMatchObject({
      kind: "series",
      parts: [{}, { kind: "parallel", parts: [{ kind: "series" }, { kind: "series" }] }, {}],
    });
  });
});

const stageArb = fc.record({
  alpha: fc.double({ min: 0.1, max: 3, noNaN: true }),
  beta: fc.double({ min: 0, max: 10, noNaN: true }),
  rate: fc.double({ min: 0.01, max: 1, noNaN: true }),
});

test("no split on the grid needs less, the bound holds on every path, and a longer bound or a finer grid never costs more (C10)", () => {
  fc.assert(
    fc.property(
      fc.array(stageArb, { minLength: 4, maxLength: 4 }),
      fc.integer({ min: 20, max: 60 }),
      (given, steps) => {
        const stages = given.map(({ alpha, beta, rate }, i): QueryStage => ({
          name: "SABJ"[i]!,
          rate,
          latency: affine(alpha, beta, 16),
        }));
        const edges = [
          ["S", "A"],
          ["S", "B"],
          ["A", "J"],
          ["B", "J"],
        ] as const;
        const query: Query = { stages, edges, bound: 2 * steps };
        const split = splitLatency(query, { step: 2, fits: 1 });
        const least = enumerated(query, 2);
        if (split === undefined) return expect(least).toBe(Infinity);
        expect(split.executors).toBeCloseTo(least, 9);
        const [s, a, b, j] = split.stages.map(({ budget }) => budget);
        expect(Math.max(s! + a! + j!, s! + b! + j!)).toBeLessThanOrEqual(query.bound + 1e-9);
        const finer = splitLatency(query, { step: 1, fits: 1 })!;
        expect(finer.executors).toBeLessThanOrEqual(split.executors + 1e-9);
        const longer = splitLatency({ ...query, bound: query.bound + 10 }, { step: 2, fits: 1 })!;
        expect(longer.executors).toBeLessThanOrEqual(split.executors + 1e-9);
      },
    ),
    { numRuns: 40 },
  );
});

/** Every way to share the bound in whole steps. */
function enumerated({ stages, bound }: Query, step: number): number {
  const cost = ({ latency, rate }: QueryStage, budget: number): number => {
    const fitting = latency.batchSizes.filter((b) => latency.latency(b) <= budget + 1e-6);
    return Math.min(Infinity, ...fitting.map((b) => (rate * latency.latency(b)) / b));
  };
  let least = Infinity;
  for (let s = 0; s <= bound; s += step) {
    for (let middle = 0; s + middle <= bound; middle += step) {
      const rest = bound - s - middle;
      least = Math.min(
        least,
        cost(stages[0]!, s) + cost(stages[1]!, middle) + cost(stages[2]!, middle) + cost(stages[3]!, rest),
      );
    }
  }
  return least;
}
