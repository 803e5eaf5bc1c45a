import { LatencyTable } from "@tutti/profile";
import type { ModelStatus } from "@tutti/protocol";
import { micros, threadId } from "@tutti/units";
import { fnv1a } from "@tutti/wire";
import { expect, test } from "vitest";
import { OwnProfiles } from "./own-profiles.ts";

const points = (...latencies: number[]) =>
  latencies.map((latency, i) => ({ batchSize: i + 1, latency: micros(latency) }));
const status = (executorTypes: string[], byType?: Record<string, number[]>): ModelStatus => ({
  ...{ name: "m", number: 1, version: "1", state: "ready", reason: "", profiles: [], means: [], executorTypes },
  ...(byType !== undefined && {
    byType: Object.entries(byType).map(([type, own]) => ({ type, profiles: [points(...own)], means: [] })),
  }),
});
const pool = LatencyTable.fromPoints(points(4_400, 8_800));
const thread = threadId(1, 0);
const find = (profiles: OwnProfiles, type: string | undefined): number[] | undefined =>
  profiles
    .of(thread, () => type)
    ?.toPoints()
    .map(({ latency }) => latency);

test("where no type has live latencies a type's own are as much shorter than the pool's as when both were measured", () => {
  const profiles = new OwnProfiles();
  // An earlier release's profiler says only of the pool that it runs a tenth slower than the slowest was measured.
  profiles.note(thread, 0, status(["fast", "slow"], { fast: [1_000, 4_000], slow: [4_000, 8_000] }), pool);
  expect(find(profiles, "fast")).toEqual([1_100, 4_400]);
  expect(find(profiles, "slow")).toEqual([4_400, 8_800]);
  expect([find(profiles, "other"), find(profiles, undefined)]).toEqual([undefined, undefined]);
  profiles.forget(thread);
  expect(find(profiles, "fast")).toBeUndefined();
});

test("a type plans with its live latencies, up to the pool's, and without them with those it was measured with", () => {
  const profiles = new OwnProfiles();
  const seeds = status(["fast", "slow"], { fast: [1_000, 4_000], slow: [4_000, 8_000] });
  const note = (live: Record<string, number[]>, planned = pool): void => {
    const byType = seeds.byType!.map((one) => {
      const own = live[one.type];
      return own === undefined ? one : { ...one, live: [points(...own)] };
    });
    profiles.note(thread, 0, { ...seeds, byType }, planned);
  };
  note({ slow: [4_400, 8_800] });
  expect([find(profiles, "fast"), find(profiles, "slow")]).toEqual([
    [1_000, 4_000],
    [4_400, 8_800],
  ]);
  // the pool is as slow as the slowest for one request, and for two it is the other one
  note({ fast: [2_000, 8_800], slow: [4_400, 8_000] });
  expect([find(profiles, "fast"), find(profiles, "slow")]).toEqual([
    [2_000, 8_800],
    [4_400, 8_000],
  ]);
  // planned with means, which are shorter than any high quantile
  note({ fast: [2_000, 4_400], slow: [4_400, 8_800] }, LatencyTable.fromPoints(points(2_200, 4_400)));
  expect([find(profiles, "fast"), find(profiles, "slow")]).toEqual([
    [1_000, 2_200],
    [2_200, 4_400],
  ]);
});

test("where one type serves, or none was measured by itself, batches are as planned", () => {
  const profiles = new OwnProfiles();
  const apart = { fast: [1_000, 4_000], slow: [4_000, 8_000] };
  for (const one of [undefined, status(["fast", "slow"]), status(["slow"], apart)]) {
    profiles.note(thread, 0, status(["fast", "slow"], apart), pool);
    profiles.note(thread, 0, one, pool);
    expect(find(profiles, "fast")).toBeUndefined();
  }
  // A bucket without points, and a profile that ends before the pool's.
  profiles.note(thread, 1, status(["fast", "slow"], apart), pool);
  expect(find(profiles, "fast")).toBeUndefined();
  profiles.note(thread, 0, status(["fast", "slow"], { fast: [1_000], slow: [4_000, 8_000] }), pool);
  expect(find(profiles, "fast")).toBeUndefined();
});

test("the fastest type names all others, those that can't serve the model included; types that are alike have none", () => {
  const profiles = new OwnProfiles();
  const apart = { fast: [1_000, 4_000], slow: [4_000, 8_000], snail: [40_000, 80_000] };
  const served = status(["fast", "slow"], apart);
  profiles.note(thread, 0, served, pool);
  const fastest = profiles.fastest(thread, served)!;
  expect(fastest.profile.toPoints().map(({ latency }) => latency)).toEqual([1_100, 4_400]);
  expect(fastest.unfit).toEqual([{ type: fnv1a("slow") }, { type: fnv1a("snail") }]);
  // of two that take as long for one request, neither may be granted what is planned with the other
  const twins = status(["a", "b"], { a: [1_000, 4_000], b: [1_000, 8_000] });
  profiles.note(thread, 0, twins, pool);
  expect(profiles.fastest(thread, twins)?.unfit).toEqual([{ type: fnv1a("b") }]);
  for (const one of [undefined, status(["slow"], apart), status(["a", "b"], { a: [1, 2], b: [1, 2] })]) {
    profiles.note(thread, 0, one, pool);
    expect(profiles.fastest(thread, one)).toBeUndefined();
  }
});
