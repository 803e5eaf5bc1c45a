import * as fc from "fast-check";
import { expect, test } from "vitest";
import {
  ROUTE_SLOTS,
  ROUTE_STATES_MAX,
  type Route,
  type RouteSlice,
  type RouteState,
  isRoute,
  percentOf,
  slotOf,
  stateBefore,
  stateOf,
  versionAt,
  versionsOf,
  withDefault,
  withPercent,
  withState,
} from "./route.ts";
import { instant } from "@tutti/units";
import { isModelName, isVersion, publicNameOf, splitModelName, versionName } from "./versions.ts";

const state = (slices: readonly RouteSlice[], more: Partial<RouteState> = {}): RouteState => ({
  ...{ at: instant(1), by: "operator", why: "", default: "1", slices },
  ...more,
});
const percents = fc.array(fc.tuple(fc.constantFrom("2", "3", "4"), fc.integer({ min: 0, max: 10_000 })), {
  maxLength: 40,
});
/** Slices after a list of changes; a change that can't be made is skipped. */
const slicesAfter = (changes: readonly (readonly [string, number])[]): readonly RouteSlice[] =>
  changes.reduce<readonly RouteSlice[]>(
    (slices, [version, hundredths]) => withPercent(slices, version, hundredths / 100) ?? slices,
    [],
  );
const versionsBySlot = (slices: readonly RouteSlice[]): string[] =>
  Array.from({ length: ROUTE_SLOTS }, (_, slot) => versionAt(state(slices), slot));

test("ten percent of a version are its tenth of the slots, and the default has the rest", () => {
  const slices = withPercent([], "2", 10)!;
  expect(slices).toEqual([{ version: "2", from: 0, to: 1_000 }]);
  expect([versionAt(state(slices), 999), versionAt(state(slices), 1_000)]).toEqual(["2", "1"]);
  expect([percentOf(state(slices), "1"), percentOf(state(slices), "2"), percentOf(state(slices), "3")]).toEqual([
    90, 10, 0,
  ]);
});

test("a share that others have is not the default's to give", () => {
  const slices = withPercent([], "2", 70)!;
  expect(withPercent(slices, "3", 40)).toBeUndefined();
  expect(percentOf(state(withPercent(slices, "3", 30)!), "1")).toBe(0);
});

test("whatever was changed before, each version has the percent that was asked for, and together they have all (RO3)", () => {
  fc.assert(
    fc.property(
      percents,
      fc.constantFrom("2", "3", "4"),
      fc.integer({ min: 0, max: 10_000 }),
      (before, version, hundredths) => {
        const slices = withPercent(slicesAfter(before), version, hundredths / 100);
        if (slices === undefined) return;
        const now = state(slices);
        expect(isRoute({ name: "m", states: [now] })).toBe(true);
        expect(percentOf(now, version)).toBeCloseTo(hundredths / 100, 9);
        expect(versionsOf(now).reduce((sum, each) => sum + percentOf(now, each), 0)).toBeCloseTo(100, 9);
        const counted = versionsBySlot(slices).filter((each) => each === version).length;
        expect(counted).toBe(hundredths);
      },
    ),
    { numRuns: 50 },
  );
});

test("a changed share moves requests only between its version and the default, a larger one only towards it (RO2)", () => {
  fc.assert(
    fc.property(
      percents,
      fc.constantFrom("2", "3", "4"),
      fc.integer({ min: 0, max: 10_000 }),
      (changes, version, hundredths) => {
        const slices = slicesAfter(changes);
        const changed = withPercent(slices, version, hundredths / 100);
        if (changed === undefined) return;
        const grows = percentOf(state(changed), version) > percentOf(state(slices), version);
        const [before, after] = [versionsBySlot(slices), versionsBySlot(changed)];
        const moves = new Set(
          before.map((was, slot) => `${was} to ${after[slot]}`).filter((_, i) => before[i] !== after[i]),
        );
        for (const move of moves) expect(move).toBe(grows ? `1 to ${version}` : `${version} to 1`);
      },
    ),
    { numRuns: 50 },
  );
});

test("slots don't depend on anything but name and id, and are even over ids that count up (RO1)", () => {
  expect([slotOf("mlp", "a-1"), slotOf("mlp", "a-2"), slotOf("other", "a-1")]).toEqual([
    slotOf("mlp", "a-1"),
    slotOf("mlp", "a-2"),
    slotOf("other", "a-1"),
  ]);
  expect(slotOf("mlp", "a-1")).not.toBe(slotOf("other", "a-1"));
  for (const make of [(i: number) => `${i}`, (i: number) => `_INBOX.app.Kq2x.${i}`, (i: number) => `order-${i}-eu`]) {
    const tenths = new Array<number>(10).fill(0);
    for (let i = 0; i < 100_000; i++) tenths[Math.floor(slotOf("mlp", make(i)) / 1_000)]!++;
    // Five standard deviations of an expected 10,000 of 100,000.
    for (const count of tenths) expect(Math.abs(count - 10_000)).toBeLessThan(475);
  }
});

test("another default has its predecessor's share and its own, and the others keep theirs", () => {
  const before = state(withPercent(withPercent([], "2", 20)!, "3", 30)!);
  const now = { ...before, ...withDefault(before, "2") };
  expect([percentOf(now, "2"), percentOf(now, "3"), percentOf(now, "1")]).toEqual([70, 30, 0]);
  expect(isRoute({ name: "m", states: [now] })).toBe(true);
});

test("going back brings the state before the last change, and the last sixteen are kept (RO4)", () => {
  let route: Route = { name: "m", states: [state([])] };
  expect(stateBefore(route)).toBeUndefined();
  for (let percent = 1; percent <= 40; percent++) route = withState(route, state(withPercent([], "2", percent)!));
  expect(route.states).toHaveLength(ROUTE_STATES_MAX);
  expect(percentOf(stateOf(route), "2")).toBe(40);
  expect(percentOf(state(stateBefore(route)!.slices), "2")).toBe(39);
});

test("what a reader could not bear is no route: slices that overlap, that are the default's, versions that can't be in a header", () => {
  const good = state(withPercent([], "2", 10)!, { shadow: { version: "3", percent: 100 } });
  const ramp = {
    ...{ version: "2", startedAt: instant(1), steppedAt: instant(1), over: 5, steps: [1, 10], step: 0 },
    ...{ badMax: 0.01, mismatchMax: 0 },
  };
  const isGood = (one: unknown): boolean => isRoute({ name: "m", states: [one] });
  expect(isGood(good)).toBe(true);
  expect(isGood({ ...good, ramp })).toBe(true);
  const bad: unknown[] = [
    ...[null, [], "x", { ...good, at: "now" }, { ...good, by: 3 }, { ...good, why: "x".repeat(2_000) }],
    ...["a b", "", "a/b", "ä", "x".repeat(65)].map((version) => ({ ...good, default: version })),
    { ...good, slices: [{ version: "1", from: 0, to: 5 }] },
    { ...good, slices: [{ version: "2", from: 5, to: 5 }] },
    { ...good, slices: [{ version: "2", from: 0, to: 10_001 }] },
    { ...good, slices: [{ version: "2", from: 0.5, to: 10 }] },
    { ...good, slices: [{ version: "2", from: 0, to: 10 }, { version: "3", from: 9, to: 20 }] }, // prettier-ignore
    { ...good, slices: Array.from({ length: 65 }, (_, i) => ({ version: "2", from: 2 * i, to: 2 * i + 1 })) },
    ...[0, 101, NaN, "5"].map((percent) => ({ ...good, shadow: { version: "3", percent } })),
    { ...good, shadow: { version: "3", percent: 5, tolerance: -1 } },
    ...[{ step: 2 }, { steps: [] }, { steps: [101] }, { badMax: 2 }, { over: -1 }].map((part) => ({
      ...good,
      ramp: { ...ramp, ...part },
    })),
  ];
  for (const one of bad) expect(isGood(one), JSON.stringify(one)).toBe(false);
  expect(isRoute({ name: "m/2", states: [good] })).toBe(false);
  expect(isRoute({ name: "m", states: [] })).toBe(false);
  expect(isRoute({ name: "m", states: new Array(17).fill(good) })).toBe(false);
});

test("a version beside the default is called name/version, which can be a subject's token and a key, and no application's name", () => {
  expect(versionName("mlp", "2")).toBe("mlp/2");
  expect(splitModelName("mlp/2")).toEqual({ name: "mlp", version: "2" });
  expect(splitModelName("mlp")).toEqual({ name: "mlp", version: undefined });
  expect(publicNameOf("mlp/2")).toBe("mlp");
  for (const name of ["mlp", "mlp/2", "a/b-c_d", `${"x".repeat(62)}/2`]) expect(isModelName(name)).toBe(true);
  for (const name of ["", "/", "mlp/", "/2", "a/b/c", "a.b", "a/*", "a b", "a/2.1", `${"x".repeat(63)}/2`])
    expect(isModelName(name), name).toBe(false);
  expect(["2", "2.1", "v2-beta", "é", "", "a/b", "a b"].map(isVersion)).toEqual([
    true,
    true,
    true,
    false,
    false,
    false,
    false,
  ]);
});
