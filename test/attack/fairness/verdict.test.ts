import { expect, test } from "vitest";
import type { Asked } from "./neighbour.ts";
import { type Holdings, type Seen, isBack, resultOf } from "./verdict.ts";

const HELD: Holdings = { node: 300e6, children: 0, server: 20e6, descriptors: 40 };
const askedOf = (count: number, ms: number, atMs = 0): Asked[] =>
  Array.from({ length: count }, (_, i) => ({ door: i % 2 === 0 ? "http" : "nats", atMs, ms }));
const rest = { asked: askedOf(20, 5), held: HELD };
const calm: Seen = {
  kind: { name: "k", what: "", prepare: () => () => Promise.resolve() },
  ...{ sent: { 200: 30 }, seconds: 3, asked: askedOf(200, 100), rest, peak: HELD, held: HELD },
  turns: { turns: 1_000, ownMsMax: 9, wallMsMax: 40, over: 3, overShare: 0.01 },
  ...{ backMs: 500, isBack: true },
};
const brokenOf = (more: Partial<Seen>): readonly string[] => resultOf({ ...calm, ...more }).broken;

test("at each bound a kind of body holds, and a little more of each is broken", () => {
  expect(brokenOf({})).toEqual([]);
  const late: Asked[] = [...askedOf(198, 100), ...askedOf(4, 101)];
  expect(brokenOf({ asked: late })).toHaveLength(2);
  expect(brokenOf({ asked: [] })).toHaveLength(2);
  expect(brokenOf({ turns: { ...calm.turns, overShare: 0.0101 } })[0]).toContain("of the time");
  expect(brokenOf({ turns: { ...calm.turns, turns: 0 } })).toEqual(["no turn was measured"]);
  expect(brokenOf({ peak: { ...HELD, node: HELD.node + 805_306_369 } })[0]).toContain("grew by");
  expect(brokenOf({ isBack: false, held: { ...HELD, descriptors: 57 } })).toEqual(["descriptors kept 17"]);
  expect(brokenOf({ isBack: false })[0]).toContain("not served as at rest");
});

test("all is given back when the last ten requests after the flood are in time and as fast as at rest", () => {
  const after = (ms: number): Asked[] => askedOf(10, ms, 2);
  expect(isBack(HELD, after(15), rest, 1)).toBe(true);
  expect(isBack(HELD, after(16), rest, 1)).toBe(false);
  expect(isBack(HELD, after(15).slice(1), rest, 1)).toBe(false);
  expect(isBack(HELD, after(15), rest, 2)).toBe(false);
  expect(isBack({ ...HELD, server: HELD.server + 200e6 }, after(15), rest, 1)).toBe(false);
});
