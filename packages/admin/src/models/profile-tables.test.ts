import type { ModelRunTimes, ModelSpec, ModelStatus } from "@tutti/protocol";
import { instant, millis } from "@tutti/units";
import { expect, test } from "vitest";
import { profileTables, renderProfiles } from "./profile-tables.ts";

const points = (factor: number) =>
  [1, 2, 4].map((batchSize) => ({ batchSize, latency: millis(factor * (4 + batchSize)) }));
const spec = { name: "m", number: 1, version: "1", batchSizeMax: 4, buckets: [{}] } as unknown as ModelSpec;
const given = { ...spec, profile: [points(1)] } as ModelSpec;
const status = {
  ...{ name: "m", number: 1, version: "1", state: "ready", reason: "" },
  ...{ profiles: [points(1.5)], means: [points(1.5)], executorTypes: ["cpu"] },
} as ModelStatus;
const size = (batchSize: number, more: object = {}) => ({
  ...{ bucket: 0, type: "cpu", batchSize, given: millis(4 + batchSize), learned: millis(9), ...more },
});
const spread = { runs: 12, p10: 7_400, p50: 7_500, p90: 9_123.4 };
const AT = instant(Date.UTC(2026, 10, 28, 18, 30) * 1_000);
const times = {
  ...{ name: "m", number: 1, version: "1", buckets: [] },
  learned: { at: AT, sizes: [size(1, { spread }), size(2), size(3, { spread }), size(4)] },
} as ModelRunTimes;

const rows = (text: string): string[] =>
  text
    .split("\n")
    .filter((line) => line !== "")
    .map((line) => line.trim().replaceAll(/ {2,}/g, "|"));

test("latencies by batch size: as given, as learned, and the spread of the sizes that ran lately", () => {
  expect(rows(renderProfiles(profileTables(given, status, times), times))).toEqual([
    "m on cpu: latencies of batches",
    "batch|given|learned|p10|p50|p90|runs",
    "1|5 ms|7.5 ms|7.4 ms|7.5 ms|9.12 ms|12",
    "2|6 ms|9 ms|-|-|-|-",
    "3|7 ms|10.5 ms|7.4 ms|7.5 ms|9.12 ms|12",
    "4|8 ms|12 ms|-|-|-|-",
    "Plans use what is learned. The quantiles are those of recent runs, until 2026-11-28T18:30:00.000Z.",
  ]);
});

test("a measured profile is shown as it was measured, also once plans use another", () => {
  const [table] = profileTables(spec, status, times);
  expect(table).toMatchObject({
    source: "measured at load",
    sizes: [{ batchSize: 1, given: 5_000, learned: 7_500 }, {}, {}, {}],
  });
});

test("a model that has not run yet shows its profile, and that nothing is learned", () => {
  const fresh = { ...status, profiles: [points(1)] };
  const text = renderProfiles(profileTables(given, fresh, undefined), undefined);
  expect(rows(text).slice(2)).toEqual([
    ...["1|5 ms|5 ms|-|-|-|-", "2|6 ms|6 ms|-|-|-|-", "4|8 ms|8 ms|-|-|-|-"],
    "Plans use what is learned. Nothing is learned yet.",
  ]);
  expect(profileTables(spec, undefined, undefined)).toEqual([]);
  expect(profileTables(spec, { ...status, profiles: [] }, undefined)).toEqual([]);
});

test("types that are told apart have a table each, the given one and the one that was measured", () => {
  const byType = [
    { type: "cpu", profiles: [points(1)], means: [points(1)], live: [points(1.2)] },
    { type: "half", profiles: [points(2)], means: [points(2)] },
  ];
  const tables = profileTables(given, { ...status, byType }, times);
  expect(tables.map(({ type, source, sizes }) => [type, source, sizes[0]!.learned])).toEqual([
    ["cpu", "given", 6_000],
    ["half", "measured at load", 10_000],
  ]);
  expect(tables[1]!.sizes.every((one) => one.spread === undefined)).toBe(true);
});
