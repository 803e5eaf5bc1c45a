import { type ActorKey, Prng, actorKey } from "@tutti/units";
import { expect, test } from "vitest";
import { type Holding, spreadOf } from "./spread.ts";

/** What the leases look like when everybody has done its part. */
function settled(holdings: readonly Holding[], takers: readonly ActorKey[]): Holding[] {
  const { heirs, moves } = spreadOf(holdings, takers);
  return holdings.map(({ number, holder }) => ({ number, holder: heirs.get(number) ?? moves.get(number) ?? holder }));
}
const counts = (holdings: readonly Holding[], keys: readonly ActorKey[]): number[] =>
  keys.map((key) => holdings.filter(({ holder }) => holder === key).length);
const unevenness = (all: readonly number[]): number => Math.max(...all) - Math.min(...all);

test("however batchers come and go, models are even after each and no more of them move than must (S1, S2)", () => {
  const prng = new Prng(3);
  for (let round = 0; round < 200; round++) {
    const models = 1 + prng.nextInt(60);
    let holdings: Holding[] = Array.from({ length: models }, (_, i) => ({ number: i + 1, holder: undefined }));
    let takers: ActorKey[] = [];
    for (let change = 0; change < 8; change++) {
      const before = takers;
      if (takers.length > 1 && prng.nextFloat() < 0.4) takers = takers.filter((_, i) => i !== change % takers.length);
      else takers = [...takers, actorKey(1 + prng.nextInt(2 ** 31) * 64)];
      const isDead = prng.nextFloat() < 0.5;
      const seen = isDead
        ? holdings.map(({ number, holder }) => ({
            number,
            holder: holder !== undefined && takers.includes(holder) ? holder : undefined,
          }))
        : holdings;
      const next = settled(seen, takers);
      expect(unevenness(counts(next, takers))).toBeLessThanOrEqual(1);
      const moved = next.filter(({ holder }, i) => holdings[i]!.holder !== undefined && holder !== holdings[i]!.holder);
      const homeless = holdings.filter(({ holder }) => holder !== undefined && !takers.includes(holder)).length;
      // A joiner needs its share, and what is homeless must go somewhere.
      const share = takers.length > before.length ? Math.ceil(models / takers.length) : 0;
      expect(moved.length).toBeLessThanOrEqual(homeless + share);
      expect(spreadOf(next, takers).moves.size).toBe(0);
      holdings = next;
    }
  }
});

test("with few models nobody has two while another has none", () => {
  const takers = [11, 222, 3333].map(actorKey);
  for (let models = 1; models <= 6; models++) {
    const free = Array.from({ length: models }, (_, i) => ({ number: i + 1, holder: undefined }));
    expect(unevenness(counts(settled(free, takers), takers))).toBeLessThanOrEqual(1);
  }
});

test("everybody works out the same, in whatever order it was told", () => {
  const takers = [11, 222, 3333, 44444].map(actorKey);
  const holdings = Array.from({ length: 40 }, (_, i) => ({
    number: i + 1,
    holder: i % 3 === 0 ? undefined : takers[i % 2],
  }));
  const one = spreadOf(holdings, takers);
  const other = spreadOf([...holdings].reverse(), [...takers].reverse());
  expect([...other.heirs].sort()).toEqual([...one.heirs].sort());
  expect([...other.moves].sort()).toEqual([...one.moves].sort());
});

test("a batcher that leaves hands on all that it has, and where nobody takes models nothing moves", () => {
  const [leaving, other] = [actorKey(11), actorKey(222)];
  const holdings = [1, 2, 3].map((number) => ({ number, holder: leaving }));
  expect([...spreadOf(holdings, [other]).moves.values()]).toEqual([other, other, other]);
  expect(spreadOf(holdings, []).moves.size).toBe(0);
});

test("thousands of models are spread in a moment", () => {
  const takers = Array.from({ length: 16 }, (_, i) => actorKey(1 + i * 7_919));
  const holdings = Array.from({ length: 4_096 }, (_, i) => ({ number: i + 1, holder: takers[0] }));
  const startedAt = process.cpuUsage().user;
  expect(spreadOf(holdings, takers).moves.size).toBe(4_096 - 256);
  expect(process.cpuUsage().user - startedAt).toBeLessThan(500_000);
});
