import type { ModelSpec, ModelStatus } from "@tutti/protocol";
import { instant, micros, millis, seconds } from "@tutti/units";
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
const status = { profiles: [points], means: [points] } as unknown as ModelStatus;
const live = (): LiveProfiles =>
  new LiveProfiles(spec, status, { quantile: 0.99, window: seconds(10), newsShare: 0.05 });

test("slower runs are followed, by a fifth of the SLO at most, so that a model never refuses itself for good", () => {
  const profiles = live();
  for (let i = 0; i < 100; i++) profiles.note(instant(1_000_000 + i), 0, 1, millis(20));
  const planned = profiles.news(instant(1_100_000))?.profiles[0];
  expect(planned?.map(({ latency }) => latency)).toEqual([millis(10), millis(11), millis(13)]);
  expect(profiles.news(instant(1_200_000))).toBeUndefined();
});

test("when nothing has run for long, plans go back to the seed", () => {
  const profiles = live();
  for (let i = 0; i < 100; i++) profiles.note(instant(1_000_000 + i), 0, 1, millis(9));
  expect(profiles.news(instant(1_100_000))).toBeDefined();
  expect(profiles.news(instant(60_000_000))?.profiles[0]?.[0]?.latency).toBe(millis(5));
});

test("a run as long as planned is no news", () => {
  const profiles = live();
  for (let i = 0; i < 100; i++) profiles.note(instant(1_000_000 + i), 0, 1, micros(5_000));
  expect(profiles.news(instant(1_100_000))).toBeUndefined();
});
