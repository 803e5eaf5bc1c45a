import { type ModelSpec, type ModelStatus, type ProfileMeasured, TYPES_MAX } from "@tutti/protocol";
import { type Micros, instant, micros, millis, seconds } from "@tutti/units";
import { expect, test } from "vitest";
import { LiveProfiles } from "./live-profiles.ts";

const spec = {
  name: "m",
  number: 1,
  version: "1",
  slo: millis(25),
  batchSizeMax: 4,
  buckets: [{}],
} as unknown as ModelSpec;
const points = [1, 2, 4].map((batchSize) => ({ batchSize, latency: millis(4 + batchSize) }));
const status = { profiles: [points], means: [points], executorTypes: ["whole"] } as unknown as ModelStatus;
const serving = (...types: string[]): Map<string, number> => new Map(types.map((type) => [type, 1]));
const WHOLE = serving("whole");
const alone = (run: Micros) => ({ type: "whole", bucket: 0, batchSize: 1, run });
const live = (): LiveProfiles => new LiveProfiles(spec, status, { window: seconds(10), overhead: millis(1) });

test("slower runs are followed, until l(1) takes 0.8 of what an SLO leaves: a model never refuses itself for good", () => {
  const profiles = live();
  for (let i = 0; i < 100; i++) profiles.note(instant(1_000_000 + i), alone(millis(15)));
  expect(latencies(profiles.news(instant(1_100_000), WHOLE))).toEqual([15, 18, 24]);
  for (let i = 0; i < 128; i++) profiles.note(instant(1_200_000 + i), alone(millis(40)));
  expect(latencies(profiles.news(instant(1_300_000), WHOLE))?.[0]).toBe(19.2);
  expect(profiles.news(instant(1_400_000), WHOLE)).toBeUndefined();
});

test("when nothing has run for long, plans go back to the seed", () => {
  const profiles = live();
  for (let i = 0; i < 100; i++) profiles.note(instant(1_000_000 + i), alone(millis(9)));
  expect(profiles.news(instant(1_100_000), WHOLE)).toBeDefined();
  expect(profiles.news(instant(60_000_000), WHOLE)?.profiles[0]?.[0]?.latency).toBe(millis(5));
});

test("a run as long as planned is no news", () => {
  const profiles = live();
  for (let i = 0; i < 100; i++) profiles.note(instant(1_000_000 + i), alone(micros(5_000)));
  expect(profiles.news(instant(1_100_000), WHOLE)).toBeUndefined();
});

test("what was measured, what plans use and the recent runs' spread stand beside one another, once something has run", () => {
  const profiles = live();
  expect(profiles.learned(instant(1_000_000))).toEqual([]);
  for (let i = 0; i < 20; i++) profiles.note(instant(1_000_000 + i), { ...alone(micros(8_400)), batchSize: 3 });
  profiles.news(instant(1_000_100), WHOLE);
  const spread = { runs: 20, p10: 8_400, p50: 8_400, p90: 8_400 };
  const of = (batchSize: number, given: number, learned: number) => ({
    ...{ bucket: 0, type: "whole", batchSize, given: millis(given), learned: millis(learned) },
  });
  // All sizes move with the one that ran.
  expect(profiles.learned(instant(1_000_100))).toEqual([
    of(1, 5, 6),
    of(2, 6, 7.2),
    { ...of(3, 7, 8.4), spread },
    of(4, 8, 9.6),
  ]);
  expect(profiles.learned(instant(9_000_000))).toEqual([of(1, 5, 6), of(2, 6, 7.2), of(4, 8, 9.6)]);
  profiles.news(instant(60_000_000), WHOLE);
  expect(profiles.learned(instant(60_000_000))).toEqual([]);
});

test("at the bound of sizes those that ran are told, and no more than it has room for", () => {
  const buckets = Array.from({ length: 64 }, () => ({}));
  const sizes = Array.from({ length: 64 }, (_, i) => ({ batchSize: i + 1, latency: millis(5) }));
  const profiles = new LiveProfiles(
    { ...spec, batchSizeMax: 64, buckets },
    { ...status, profiles: buckets.map(() => sizes) },
    { window: seconds(10), overhead: millis(1) },
  );
  const run = (bucket: number, batchSize: number): void => {
    for (let i = 0; i < 8; i++) profiles.note(instant(1_000_000), { ...alone(millis(5)), bucket, batchSize });
  };
  // A row for each of seven sizes of 64 buckets, and for 31 others that ran.
  for (let size = 33; size <= 64; size++) run(0, size);
  expect(profiles.learned(instant(1_000_000))).toHaveLength(7 * 64 + 31);
  for (let bucket = 1; bucket <= 2; bucket++) for (let size = 33; size <= 64; size++) run(bucket, size);
  expect(profiles.learned(instant(1_000_000))).toHaveLength(3 * 32);
  for (let bucket = 3; bucket < 64; bucket++) for (let size = 33; size <= 64; size++) run(bucket, size);
  expect(profiles.learned(instant(1_000_000))).toHaveLength(512);
});

const measured = (type: string, factor: number): Pick<ProfileMeasured, "type" | "bucket" | "samples" | "failure"> => {
  const samples = points.map(({ batchSize, latency }) => ({ batchSize, runs: [factor * latency] }));
  return { type, bucket: 0, samples, failure: "" };
};
const latencies = (found: ModelStatus | undefined) => found?.profiles[0]?.map(({ latency }) => latency / 1_000);

test("of the types that serve the slowest is planned with, as each was measured (LP1)", () => {
  const profiles = live();
  expect([profiles.wants("whole", 0), profiles.wants("half", 0)]).toEqual([false, true]);
  expect(profiles.learn(measured("half", 2))).toBe(true);
  expect(profiles.wants("half", 0)).toBe(false);
  const both = profiles.news(instant(1_000_000), serving("whole", "half"));
  expect(latencies(both)).toEqual([10, 12, 16]);
  expect(both).toMatchObject({ executorTypes: ["half", "whole"], byType: [{ type: "whole" }, { type: "half" }] });
  expect(latencies(profiles.news(instant(1_100_000), serving("half")))).toEqual([10, 12, 16]);
  const again = profiles.news(instant(1_200_000), WHOLE);
  expect(latencies(again)).toEqual([5, 6, 8]);
  expect(again?.executorTypes).toEqual(["whole"]);
  // Executors that are all away come back (LP2).
  expect(profiles.news(instant(1_300_000), serving())).toBeUndefined();
});

test("a type that can't meet the SLO gets none of the model, and one that only isn't there is not held for that", () => {
  const unfit = (found: ModelStatus | undefined) =>
    found?.byType?.filter((one) => one.unfit === true).map(({ type }) => type);
  const profiles = live();
  profiles.learn(measured("half", 2));
  expect(unfit(profiles.news(instant(1_000_000), serving("whole", "half")))).toEqual([]);
  expect(unfit(profiles.news(instant(1_100_000), WHOLE))).toEqual([]);
  profiles.learn(measured("tenth", 10));
  const both = profiles.news(instant(1_200_000), serving("whole", "tenth"));
  expect([both?.executorTypes, unfit(both)]).toEqual([["whole"], ["tenth"]]);
  // Known as such while it is away.
  expect(unfit(profiles.news(instant(1_300_000), serving("whole", "half")))).toEqual(["tenth"]);
});

test("a profiler that starts anew goes on with what is stored of each type", () => {
  const first = live();
  first.learn(measured("half", 2));
  const stored = first.news(instant(1_000_000), serving("half"))!;
  const second = new LiveProfiles(spec, stored, { window: seconds(10), overhead: millis(1) });
  expect(second.wants("half", 0)).toBe(false);
  expect(latencies(second.news(instant(2_000_000), WHOLE))).toEqual([5, 6, 8]);
});

test("until every executor has told its type none goes, and one that is new is counted at once (LP2)", () => {
  const profiles = live();
  profiles.learn(measured("half", 2));
  const both = profiles.news(instant(1_000_000), serving("whole", "half"));
  expect(latencies(both)).toEqual([10, 12, 16]);
  expect(profiles.news(instant(1_100_000), WHOLE, false)).toBeUndefined();
  profiles.learn(measured("third", 3));
  expect(profiles.news(instant(1_200_000), serving("whole", "third"), false)).toBeUndefined();
  expect(profiles.news(instant(1_300_000), serving("whole", "half", "third"), false)?.executorTypes).toEqual([
    "half",
    "third",
    "whole",
  ]);
  expect(latencies(profiles.news(instant(1_400_000), WHOLE))).toEqual([5, 6, 8]);
});

test("runs count for their type alone, and a measurement of some buckets only for nothing", () => {
  const profiles = live();
  profiles.learn(measured("half", 2));
  for (let i = 0; i < 100; i++) profiles.note(instant(1_000_000 + i), { ...alone(millis(12)), type: "half" });
  expect(latencies(profiles.news(instant(1_100_000), WHOLE))).toEqual([5, 6, 8]);
  expect(latencies(profiles.news(instant(1_100_001), serving("half")))?.[0]).toBe(12);
  const two = { ...spec, buckets: [{}, {}] } as unknown as ModelSpec;
  const buckets = new LiveProfiles(
    two,
    { ...status, profiles: [points, points], means: [points, points] },
    { window: seconds(10), overhead: millis(1) },
  );
  expect(buckets.learn(measured("half", 2))).toBe(false);
  expect(buckets.learn({ ...measured("half", 2), bucket: 7 })).toBe(false);
  expect([buckets.wants("half", 0), buckets.wants("half", 1)]).toEqual([false, true]);
  expect(buckets.learn({ ...measured("half", 3), bucket: 1 })).toBe(true);
});

test("of more types than are kept the last ones are not told apart", () => {
  const profiles = live();
  for (let i = 1; i < TYPES_MAX; i++) profiles.learn(measured(`type${i}`, 1));
  expect(profiles.wants("one too many", 0)).toBe(false);
  expect(profiles.learn(measured("one too many", 1))).toBe(false);
});

test.each([
  ["failed", { failure: "no" }],
  ["lacks a size", { samples: [{ batchSize: 1, runs: [5_000] }] }],
  ["has a size without runs", { samples: [1, 2, 4].map((batchSize) => ({ batchSize, runs: [] })) }],
  ["is beyond belief", { samples: [1, 2, 4].map((batchSize) => ({ batchSize, runs: [9e15] })) }],
])("a measurement that %s changes nothing, and isn't asked for again (LP3)", (_, wrong) => {
  const profiles = live();
  expect(profiles.learn({ ...measured("half", 2), ...wrong })).toBe(false);
  expect(profiles.wants("half", 0)).toBe(false);
  expect(profiles.news(instant(1_000_000), serving("whole", "half"))).toBeUndefined();
});

test("a type that can't meet the SLO even alone doesn't count beside others that can (LP1)", () => {
  const profiles = live();
  profiles.learn(measured("snail", 10));
  expect(latencies(profiles.news(instant(1_000_000), serving("whole", "snail")))).toEqual([5, 6, 8]);
  expect(latencies(profiles.news(instant(1_100_000), serving("snail")))).toEqual([50, 60, 80]);
});

test("given latencies are those of whole accelerators: parts that were there first are measured", () => {
  const given = { ...spec, profile: [points] } as ModelSpec;
  const profiles = new LiveProfiles(
    given,
    { ...status, executorTypes: ["emulated", "emulated-50"] },
    { window: seconds(10), overhead: millis(1) },
  );
  expect([profiles.wants("emulated", 0), profiles.wants("emulated-50", 0)]).toEqual([false, true]);
});
