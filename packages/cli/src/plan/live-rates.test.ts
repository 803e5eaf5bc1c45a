import { SIZES } from "@tutti/planning";
import { expect, test } from "vitest";
import type { FractionsInput } from "./fractions-input.ts";
import { runFractions } from "./fractions-plan.ts";
import { liveText, withLiveRates } from "./live-rates.ts";

/** docs/algorithms.md, D6.2: {res 200, vgg 100} fit on one accelerator, 40 % and 60 %. */
const LINES = [
  { name: "res", alphaMs: 1.5, betaMs: 6, saturation: 0.08, sloMs: 108 },
  { name: "vgg", alphaMs: 2.1, betaMs: 4, saturation: 0.2, sloMs: 142 },
  { name: "idle", alphaMs: 1, betaMs: 1, saturation: 1, sloMs: 100 },
] as const;
const input: FractionsInput = {
  names: LINES.map(({ name }) => name),
  models: LINES.map(({ alphaMs, betaMs, saturation }, id) => ({
    ...{ id, slo: 1, rate: 99, batchMax: 32, cacheUse: 0, bandwidthUse: 0 },
    latency: (b: number, size: number) => betaMs + (alphaMs * b) / Math.min(size / 100, Math.min(1, saturation * b)),
  })),
  ...{ executors: 8, sizes: SIZES, interference: undefined },
};
const served = [
  { name: "vgg", rate: 100, sloMs: 142 },
  { name: "res", rate: 200, sloMs: 108 },
  { name: "other", rate: 12.5, sloMs: 30 },
  { name: "unasked", rate: 0, sloMs: 30 },
];

test("rates and SLOs are the cluster's, whatever the file says; what isn't served is asked for by nobody", () => {
  const { input: live } = withLiveRates(input, served, 1);
  expect(live.models.map(({ rate, slo }) => [rate, slo])).toEqual([
    [0.2, 108],
    [0.1, 142],
    [0, 1],
  ]);
  expect(live.models[0]!.latency).toBe(input.models[0]!.latency);
});

test("the plan for them says which accelerators to split, and what it knows nothing of", () => {
  const { input: live, live: rates } = withLiveRates(input, served, 1.2);
  const { result } = runFractions(live);
  expect(result).toMatchObject({ feasible: true, used: 1 });
  expect(rates).toEqual({ seenS: 1.2, unplanned: [{ model: "other", rate: 12.5 }] });
  expect(liveText(rates, result)).toBe(
    "Rates and SLOs as the cluster's planner told them 1.2 s ago.\n" +
      "Not in the input, so nothing is planned for other (12.5 r/s).\n" +
      "To have such parts: `tutti split executor-0 40`.",
  );
});

test("where everything stays whole, or nothing fits, nobody is told to split anything", () => {
  const textOf = (rate: number, executors: number): string => {
    const whole = { ...input, executors, sizes: [100] };
    const { input: live, live: rates } = withLiveRates(whole, [{ name: "vgg", rate, sloMs: 142 }], 0);
    return liveText(rates, runFractions(live).result);
  };
  expect(textOf(400, 1)).toBe("Rates and SLOs as the cluster's planner told them 0 s ago.");
  expect(textOf(5_000, 1)).toBe("Rates and SLOs as the cluster's planner told them 0 s ago.");
});
