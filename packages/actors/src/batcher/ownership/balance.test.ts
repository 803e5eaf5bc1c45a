import { type ActorKey, actorKey } from "@tutti/units";
import fc from "fast-check";
import { expect, test } from "vitest";
import { MODEL_LOAD, type Loads, legaciesOf, moveThatPays, sharesOf } from "./balance.ts";

const [a, b, c] = [11, 222, 3333].map(actorKey) as [ActorKey, ActorKey, ActorKey];
const loadsOf = (models: readonly number[], others: readonly (readonly [ActorKey, number])[]): Loads => ({
  self: a,
  models: models.map((load, i) => ({ number: i + 1, load })),
  others: new Map(others),
});
const always = (): boolean => true;

test("the most loaded batcher gives the least loaded the model that evens them out best (BAL-1)", () => {
  const loads = loadsOf(
    [100, 60, 40],
    [
      [b, 20],
      [c, 110],
    ],
  );
  expect(moveThatPays(loads, always)).toEqual({ number: 1, to: b });
  expect(moveThatPays(loads, (number) => number !== 1)).toEqual({ number: 2, to: b });
  expect(moveThatPays(loads, () => false)).toBeUndefined();
});

test.for([
  [
    "another has more",
    [100, 60],
    [
      [b, 20],
      [c, 170],
    ],
  ],
  ["the difference is a quarter at most", [50, 50], [[b, 80]]],
  ["the two would only change places", [1_000], [[b, 10]]],
  ["the greater of the two would stay as it is, but for noise", [1_000, 980], [[b, 1_000]]],
  ["there is nobody", [100, 60], []],
] as const)("nothing moves where %s (BAL-1)", ([, models, others]) => {
  expect(moveThatPays(loadsOf(models, others), always)).toBeUndefined();
});

test("many models of little load are moved too, though none of them changes much (BAL-1)", () => {
  const models = Array.from({ length: 100 }, () => MODEL_LOAD);
  expect(moveThatPays(loadsOf(models, [[b, 0]]), always)).toEqual({ number: 1, to: b });
});

interface Cluster {
  readonly keys: readonly ActorKey[];
  readonly models: { readonly number: number; readonly load: number; holder: ActorKey }[];
}
const clusters = fc
  .record({
    loads: fc.array(fc.oneof(fc.constant(MODEL_LOAD), fc.integer({ min: MODEL_LOAD, max: 3_000 })), {
      minLength: 1,
      maxLength: 60,
    }),
    batchers: fc.integer({ min: 1, max: 12 }),
    holders: fc.array(fc.nat(), { minLength: 60, maxLength: 60 }),
  })
  .map(({ loads, batchers, holders }): Cluster => {
    const keys = Array.from({ length: batchers }, (_, i) => actorKey(1 + i * 7_919));
    const models = loads.map((load, i) => ({ number: i + 1, load, holder: keys[holders[i]! % batchers]! }));
    return { keys, models };
  });
const loadOf = ({ models }: Cluster, key: ActorKey): number =>
  models.reduce((sum, { holder, load }) => sum + (holder === key ? load : 0), 0);
const viewOf = (cluster: Cluster, self: ActorKey): Loads => ({
  self,
  models: cluster.models.filter(({ holder }) => holder === self),
  others: new Map(cluster.keys.filter((key) => key !== self).map((key) => [key, loadOf(cluster, key)])),
});
const squaresOf = (cluster: Cluster): number => cluster.keys.reduce((sum, key) => sum + loadOf(cluster, key) ** 2, 0);

/** Lower bound of the greatest load. A model is not divided, and the most loaded batcher has at least the average. */
function boundOf({ keys, models }: Cluster): number {
  const all = models.reduce((sum, { load }) => sum + load, 0);
  return Math.max(all / keys.length, ...models.map(({ load }) => load));
}

test("constant loads come to rest, without a model ever coming back, at twice the optimum at most (BAL-2, BAL-3)", () => {
  fc.assert(
    fc.property(clusters, (cluster) => {
      for (let rounds = 0; ; rounds++) {
        expect(rounds).toBeLessThan(500);
        const moves = cluster.keys.flatMap((key) => moveThatPays(viewOf(cluster, key), always) ?? []);
        expect(moves.length).toBeLessThanOrEqual(1);
        if (moves[0] === undefined) break;
        const before = squaresOf(cluster);
        const { number, to } = moves[0];
        cluster.models[number - 1]!.holder = to;
        expect(squaresOf(cluster)).toBeLessThan(before);
      }
      const most = Math.max(...cluster.keys.map((key) => loadOf(cluster, key)));
      expect(most).toBeLessThanOrEqual(2 * boundOf(cluster));
    }),
    { numRuns: 500 },
  );
});

test("a batcher that joins is given its part by all others at once, and nobody ends with more than it had (BAL-4)", () => {
  fc.assert(
    fc.property(clusters, (cluster) => {
      const joiner = actorKey(1_000_003);
      const joined = { ...cluster, keys: [...cluster.keys, joiner] };
      const before = Math.max(...cluster.keys.map((key) => loadOf(cluster, key)));
      const shares = cluster.keys.map((key) => sharesOf(viewOf(joined, key), new Set([joiner])));
      for (const share of shares) for (const [number, to] of share) joined.models[number - 1]!.holder = to;
      // Each batcher gives by itself, and the last model of each may be more than the joiner lacks.
      const overshoot = cluster.models.reduce((most, { load }) => Math.max(most, load), 0) * cluster.keys.length;
      const average = cluster.models.reduce((sum, { load }) => sum + load, 0) / joined.keys.length;
      expect(loadOf(joined, joiner)).toBeLessThanOrEqual(average + overshoot);
      for (const key of cluster.keys) expect(loadOf(joined, key)).toBeLessThanOrEqual(before);
    }),
  );
  const even = loadsOf([10, 10, 10, 10, 10, 10], [[b, 0]]);
  expect(sharesOf(even, new Set([b])).size).toBe(3);
  expect(
    sharesOf(
      loadsOf(
        [10, 10],
        [
          [b, 20],
          [c, 0],
        ],
      ),
      new Set([c]),
    ).size,
  ).toBe(1);
  expect(sharesOf(even, new Set()).size).toBe(0);
});

test("a batcher that leaves hands on all that it has, evenly (BAL-5)", () => {
  const { models, others } = loadsOf(
    [30, 70, 50],
    [
      [b, 40],
      [c, 0],
    ],
  );
  expect([...legaciesOf({ models, others })].sort()).toEqual([
    [1, c],
    [2, c],
    [3, b],
  ]);
  expect(legaciesOf({ models, others: new Map() }).size).toBe(0);
});
