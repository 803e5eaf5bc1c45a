import { type Instant, type Micros, Prng, millis, seconds } from "@tutti/units";
import { expect, test } from "vitest";
import { LatencyObserver, LatencyTable } from "./index.ts";

const BEGIN = 1_790_000_000_000_000;
const at = (us: number) => (BEGIN + us) as Instant;
/** Table 2's ResNet50. */
const TRUE = LatencyTable.affine({ alpha: 1_053, beta: 5_072, batchSizeMax: 16 });
const seedOf = (factor: number) =>
  LatencyTable.affine({ alpha: factor * 1_053, beta: factor * 5_072, batchSizeMax: 16 });

/** Runs of sizes 6 to 10 in turn, at so many a second. @returns the time of the last */
function run(
  observer: LatencyObserver,
  { from, count, perSecond }: { from: number; count: number; perSecond: number },
  factor: (i: number) => number,
): number {
  let us = from;
  for (let i = 0; i < count; i++) {
    const batchSize = 6 + (i % 5);
    us = from + Math.round((1e6 * i) / perSecond);
    observer.note(at(us), batchSize, Math.round(factor(i) * TRUE.latency(batchSize)) as Micros);
  }
  return us;
}
const largestError = (table: LatencyTable, truth = TRUE): number =>
  Math.max(...truth.toPoints().map(({ batchSize, latency }) => Math.abs(table.latency(batchSize) / latency - 1)));
const observerOf = (seed: LatencyTable) => new LatencyObserver({ seed, window: seconds(30) });

test("a profile that is right is believed: runs with rare long ones, as beside busy neighbours, move nothing (O1, O2)", () => {
  const prng = new Prng(3);
  const observer = observerOf(TRUE);
  let us = 0;
  for (let look = 0; look < 60; look++) {
    const noisy = () => (prng.nextFloat() < 0.3 ? 1 + 2 * prng.nextFloat() : 1);
    us = run(observer, { from: us + 1, count: 100, perSecond: 100 }, noisy);
    expect(largestError(observer.planning(at(us)))).toBeLessThan(0.001);
  }
});

test("after 200 runs l(b) is within 2 % of the truth at every size, from a seed that is wrong by half (O2, O3)", () => {
  for (const wrong of [0.5, 0.67, 1.5, 2]) {
    const prng = new Prng(5);
    const observer = observerOf(seedOf(wrong));
    const us = run(observer, { from: 0, count: 200, perSecond: 100 }, () => 1 + 0.01 * prng.nextNormal());
    expect(largestError(observer.planning(at(us)))).toBeLessThan(0.02);
  }
});

test.each([
  ["slower", 1.5],
  ["faster", 0.6],
])("an accelerator that becomes %s is followed within 5 s, and back again", (_, factor) => {
  const observer = observerOf(TRUE);
  let us = run(observer, { from: 0, count: 1_000, perSecond: 100 }, () => 1);
  for (const speed of [factor, 1]) {
    const began = us;
    let followedAt = Infinity;
    for (let second = 0; second < 6; second++) {
      us = run(observer, { from: us + 1, count: 100, perSecond: 100 }, () => speed);
      const truth = LatencyTable.affine({ alpha: speed * 1_053, beta: speed * 5_072, batchSizeMax: 16 });
      if (largestError(observer.planning(at(us)), truth) < 0.02) followedAt = Math.min(followedAt, us);
    }
    expect(followedAt - began).toBeLessThan(5e6);
  }
});

test("a size that runs slower than the others has its own latency, and keeps it while it doesn't run", () => {
  const observer = observerOf(TRUE);
  const us = run(observer, { from: 0, count: 400, perSecond: 100 }, (i) => (i % 5 === 4 ? 1.3 : 1));
  const slow = Math.ceil(1.3 * TRUE.latency(10));
  expect(observer.planning(at(us)).latency(10)).toBe(slow);
  let later = us;
  for (let i = 0; i < 1_000; i++) observer.note(at((later = us + 10_000 * i)), 6, TRUE.latency(6));
  const table = observer.planning(at(later));
  expect([table.latency(10), table.latency(6)]).toEqual([slow, TRUE.latency(6)]);
});

test("sizes that a slow time keeps from running are believed to be fast again with the others (O3, O4)", () => {
  const observer = observerOf(TRUE);
  let us = run(observer, { from: 0, count: 200, perSecond: 100 }, () => 3);
  expect(observer.planning(at(us)).latency(16)).toBe(3 * TRUE.latency(16));
  // Nothing but batches of two runs by what is believed now; the others were seen to be slow a moment ago.
  for (let look = 0; look < 3; look++) {
    for (let i = 0; i < 100; i++) observer.note(at((us += 10_000)), 2, TRUE.latency(2));
    observer.planning(at(us));
  }
  expect(largestError(observer.planning(at(us)))).toBeLessThan(0.001);
});

test("a standstill of a second, which a few runs of each accelerator outlast, is no change of speed (O3)", () => {
  const observer = observerOf(TRUE);
  const us = run(observer, { from: 0, count: 1_600, perSecond: 800 }, () => 1);
  for (let gpu = 0; gpu < 8; gpu++) observer.note(at(us + 1e6), 8, (1e6 + TRUE.latency(8)) as Micros);
  expect(observer.planning(at(us + 1e6))).toBe(TRUE);
});

test("fewer than eight runs, sizes that the seed lacks, and runs long ago say nothing (O5)", () => {
  const observer = observerOf(TRUE);
  for (let i = 0; i < 7; i++) observer.note(at(i), 4, millis(90));
  for (let i = 0; i < 99; i++) observer.note(at(i), 17, millis(90));
  expect(observer.planning(at(100))).toBe(TRUE);
  observer.note(at(100), 4, millis(90));
  expect(observer.planning(at(100)).latency(4)).toBe(millis(90));
  expect(observer.planning(at(31e6))).toBe(TRUE);
});

test("the spread of recent runs is told by their quantiles", () => {
  const observer = observerOf(TRUE);
  for (let i = 1; i <= 100; i++) observer.note(at(i), 4, (100 * i) as Micros);
  expect(observer.spread(at(100))).toEqual([{ batchSize: 4, runs: 100, p10: 1_000, p50: 5_000, p90: 9_000 }]);
});

/** Planned over true latencies, the smallest and largest of minutes in which runs take random multiples. */
function drift(factor: (prng: Prng) => number, minutes: number): readonly [number, number] {
  const prng = new Prng(11);
  const observer = observerOf(TRUE);
  let [us, least, most] = [0, Infinity, 0];
  for (let second = 0; second < 60 * minutes; second++) {
    us = run(observer, { from: us + 1, count: 300, perSecond: 300 }, () => factor(prng));
    const table = observer.planning(at(us));
    for (const { batchSize, latency } of TRUE.toPoints()) {
      least = Math.min(least, table.latency(batchSize) / latency);
      most = Math.max(most, table.latency(batchSize) / latency);
    }
  }
  return [least, most];
}

test.each([
  ["40 % of the runs take twice as long", (prng: Prng) => (prng.nextFloat() < 0.4 ? 2 : 1), 1.05],
  ["10 % take ten times as long", (prng: Prng) => (prng.nextFloat() < 0.1 ? 10 : 1), 1.05],
  ["they vary by a third, as a lognormal", (prng: Prng) => Math.exp(0.3 * prng.nextNormal()), 1.1],
])("the typical run stays the median for minutes where %s (O1)", (_, factor, most) => {
  const [least, largest] = drift(factor, 2);
  expect(least).toBeGreaterThan(2 - most);
  expect(largest).toBeLessThan(most);
});

test("sizes that don't run differ from the seed as those around them do (O4)", () => {
  const observer = observerOf(TRUE);
  let us = 0;
  for (let i = 0; i < 2_000; i++) {
    const batchSize = [1, 2, 10, 11][i % 4]!;
    observer.note(
      at((us = 5_000 * i)),
      batchSize,
      Math.round((batchSize > 2 ? 1.3 : 1) * TRUE.latency(batchSize)) as Micros,
    );
    if (i % 200 === 199) observer.planning(at(us));
  }
  const ratio = (batchSize: number) => observer.planning(at(us)).latency(batchSize) / TRUE.latency(batchSize);
  expect([ratio(1), ratio(10), ratio(16)].map((one) => one.toFixed(2))).toEqual(["1.00", "1.30", "1.30"]);
  expect(ratio(6)).toBeCloseTo(1.15, 2);
});
