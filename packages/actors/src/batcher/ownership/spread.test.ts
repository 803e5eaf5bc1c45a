import { type ActorKey, Prng, actorKey } from "@tutti/units";
import { expect, test } from "vitest";
import { type Holding, heirsOf } from "./spread.ts";

/** The holdings after every batcher has taken the models assigned to it. */
function settled(holdings: readonly Holding[], takers: readonly ActorKey[]): Holding[] {
  const heirs = heirsOf(holdings, takers);
  return holdings.map(({ number, holder }) => ({ number, holder: heirs.get(number) ?? holder }));
}
const counts = (holdings: readonly Holding[], keys: readonly ActorKey[]): number[] =>
  keys.map((key) => holdings.filter(({ holder }) => holder === key).length);
const unevenness = (all: readonly number[]): number => Math.max(...all) - Math.min(...all);

test("whichever batcher dies, its models go to those that hold the fewest, and no other model moves (OWN-1, OWN-2)", () => {
  const prng = new Prng(3);
  for (let round = 0; round < 200; round++) {
    const models = 1 + prng.nextInt(60);
    let takers = Array.from({ length: 2 + prng.nextInt(6) }, () => actorKey(1 + prng.nextInt(2 ** 31) * 64));
    let holdings: Holding[] = settled(
      Array.from({ length: models }, (_, i) => ({ number: i + 1, holder: undefined })),
      takers,
    );
    expect(unevenness(counts(holdings, takers))).toBeLessThanOrEqual(1);
    while (takers.length > 1) {
      const dead = takers[prng.nextInt(takers.length)]!;
      takers = takers.filter((key) => key !== dead);
      const seen = holdings.map(({ number, holder }) => ({ number, holder: holder === dead ? undefined : holder }));
      const next = settled(seen, takers);
      expect(unevenness(counts(next, takers))).toBeLessThanOrEqual(1);
      for (const [i, { holder }] of holdings.entries()) if (holder !== dead) expect(next[i]!.holder).toBe(holder);
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
  const one = heirsOf(holdings, takers);
  const other = heirsOf([...holdings].reverse(), [...takers].reverse());
  expect([...other].sort()).toEqual([...one].sort());
});

test("a model of a batcher that takes none stays with it, and where nobody takes models nothing is taken", () => {
  const [leaving, other] = [actorKey(11), actorKey(222)];
  const holdings = [1, 2, 3].map((number) => ({ number, holder: number === 3 ? undefined : leaving }));
  expect([...heirsOf(holdings, [other])]).toEqual([[3, other]]);
  expect(heirsOf(holdings, []).size).toBe(0);
});

test("thousands of models are spread in a moment", () => {
  const takers = Array.from({ length: 16 }, (_, i) => actorKey(1 + i * 7_919));
  const holdings = Array.from({ length: 4_096 }, (_, i) => ({ number: i + 1, holder: undefined }));
  const startedAt = process.cpuUsage().user;
  expect(heirsOf(holdings, takers).size).toBe(4_096);
  expect(process.cpuUsage().user - startedAt).toBeLessThan(500_000);
});
