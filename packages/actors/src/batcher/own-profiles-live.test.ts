/** What the profiler publishes of unlike types while one of them drifts, and what batchers plan with it. */
import { LatencyTable } from "@tutti/profile";
import { type ModelSpec, type ModelStatus, isModelStatus } from "@tutti/protocol";
import { instant, micros, millis, seconds, threadId } from "@tutti/units";
import { expect, test } from "vitest";
import { LiveProfiles } from "../profiler/live-profiles.ts";
import { OwnProfiles } from "./own-profiles.ts";

const FAST = [2_000, 4_000];
const SLOW = [8_000, 16_000];
const points = (latencies: readonly number[]) =>
  latencies.map((latency, i) => ({ batchSize: i + 1, latency: micros(latency) }));
const spec = { name: "m", number: 1, version: "1", slo: millis(100), batchSizeMax: 2, buckets: [{}] };
const status = {
  ...{ name: "m", number: 1, version: "1", state: "ready", reason: "", executorTypes: ["fast", "slow"] },
  ...{ profiles: [points(SLOW)], means: [points(SLOW)] },
  byType: [
    { type: "fast", profiles: [points(FAST)], means: [points(FAST)] },
    { type: "slow", profiles: [points(SLOW)], means: [points(SLOW)] },
  ],
} as const satisfies ModelStatus;
const SERVING = new Map([
  ["fast", 1],
  ["slow", 1],
]);
const options = { quantile: 0.99, window: seconds(10), newsShare: 0.05, overhead: millis(1) };

/** What was published after runs of both types that took so many times as long as their seeds. */
function publishedAfter(times: { fast: number; slow: number }): ModelStatus {
  const live = new LiveProfiles(spec as unknown as ModelSpec, status, options);
  const types = [
    { type: "fast", seed: FAST, factor: times.fast },
    { type: "slow", seed: SLOW, factor: times.slow },
  ];
  for (let i = 0; i < 100; i++)
    for (const { type, seed, factor } of types)
      for (const [b, latency] of seed.entries())
        live.note(instant(1_000_000 + i), { type, bucket: 0, batchSize: b + 1, run: micros(latency * factor) });
  return live.news(instant(1_100_000), SERVING) ?? status;
}

function plannedOn(type: string, published: ModelStatus): readonly number[] | undefined {
  const profiles = new OwnProfiles();
  const thread = threadId(1, 0);
  profiles.note(thread, 0, published, LatencyTable.fromPoints(published.profiles[0]!));
  return profiles
    .of(thread, () => type)
    ?.toPoints()
    .map(({ latency }) => latency);
}

test.each([
  ["the slow one runs faster than its seed", { fast: 1, slow: 0.8 }],
  ["the slow one runs slower than its seed", { fast: 1, slow: 1.2 }],
  ["the fast one runs slower than its seed", { fast: 1.5, slow: 1 }],
  ["the fast one runs faster than its seed", { fast: 0.5, slow: 1 }],
])("batches of each type are planned as it runs where %s", (_, times) => {
  const published = publishedAfter(times);
  expect(isModelStatus(JSON.parse(JSON.stringify(published)))).toBe(true);
  for (const { type, seed, factor } of [
    { type: "fast", seed: FAST, factor: times.fast },
    { type: "slow", seed: SLOW, factor: times.slow },
  ])
    for (const [b, latency] of plannedOn(type, published)!.entries())
      // histograms keep runs to within 2 %
      expect(Math.abs(latency / (seed[b]! * factor) - 1), `${type} at ${b + 1}`).toBeLessThan(0.02);
});
