/** Profiles that are published of unlike types while one of them drifts. */
import { type ModelSpec, type ModelStatus, isModelStatus } from "@tutti/protocol";
import { instant, micros, millis, seconds } from "@tutti/units";
import { expect, test } from "vitest";
import { LiveProfiles } from "./live-profiles.ts";

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
const options = { window: seconds(10), overhead: millis(1) };

const profiler = (known: ModelStatus = status): LiveProfiles =>
  new LiveProfiles(spec as unknown as ModelSpec, known, options);

/** The status published after runs of both types that took so many times as long as their seeds. */
function newsAfter(times: { fast: number; slow: number }, live = profiler()): ModelStatus | undefined {
  const types = [
    { type: "fast", seed: FAST, factor: times.fast },
    { type: "slow", seed: SLOW, factor: times.slow },
  ];
  for (let i = 0; i < 100; i++)
    for (const { type, seed, factor } of types)
      for (const [b, latency] of seed.entries())
        live.note(instant(1_000_000 + i), {
          type,
          bucket: 0,
          batchSize: b + 1,
          run: micros(Math.round(latency * factor)),
        });
  return live.news(instant(1_100_000), SERVING);
}

const liveOf = (published: ModelStatus | undefined, type: string) =>
  published?.byType?.find((one) => one.type === type)?.live;

test.each([
  ["the slow one runs faster than its seed", { fast: 1, slow: 0.8 }],
  ["the slow one runs slower than its seed", { fast: 1, slow: 1.2 }],
  ["the fast one runs slower than its seed", { fast: 1.5, slow: 1 }],
  ["the fast one runs faster than its seed", { fast: 0.5, slow: 1 }],
])("the latencies of each type are those of its runs where %s", (_, times) => {
  const published = newsAfter(times)!;
  expect(isModelStatus(JSON.parse(JSON.stringify(published)))).toBe(true);
  for (const { type, seed, factor } of [
    { type: "fast", seed: FAST, factor: times.fast },
    { type: "slow", seed: SLOW, factor: times.slow },
  ]) {
    if (factor === 1) expect(liveOf(published, type)).toBeUndefined();
    else
      for (const [b, { latency }] of liveOf(published, type)![0]!.entries())
        expect(latency, `${type} at ${b + 1}`).toBe(Math.ceil(seed[b]! * factor));
  }
  // The pool's are the slowest of them.
  expect(published.profiles).toEqual([liveOf(published, "slow")?.[0] ?? points(SLOW)]);
});

test("a move of any type is published once, and none below the threshold; what has not moved stands as measured", () => {
  expect(newsAfter({ fast: 1, slow: 1 })).toBeUndefined();
  expect(newsAfter({ fast: 0.995, slow: 1.005 })).toBeUndefined();
  const live = profiler();
  const faster = newsAfter({ fast: 0.5, slow: 1 }, live);
  expect(faster?.profiles).toEqual([points(SLOW)]);
  expect(faster?.byType?.map(({ profiles }) => profiles)).toEqual([[points(FAST)], [points(SLOW)]]);
  expect([liveOf(faster, "fast")?.length, liveOf(faster, "slow")]).toEqual([1, undefined]);
  expect(live.news(instant(1_200_000), SERVING)).toBeUndefined();
  // When nothing has run for long it is as measured again.
  const again = live.news(instant(60_000_000), SERVING);
  expect([liveOf(again, "fast"), again?.byType?.length]).toEqual([undefined, 2]);
});

test("a type that has left has no live latencies: it is known by what it was measured with", () => {
  const live = profiler();
  newsAfter({ fast: 0.5, slow: 0.5 }, live);
  const alone = live.news(instant(1_200_000), new Map([["fast", 1]]));
  expect([alone?.executorTypes, liveOf(alone, "fast")?.length, liveOf(alone, "slow")]).toEqual([
    ["fast"],
    1,
    undefined,
  ]);
});

test("a profiler that starts anew bounds slow runs by what was measured, not by what ran last", () => {
  const slower = newsAfter({ fast: 60, slow: 1 });
  // l(1) takes 0.8 of 99 ms at most.
  const bounded = [points([79_200, 158_400])];
  expect(liveOf(slower, "fast")).toEqual(bounded);
  const stored = JSON.parse(JSON.stringify(slower)) as ModelStatus;
  expect(liveOf(newsAfter({ fast: 80, slow: 1.2 }, profiler(stored)), "fast")).toEqual(bounded);
  // Until enough has run, what it measured counts.
  const restarted = profiler(stored).news(instant(1_000), SERVING);
  expect([restarted?.profiles, liveOf(restarted, "fast")]).toEqual([[points(SLOW)], undefined]);
  // An earlier release's profiler keeps all but the live latencies.
  const older = { ...stored, byType: stored.byType!.map(({ live: _, ...one }) => one) };
  expect(liveOf(newsAfter({ fast: 80, slow: 1.2 }, profiler(older)), "fast")).toEqual(bounded);
});

test("one whose profile ends beyond the model's largest batch has live latencies up to that", () => {
  const long = [
    { batchSize: 1, latency: micros(1_000) },
    { batchSize: 4, latency: micros(4_000) },
  ];
  const fast = { type: "fast", profiles: [long], means: [long] };
  const published = newsAfter({ fast: 1, slow: 0.8 }, profiler({ ...status, byType: [fast, status.byType[1]] }));
  expect(liveOf(published, "fast")?.[0]?.map(({ batchSize }) => batchSize)).toEqual([1, 2]);
});
