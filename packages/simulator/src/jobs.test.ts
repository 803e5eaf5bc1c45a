import { LatencyTable } from "@tutti/profile";
import { type Micros, micros, seconds } from "@tutti/units";
import { expect, test } from "vitest";
import { type Scenario, type SimJobBatch, simulate } from "./index.ts";
import { model, smallScenario } from "./testing/small-scenario.ts";

const EMBED = { name: "embed", profile: LatencyTable.affine({ alpha: 1_000, beta: 1_000, batchSizeMax: 64 }) };
const NETWORK = { ctrl: 200 as Micros, data: 20 as Micros, respond: 200 as Micros, jitter: 0 };

const beside = (changes: Partial<Scenario>): Scenario =>
  smallScenario({
    ...{ duration: seconds(6), warmup: seconds(1), policy: "default", prefer: "accelerators", network: NETWORK },
    ...{ jobs: [EMBED], ...changes },
  });

test.each([
  { load: 30, rate: 1_650, least: 0.95 },
  { load: 60, rate: 3_300, least: 0.95 },
  { load: 80, rate: 4_400, least: 0.92 },
])("at $load % of the goodput jobs use what requests leave, and requests lose nothing", ({ rate, least }) => {
  const { badRate, jobs, models } = simulate(beside({ rate }));
  const { usedFraction, without, loads, runMaxMs } = jobs!;
  expect(usedFraction).toBeGreaterThan(least);
  expect(without!.busyFraction).toBeLessThan(0.8);
  expect(badRate - without!.badRate).toBeLessThan(0.001);
  expect(models[0]!.p99Ms! / without!.p99Ms[0]!).toBeLessThan(1.1);
  expect(runMaxMs).toBeCloseTo((25 - 6.125 - 0.42) / 4, 2);
  expect(loads).toMatchObject([{ name: "embed", batchMean: 3 }]);
});

test("no accelerator runs two batches at once, and no batch of jobs runs longer than it may", () => {
  const runs: { readonly gpu: number; readonly begin: number; readonly end: number }[] = [];
  let longest = 0;
  const result = simulate(beside({ rate: 3_000, gpus: 3, models: [model("m", 1, { slo: micros(30_000) })] }), {
    listener: {
      refused: () => undefined,
      finished: ({ gpu }, begin, end) => void runs.push({ gpu, begin, end }),
      jobsFinished: ({ gpu }: SimJobBatch, begin, end) => {
        runs.push({ gpu, begin, end });
        longest = Math.max(longest, end - begin);
      },
    },
  });
  const overlaps = runs
    .toSorted((a, b) => a.gpu - b.gpu || a.begin - b.begin)
    .filter((run, i, all) => i > 0 && all[i - 1]!.gpu === run.gpu && all[i - 1]!.end > run.begin);
  expect(overlaps).toEqual([]);
  expect(longest).toBeLessThanOrEqual(1_000 * result.jobs!.runMaxMs);
  expect(longest).toBeGreaterThan(0);
});

test("jobs of several models share the time; one whose single job takes too long gets none, and is named", () => {
  const long = { name: "long", profile: LatencyTable.affine({ alpha: 50_000, beta: 0, batchSizeMax: 8 }) };
  const two = { ...EMBED, name: "other" };
  const { jobs } = simulate(beside({ rate: 1_650, jobs: [EMBED, long, two] }));
  const [first, none, other] = jobs!.loads;
  expect(none).toEqual({ name: "long", rps: 0, batchMean: 0, isTooLong: true });
  expect(first!.rps / other!.rps).toBeCloseTo(1, 1);
});
