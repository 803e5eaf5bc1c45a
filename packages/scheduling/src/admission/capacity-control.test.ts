import fc from "fast-check";
import { expect, test } from "vitest";
import { CapacityControl, type Period } from "./capacity-control.ts";

/** Requests a period that eight accelerators serve in target batches: 250 µs of one for each. */
const CAPACITY = 1_600;
const LENGTH = 50_000;
const BUSY: Period = {
  ...{ length: LENGTH, offered: CAPACITY, dispatched: CAPACITY, run: 8 * LENGTH, idle: 0, work: 8 * LENGTH },
  ...{ dropped: 0, droppedAtOnce: 0 },
};
/** A period of eight busy accelerators in which so many were dispatched, in batches as small as these make them. */
const small = (dispatched: number, more: Partial<Period> = {}): Period => ({
  ...{ ...BUSY, offered: dispatched, dispatched, work: (8 * LENGTH * dispatched) / CAPACITY },
  ...more,
});
const IDLE: Period = { ...BUSY, offered: 10, dispatched: 10, run: 2_500, idle: 100_000, work: 2_500 };
const NOTHING: Period = { ...BUSY, offered: 0, dispatched: 0, run: 0, idle: 0, work: 0 };
const flood = (dropped: number, more: Partial<Period> = {}): Period => ({
  ...BUSY,
  ...{ offered: 10 * CAPACITY, dropped },
  ...more,
});

function after(periods: readonly Period[], control = new CapacityControl()): CapacityControl {
  for (const period of periods) control.end(period);
  return control;
}
const times = (count: number, period: Period): Period[] => Array.from({ length: count }, () => period);
const perPeriod = (rate: number): number => rate * LENGTH;
const overloaded = (): CapacityControl => after([...times(20, BUSY), ...times(4, flood(9 * CAPACITY))]);

test("the capacity is that of the accelerators at target batches, however few are served in small ones (CAP-1)", () => {
  for (const dispatched of [100, 800, CAPACITY])
    expect(perPeriod(after(times(20, small(dispatched))).capacity)).toBeCloseTo(CAPACITY, -1);
});

test("what is lost below the capacity is no overload, whatever its cause and however much it is (CAP-1)", () => {
  const lost = small(200, { offered: 1_400, dropped: 1_200 });
  expect(after([...times(20, small(700)), ...times(40, lost)]).state).toBe("normal");
  const late = { ...lost, droppedAtOnce: 1_200 };
  expect(after([...times(20, small(700)), ...times(40, late)]).state).toBe("normal");
});

test("a flood is overload by its first period, a little too much by the fourth in which a good part is lost", () => {
  const control = after([...times(20, BUSY), flood(9 * CAPACITY)]);
  expect(control.state).toBe("overloaded");
  expect(perPeriod(control.rate)).toBeCloseTo(CAPACITY, -1);
  const little = { ...BUSY, offered: 1.2 * CAPACITY, dropped: 0.2 * CAPACITY };
  expect(after([...times(20, BUSY), ...times(3, little)]).state).toBe("normal");
  expect(after([...times(20, BUSY), ...times(4, little)]).state).toBe("overloaded");
});

test("a burst that comes too late is no flood; it is overload if that goes on (CAP-4)", () => {
  const late = flood(9 * CAPACITY, { droppedAtOnce: 9 * CAPACITY });
  expect(after([...times(20, BUSY), late, BUSY]).state).toBe("normal");
  expect(after([...times(20, BUSY), ...times(4, late)]).state).toBe("overloaded");
});

test("without any dispatch a capacity isn't known, and nothing is overload (CAP-2)", () => {
  const lost: Period = { ...NOTHING, offered: 5_000, dropped: 5_000 };
  const control = after(times(40, lost));
  expect([control.state, control.capacity, control.rate]).toEqual(["normal", Infinity, Infinity]);
});

test("accelerators that nobody asks for are not forgotten, and those that have died are within a second (CAP-2)", () => {
  const control = after([...times(20, BUSY), ...times(100, IDLE), ...times(20, NOTHING)]);
  expect(perPeriod(control.capacity)).toBeCloseTo(CAPACITY, -1);
  const half: Period = { ...BUSY, dispatched: CAPACITY / 2, run: 4 * LENGTH, work: 4 * LENGTH };
  expect(perPeriod(after(times(20, half), control).capacity)).toBeCloseTo(CAPACITY / 2, -1);
});

test("a limit under which next to nothing is lost rises, by asking for more of shared accelerators; losses take that back (CAP-3)", () => {
  const control = overloaded();
  const begin = control.rate;
  after(times(40, flood(0)), control);
  expect(control.rate / begin).toBeGreaterThan(1.4);
  after(times(80, flood(0.2 * CAPACITY)), control);
  expect(control.rate / begin).toBeCloseTo(1, 2);
});

test("where most is lost and little served, less is let in, and as much as before once that ends (CAP-3)", () => {
  const control = overloaded();
  const few = { dispatched: 100, work: (8 * LENGTH * 100) / CAPACITY };
  after(times(16, flood(9 * CAPACITY, { ...few, run: 25_000, idle: 300_000 })), control);
  expect(perPeriod(control.rate)).toBeLessThan(CAPACITY / 3);
  after(times(40, flood(0.02 * CAPACITY)), control);
  expect(perPeriod(control.rate)).toBeGreaterThan(0.99 * CAPACITY);
});

test("overload is over after a second in which everything could be admitted, also if nothing comes any more (CAP-4)", () => {
  const calm = small(0.9 * CAPACITY);
  expect(after(times(15, calm), overloaded()).state).toBe("overloaded");
  expect(after(times(35, calm), overloaded()).state).toBe("normal");
  const silent = after(times(5, NOTHING), after(times(10, flood(0)), overloaded()));
  expect(silent.state).toBe("stalled");
  expect(after(times(60, NOTHING), silent).state).toBe("normal");
});

test("a standstill in a flood changes nothing of the capacity that was found (CAP-4)", () => {
  const control = after(times(10, flood(0)), overloaded());
  const before = control.capacity;
  after(times(20, NOTHING), control);
  expect([control.state, control.capacity]).toEqual(["stalled", before]);
});

test("an outage of all accelerators leaves the limit as it was, however long it is (CAP-2)", () => {
  const control = overloaded();
  const before = control.rate;
  after(times(5_000, { ...NOTHING, offered: 10 * CAPACITY, dropped: 3 }), control);
  expect(control.rate).toBe(before);
});

test("runs longer than a period count over all the time that they take", () => {
  // One accelerator, always busy, with runs of ten periods.
  const long: Period = { ...BUSY, offered: 8, dispatched: 4, run: 10 * LENGTH, work: 10 * LENGTH };
  const control = after(Array.from({ length: 20 }, () => [long, ...times(9, { ...NOTHING, offered: 8 })]).flat());
  expect(control.accelerators).toBeCloseTo(1, 1);
});

test("the first periods of a thread that takes over don't make its load a flood", () => {
  const begun = small(CAPACITY / 2, { offered: CAPACITY, dropped: 0.1 * CAPACITY });
  expect(after([begun]).accelerators).toBe(8);
  expect(after([small(20, { run: 6_000, work: 5_000 }), begun]).state).toBe("normal");
});

test("a limit is never below two requests a period, whatever was counted", () => {
  const counts = fc.record({
    offered: fc.nat(20_000),
    dispatched: fc.nat(2_000),
    run: fc.nat(8 * LENGTH),
    idle: fc.nat(8 * LENGTH),
    dropped: fc.nat(20_000),
  });
  fc.assert(
    fc.property(fc.array(counts, { maxLength: 80 }), (all) => {
      const control = overloaded();
      for (const one of all) {
        control.end({ ...one, length: LENGTH, work: one.run, droppedAtOnce: 0 });
        expect(perPeriod(control.rate)).toBeGreaterThanOrEqual(2 - 1e-9);
      }
    }),
  );
});
