import { expect, test } from "vitest";
import { fitBatchCosts, meanOf, quantileOf } from "@tutti/dynamic";
import { type BucketRunTimes, type LearnedSize, isModelRunTimes } from "@tutti/protocol";
import { type Instant, Prng, after, instant, micros, millis, seconds } from "@tutti/units";
import { RunTimeStats, asHistogram, batchCostPoints, isLearnedNews, isNews } from "./index.ts";

const AT = instant(1_000_000_000);
const W = seconds(60);
const SIZES = [1, 2, 4, 8];
const table = (batchSize: number): number => 10_000 + 2_000 * batchSize;
const bookWith = (options: Partial<ConstructorParameters<typeof RunTimeStats>[0]> = {}): RunTimeStats =>
  new RunTimeStats({ window: W, table, sizes: SIZES, ...options });
const at = (s: number): Instant => after(AT, seconds(s));
const fill = (
  runTimeStats: RunTimeStats,
  o: { app: number; count: number; from: number; alone: (i: number) => number },
): void => {
  for (let i = 0; i < o.count; i++)
    runTimeStats.note(after(at(o.from), millis(i * 10)), { app: o.app, units: 0, alone: o.alone(i) });
};
const stored = (times: BucketRunTimes): unknown =>
  JSON.parse(JSON.stringify({ name: "m", number: 1, version: "1", buckets: [times] }));

test("batches made of 4 ms + 0.5·k·l give back 4 ms and 0.5 (B10.5)", () => {
  const samples = SIZES.flatMap((batchSize) =>
    Array.from({ length: 10 }, (_, i) => {
      const alone = 10_000 + 3_000 * i;
      return { batchSize, alone, took: 4_000 + 0.5 * batchSize * alone };
    }),
  );
  const points = batchCostPoints([1, 2, 4, 8, 16], samples, table);
  expect(points[0]).toEqual({ batchSize: 1, fixed: 0, slope: 1 });
  for (const { batchSize, fixed, slope } of points.slice(1)) {
    expect(fixed).toBeCloseTo(4_000, 3);
    expect(slope).toBeCloseTo(0.5 * batchSize, 6);
  }
  expect(fitBatchCosts(samples)(4).fixed).toBeCloseTo(4_000, 3);
});

test("until batches are known, their costs come from the latency table", () => {
  expect(batchCostPoints(SIZES, [], table).map(({ slope }) => slope)).toEqual([1, 14 / 12, 18 / 12, 26 / 12]);
  expect(batchCostPoints([2], [], (batchSize) => 10 ** batchSize)[0]).toMatchObject({ slope: 2 });
  const few = Array.from({ length: 7 }, (_, i) => ({ batchSize: 2, alone: 100 + i, took: 1_000 }));
  expect(batchCostPoints([2], few, table)[0]).toMatchObject({ fixed: 0, slope: 14 / 12 });
});

test("without a sample a model that varies takes l(1) ± 20 %, and samples take the place of the guess", () => {
  const runTimeStats = bookWith({ variesBySpec: true });
  runTimeStats.count(AT, 7, 10);
  const cold = runTimeStats.times(AT);
  expect(cold.kind).toBe("dynamic");
  expect(cold.apps).toMatchObject([{ app: 7, samples: 0, share: 1 }]);
  expect(quantileOf(asHistogram(cold.apps[0]!), 0.02)).toBeGreaterThanOrEqual(9_600);
  expect(quantileOf(asHistogram(cold.apps[0]!), 0.98)).toBeLessThanOrEqual(14_400);
  expect(cold.pool).toBe(undefined);
  fill(runTimeStats, { app: 7, count: 15, from: 1, alone: () => 50_000 });
  expect(meanOf(asHistogram(runTimeStats.times(at(2)).apps[0]!)) / 31_000).toBeCloseTo(1, 1);
  fill(runTimeStats, { app: 7, count: 15, from: 3, alone: () => 50_000 });
  expect(runTimeStats.times(at(4)).apps[0]!.mean).toBe(50_000);
});

test("an application of fewer than 30 samples is planned with those of all", () => {
  const runTimeStats = bookWith();
  fill(runTimeStats, { app: 1, count: 100, from: 0, alone: (i) => 10_000 + 100 * i });
  fill(runTimeStats, { app: 2, count: 29, from: 2, alone: () => 90_000 });
  const [one, two] = [...runTimeStats.times(at(3)).apps].sort((a, b) => a.app - b.app);
  expect(one!.p99).toBeLessThan(20_000);
  expect(two).toMatchObject({ samples: 29 });
  expect(two!.p50).toBeLessThan(20_000);
  fill(runTimeStats, { app: 2, count: 1, from: 4, alone: () => 90_000 });
  expect([...runTimeStats.times(at(5)).apps].find(({ app }) => app === 2)).toMatchObject({ samples: 30, p50: 90_000 });
});

test("what moved is followed within two windows, and the older samples are gone (B9)", () => {
  const runTimeStats = bookWith();
  for (let s = 0; s < 60; s++) fill(runTimeStats, { app: 1, count: 2, from: s, alone: (i) => 20_000 + 1_000 * i });
  for (let s = 60; s < 121; s++) {
    fill(runTimeStats, { app: 1, count: 2, from: s, alone: (i) => 80_000 + 1_000 * i });
    if (s === 119) expect(runTimeStats.times(at(s)).apps[0]!.mean).toBeLessThan(80_000);
  }
  expect(runTimeStats.times(at(121)).apps[0]!.mean).toBe(80_500);
});

test("while nothing new comes, nothing is forgotten", () => {
  const runTimeStats = bookWith();
  fill(runTimeStats, { app: 1, count: 40, from: 0, alone: () => 20_000 });
  expect(runTimeStats.times(at(86_400)).apps[0]).toMatchObject({ samples: 40, p50: 20_000 });
});

test("of samples the last 2,000 are kept", () => {
  const runTimeStats = bookWith();
  fill(runTimeStats, { app: 1, count: 1_500, from: 0, alone: () => 1_000 });
  fill(runTimeStats, { app: 1, count: 2_000, from: 20, alone: () => 2_000 });
  expect(runTimeStats.times(at(41)).apps[0]).toMatchObject({ samples: 2_000, mean: 2_000 });
});

test("shares follow arrivals, and of many applications those of most arrivals are told apart", () => {
  const runTimeStats = bookWith();
  for (let s = 0; s < 600; s++) {
    runTimeStats.count(at(s), 1, 30);
    runTimeStats.count(at(s), 2, 10);
  }
  expect(runTimeStats.times(at(600)).apps.map(({ share }) => share)).toEqual([0.75, 0.25]);
  for (let app = 10; app < 400; app++) runTimeStats.count(at(600), app, 1);
  const { apps } = runTimeStats.times(at(600));
  expect(apps).toHaveLength(32);
  expect(apps.slice(0, 2).map(({ app }) => app)).toEqual([1, 2]);
});

test("a model whose times hardly vary is static, one whose applications differ is not, and noise alone doesn't make it change its mind", () => {
  const prng = new Prng(1);
  const steady = bookWith();
  fill(steady, { app: 1, count: 200, from: 0, alone: () => 20_000 * (0.95 + 0.1 * prng.nextFloat()) });
  expect(steady.times(at(3)).kind).toBe("static");
  fill(steady, { app: 2, count: 40, from: 4, alone: () => 60_000 });
  expect(steady.times(at(5)).kind).toBe("dynamic");
  expect(bookWith().times(AT).kind).toBe("unknown");
});

test("a machine whose cores are wanted by others makes no model dynamic, where runs of the same request show it (RB3)", () => {
  const prng = new Prng(2);
  const delayed = (own: number) => () => micros(own + (prng.nextFloat() < 0.1 ? 3_000 : 0));
  const [alone, long] = [delayed(6_000), delayed(9_000)];
  const kindsOf = (times: (request: number) => number): string[] => {
    const runTimeStats = bookWith();
    fill(runTimeStats, { app: 1, count: 100, from: 0, alone: times });
    const before = runTimeStats.times(at(3)).kind;
    for (let i = 0; i < 20; i++) runTimeStats.notePair(at(3), micros(times(i)), micros(times(i)));
    return [before, runTimeStats.times(at(4)).kind];
  };
  expect(kindsOf(() => alone())).toEqual(["dynamic", "static"]);
  expect(kindsOf((i) => (i % 2 === 0 ? long() : alone()))).toEqual(["dynamic", "dynamic"]);
  // Long ones that are rare, and are among the samples, but among none of the pairs.
  expect(kindsOf((i) => (i > 20 && i % 10 === 0 ? 20_000 : 6_000 + prng.nextInt(50)))).toEqual(["dynamic", "dynamic"]);
});

test("types of accelerators that take unlike times make no model dynamic, and within each type inputs are found out (RB3)", () => {
  const bookOf = (alone: (type: string, i: number) => number): RunTimeStats => {
    const runTimeStats = bookWith();
    for (let i = 0; i < 60; i++) {
      const type = ["fast", "slow"][i % 2]!;
      const time = alone(type, i);
      runTimeStats.note(after(AT, millis(i)), { app: 1, units: 0, alone: time, type });
      runTimeStats.notePair(after(AT, millis(i)), micros(time), micros(time), type);
    }
    return runTimeStats;
  };
  const isSlow = (type: string): boolean => type === "slow";
  expect(bookOf((type) => (isSlow(type) ? 8_000 : 1_000)).times(at(1)).kind).toBe("static");
  // noise of the machine on each type
  const noisy = bookWith();
  const prng = new Prng(3);
  for (let i = 0; i < 200; i++) {
    const type = ["fast", "slow"][i % 2]!;
    const time = (): number => (isSlow(type) ? 8_000 : 1_000) * (prng.nextFloat() < 0.2 ? 1.6 : 1);
    noisy.note(after(AT, millis(i)), { app: 1, units: 0, alone: time(), type });
    noisy.notePair(after(AT, millis(i)), micros(time()), micros(time()), type);
  }
  expect(noisy.times(at(1)).kind).toBe("static");
  const varying = bookOf((type, i) => (isSlow(type) ? 8_000 : 1_000 + 100 * (i % 7)));
  expect(varying.times(at(1)).kind).toBe("dynamic");
});

test("a profiler that starts again doesn't take times of unlike types, published together, for those of unlike inputs", () => {
  const before = bookWith();
  for (let i = 0; i < 100; i++)
    before.note(after(AT, millis(i)), { app: 1, units: 0, alone: i % 2 ? 1_000 : 8_000, type: String(i % 2) });
  const times = before.times(at(1));
  expect(times.kind).toBe("static");
  const again = bookWith({ restored: { at: at(2), times } });
  expect(again.times(at(3)).kind).toBe("static");
  for (let i = 0; i < 29; i++) again.note(at(4), { app: 1, units: 0, alone: 1_000 + 100 * (i % 7), type: "1" });
  expect(again.times(at(5)).kind).toBe("static");
  again.note(at(6), { app: 1, units: 0, alone: 1_000, type: "1" });
  expect(again.times(at(7)).kind).toBe("dynamic");
});

test("two requests that a busy moment made slow twice make no model dynamic (RB3)", () => {
  // As seen on a machine of which two cores carried everything: what runs 100 ms later is delayed by the same.
  const delayed = [10_520, 10_506, 10_447, 8_967, 7_844, 7_671, 7_119];
  const runTimeStats = bookWith();
  fill(runTimeStats, { app: 1, count: 46, from: 0, alone: (i) => delayed[i] ?? 6_126 + 8 * i });
  for (let i = 0; i < 14; i++) runTimeStats.notePair(at(3), micros(6_126 + 40 * (i % 3)), micros(6_126 + 50 * (i % 3)));
  for (const [once, again] of [
    [10_506, 7_671],
    [10_447, 7_844],
    [6_415, 8_967],
  ] as const)
    runTimeStats.notePair(at(3), micros(once), micros(again));
  expect(runTimeStats.times(at(4)).kind).toBe("static");
});

test("size hints tell times apart in at most eight classes of equal mass", () => {
  const runTimeStats = bookWith();
  for (let i = 0; i < 800; i++) {
    const units = 1 + ((i * 37) % 160);
    runTimeStats.note(at(1), { app: 1, units, alone: 100 * units });
  }
  const { byUnits } = runTimeStats.times(at(2)).apps[0]!;
  expect(byUnits!.map(({ upTo }) => upTo)).toEqual([20, 40, 60, 80, 100, 120, 140, 160]);
  for (const [i, one] of byUnits!.entries()) {
    expect(one.samples).toBe(100);
    expect(quantileOf(asHistogram(one), 0.01)).toBeGreaterThanOrEqual(100 * (20 * i + 1));
    expect(quantileOf(asHistogram(one), 0.99)).toBeLessThanOrEqual(100 * 20 * (i + 1) + 100);
  }
});

test("where many come without a hint, or all with the same, hints tell nothing apart", () => {
  const runTimeStats = bookWith();
  for (let i = 0; i < 300; i++) runTimeStats.note(at(1), { app: 1, units: i % 2 === 0 ? 0 : i, alone: 10_000 + i });
  for (let i = 0; i < 300; i++) runTimeStats.note(at(1), { app: 2, units: 5, alone: 10_000 + i });
  expect(runTimeStats.times(at(2)).apps.map(({ byUnits }) => byUnits)).toEqual([undefined, undefined]);
});

test("what is published reads as it was, and a book that starts with it goes on from there", () => {
  const prng = new Prng(3);
  const runTimeStats = bookWith();
  for (let i = 0; i < 500; i++) {
    const units = 1 + prng.nextInt(300);
    runTimeStats.note(after(at(0), millis(i)), { app: 1, units, alone: 200 * units + prng.nextInt(100) });
  }
  for (let i = 0; i < 20; i++)
    runTimeStats.noteBatch(at(1), { batchSize: 4, alone: 10_000 + i, took: 4_000 + 2 * (10_000 + i) });
  runTimeStats.count(at(1), 1, 50);
  runTimeStats.name(1, "camera");
  const before = runTimeStats.times(at(2));
  expect(isModelRunTimes(stored(before))).toBe(true);
  const after_ = bookWith({ restored: { at: at(100), times: before } }).times(at(101));
  expect(after_).toMatchObject({ kind: "dynamic", apps: [{ app: 1, name: "camera", share: 1, samples: 500 }] });
  for (const key of ["mean", "p50"] as const) expect(after_.apps[0]![key] / before.apps[0]![key]).toBeCloseTo(1, 1);
  expect(after_.apps[0]!.byUnits!.map(({ upTo }) => upTo)).toEqual(before.apps[0]!.byUnits!.map(({ upTo }) => upTo));
  expect(after_.costs[2]!.slope).toBeCloseTo(2, 1);
  expect(after_.costs[2]!.fixed / 4_000).toBeCloseTo(1, 1);
});

test("only what would be decided otherwise is news", () => {
  const runTimeStats = bookWith();
  fill(runTimeStats, { app: 1, count: 200, from: 0, alone: (i) => 10_000 + 100 * (i % 50) });
  runTimeStats.count(at(2), 1, 1);
  const before = runTimeStats.times(at(3));
  expect(isNews(undefined, before)).toBe(true);
  expect(isNews(before, before)).toBe(false);
  fill(runTimeStats, { app: 1, count: 5, from: 3, alone: (i) => 10_000 + 1_000 * i });
  expect(isNews(before, runTimeStats.times(at(4)))).toBe(false);
  fill(runTimeStats, { app: 1, count: 100, from: 5, alone: () => 15_000 });
  expect(isNews(before, runTimeStats.times(at(7)))).toBe(true);
});

test("values that no profiler has written are refused, whatever is wrong with them (T8)", () => {
  const runTimeStats = bookWith();
  for (let i = 0; i < 200; i++) runTimeStats.note(at(1), { app: 1, units: i + 1, alone: 10_000 + 100 * i });
  runTimeStats.count(at(1), 1, 1);
  const good = stored(runTimeStats.times(at(2))) as { buckets: [Record<string, unknown>] };
  expect(isModelRunTimes(good)).toBe(true);
  const spoilt = (path: string, value: unknown): unknown => {
    const copy = structuredClone(good) as never;
    const keys = path.split(".");
    let place: Record<string, unknown> = copy;
    for (const key of keys.slice(0, -1)) place = place[key] as Record<string, unknown>;
    place[keys.at(-1)!] = value;
    return copy;
  };
  for (const [path, value] of [
    ["buckets", undefined],
    ["number", -1],
    ["name", 5],
    ["buckets.0", null],
    ["buckets.0.kind", "fast"],
    ["buckets.0.apps.0.edges", [1, 2]],
    ["buckets.0.apps.0.edges.1", 0],
    ["buckets.0.apps.0.edges.1", Infinity],
    ["buckets.0.apps.0.masses.0", -1],
    ["buckets.0.apps.0.masses.0", 0.5],
    ["buckets.0.apps.0.masses", []],
    ["buckets.0.apps.0.share", 2],
    ["buckets.0.apps.0.byUnits.1.upTo", 0],
    ["buckets.0.apps.0.byUnits.1.edges", "none"],
    ["buckets.0.apps.0.app", 2 ** 32],
    ["buckets.0.apps", Array.from({ length: 33 }, () => good)],
    ["buckets.0.pool.mean", "1"],
    ["buckets.0.costs.1.batchSize", 1],
    ["buckets.0.costs.1.slope", 0],
    ["buckets.0.costSamples", 1.5],
  ] as const)
    expect(isModelRunTimes(spoilt(path, value)), `${path} = ${JSON.stringify(value)}`).toBe(false);
  expect([null, 5, "x", [], {}].map(isModelRunTimes)).toEqual([false, false, false, false, false]);
});

test("times are whole numbers of tenths of microseconds, so a model of 32 applications with hints is stored in less than 120 kB", () => {
  const runTimeStats = bookWith();
  const prng = new Prng(2);
  for (let app = 0; app < 32; app++) {
    runTimeStats.count(at(1), app, 100);
    for (let i = 0; i < 400; i++) {
      const units = 1 + prng.nextInt(500);
      runTimeStats.note(at(1), { app, units, alone: micros(Math.round(units * 100 + prng.nextInt(1_000))) });
    }
  }
  expect(JSON.stringify(runTimeStats.times(at(2))).length).toBeLessThan(120_000);
});

test("what live runs taught is news when a latency moved by 5 %, a type runs for the first time, or twice as many runs stand behind it", () => {
  const size = (batchSize: number, learned: number, runs = 0, type = "cpu"): LearnedSize => ({
    ...{ bucket: 0, type, batchSize, given: micros(1_000), learned: micros(learned) },
    ...(runs > 0 && { spread: { runs, p10: 900, p50: 1_000, p90: 1_100 } }),
  });
  const before = [size(1, 1_000, 10), size(2, 2_000)];
  const isNewsAfter = (...now: LearnedSize[]): boolean => isLearnedNews(before, now);
  expect(isLearnedNews([], before)).toBe(true);
  expect(isLearnedNews([], [])).toBe(false);
  expect(isNewsAfter(...before)).toBe(false);
  expect(isNewsAfter(size(1, 1_000, 8), size(2, 2_090))).toBe(false);
  expect(isNewsAfter(size(1, 1_000, 8), size(2, 2_110))).toBe(true);
  expect(isNewsAfter(size(1, 1_000, 8), size(3, 3_000, 11))).toBe(false);
  expect(isNewsAfter(size(1, 1_000, 8), size(3, 3_000, 12))).toBe(true);
  expect(isNewsAfter(...before, size(1, 1_000, 8, "half"))).toBe(true);
});
