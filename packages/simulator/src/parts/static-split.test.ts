import { type TypedPoolModel, poolCapacity } from "@tutti/planning";
import { LatencyTable } from "@tutti/profile";
import { millis } from "@tutti/units";
import { expect, test } from "vitest";
import { splitOverPools } from "./static-split.ts";

/** L(b) = b + 5 ms, times as long. */
const profile = (times: number): LatencyTable =>
  LatencyTable.affine({ alpha: times * 1_000, beta: times * 5_000, batchSizeMax: 32 });
const model = (share: number, profiles: TypedPoolModel["profiles"], slo = millis(60)): TypedPoolModel => ({
  ...{ share, slo, dispersion: 1, profiles },
});

test("pools are full at the same rate, each by itself", () => {
  const [own] = splitOverPools([model(1, [profile(1), profile(4)])], [4, 8]) as [readonly number[]];
  const fullAt = (type: number, times: number, count: number): number =>
    poolCapacity([{ ...model(1, []), profile: profile(times) }], count).carried / own[type]!;
  expect(own[0]! + own[1]!).toBeCloseTo(1, 12);
  expect(fullAt(0, 1, 4) / fullAt(1, 4, 8)).toBeCloseTo(1, 2);
});

test("a type gets no requests of models that it can't serve", () => {
  const split = splitOverPools([model(1, [profile(1), undefined]), model(0, [profile(1), profile(4)])], [4, 8]);
  expect(split[0]).toEqual([1, 0]);
  expect(splitOverPools([model(1, [profile(1), profile(4)], millis(10))], [4, 8])).toEqual([[1, 0]]);
});
