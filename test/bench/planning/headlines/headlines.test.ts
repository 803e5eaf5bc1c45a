/**
 * Tests of the parts behind the papers' headlines. They are the runtime that judges plans, the profiles, and the
 * searches for the largest rate.
 */
import { execFile } from "node:child_process";
import { join } from "node:path";
import { promisify } from "node:util";
import { fitInterference, predictionError } from "@tutti/planning";
import { describe, expect, test } from "vitest";
import { idealShare } from "../ideal-share.ts";
import { resultsPage } from "../results-page.ts";
import { largest } from "./goodput.ts";
import { gpuletHeadlines, gpuletPairs } from "./gpulet.ts";
import { gpuletModel, interferenceSamples, workloads } from "./gpulet-profiles.ts";
import { nexusHeadlines, nexusMixes, obliviousPlan } from "./nexus.ts";
import { type RunItem, runPlan } from "./node-runtime.ts";

const item = (model: number, perSecond: number, alpha: number, beta: number, more: Partial<RunItem> = {}): RunItem => ({
  ...{ model, rate: perSecond / 1_000, slo: 100, batchSize: 25 },
  latency: (b) => alpha * b + beta,
  ...more,
});

describe("the runtime", () => {
  test.for([
    [1, 0.017],
    [1.4, 0.01],
    [1.8, 0.003],
  ] as const)("with early drop, α of %d and 450 r/s the bad rate is that of C9.8", ([alpha, expected]) => {
    const plan = [[{ size: 100, items: [item(0, 450, alpha, 50 - 25 * alpha)] }]];
    const { total, bad } = runPlan(plan, { seed: 1, seconds: 240, scale: 1 }).get(0)!;
    expect(total / 240).toBeGreaterThan(440);
    expect(bad / total).toBeGreaterThan(0.5 * expected);
    expect(bad / total).toBeLessThan(1.6 * expected);
  });

  test("each request counts once, models of a part take turns, and executors share nothing", () => {
    const part = { size: 100, items: [item(0, 100, 1, 5, { batchSize: 4 }), item(1, 100, 1, 5, { batchSize: 4 })] };
    const other = [{ size: 100, items: [item(2, 100, 1, 5)] }];
    const options = { seed: 3, seconds: 20, scale: 1 };
    const counts = runPlan([[part], other], options);
    for (const model of [0, 1, 2]) {
      const { total, bad } = counts.get(model)!;
      expect(Math.abs(total - 2_000)).toBeLessThan(200);
      expect(bad).toBe(0);
    }
    expect(runPlan([[part], other], options)).toEqual(counts);
    // Eight times the rate is more than two models in turns can carry.
    const crowded = runPlan([[part], other], { ...options, scale: 8 });
    expect(crowded.get(0)!.bad).toBeGreaterThan(0.1 * crowded.get(0)!.total);
    expect(crowded.get(1)!.bad).toBeGreaterThan(0.1 * crowded.get(1)!.total);
  });

  test("what runs beside a batch makes it longer, and only while it runs", () => {
    const parts = [
      { size: 50, items: [item(0, 500, 1, 20, { batchSize: 30 })] },
      { size: 50, items: [item(1, 500, 1, 20, { batchSize: 30 })] },
    ];
    const options = { seed: 1, seconds: 20, scale: 1 };
    const seen = new Set<string>();
    const slowed = runPlan([parts], {
      ...options,
      factor: (own, beside) => {
        seen.add(`${own.model}@${own.size} beside ${beside.model}@${beside.size}`);
        return 1.6;
      },
    });
    expect([...seen].toSorted()).toEqual(["0@50 beside 1@50", "1@50 beside 0@50"]);
    expect(runPlan([parts], options).get(0)!.bad).toBeLessThan(slowed.get(0)!.bad);
    const alone = runPlan([[parts[0]!]], { ...options, factor: () => 1.6 });
    expect(alone.get(0)!.bad / alone.get(0)!.total).toBeLessThan(0.05);
  });
});

test("the largest rate is found to 1 %, also where there is none", () => {
  for (const border of [3, 77, 12_345]) {
    const found = largest((rate) => rate <= border);
    expect(found).toBeLessThanOrEqual(border);
    expect(found).toBeGreaterThan(border < 16 ? border - 1 : 0.985 * border);
  }
  expect(largest(() => false)).toBe(0);
});

describe("gpulet", () => {
  test("SLOs are twice what a batch of 32 takes on a whole accelerator, as in its Table 4, and more than a model can fill doesn't help", () => {
    for (const { models, name } of workloads().filter(({ name }) => name.startsWith("scen")))
      for (const model of models)
        expect([name, Math.abs(2 * model.latency(32, 100) - model.slo) <= 1]).toEqual([name, true]);
    const half = gpuletModel("nas", 0);
    expect(half.latency(32, 50)).toBe(half.latency(32, 100));
    expect(half.latency(32, 40)).toBeGreaterThan(half.latency(32, 50));
  });

  test("2,500 measurements are fitted on 1,750, and predict the rest within the paper's errors", () => {
    const samples = interferenceSamples(1);
    expect(samples.length).toBe(2_500);
    const { coefficients } = fitInterference(samples.slice(0, 1_750));
    const { p90, p95 } = predictionError(coefficients, samples.slice(1_750));
    expect(p90).toBeGreaterThan(0.03);
    expect(p90).toBeLessThan(0.1026);
    expect(p95).toBeLessThan(0.1398);
  });

  test("pairs on two accelerators gain from parts about as much as in its Figure 5: 51 %", () => {
    const pairs = gpuletPairs();
    const mean = pairs.reduce((sum, { greedy, whole }) => sum + greedy / whole, 0) / pairs.length;
    expect(mean).toBeGreaterThan(1.4);
    expect(mean).toBeLessThan(1.65);
  });

  test("SSD, MnasNet and DenseNet: fractions carry half as much again as whole accelerators, and a plan that ignores interference breaks SLOs where theirs doesn't", () => {
    const { workloads: measured, ofIdeal } = gpuletHeadlines({ seconds: 4, seeds: [1] }, ["scen4"]);
    const [one] = measured;
    expect(one!.fractions.carried).toBeGreaterThan(1.5 * one!.whole.carried);
    expect(one!.fractions.carried).toBeGreaterThan(1.1 * one!.greedy.carried);
    expect(one!.badRate).toBeLessThanOrEqual(0.01);
    expect(one!.blindBadRate).toBeGreaterThan(0.01);
    expect(ofIdeal).toBeGreaterThan(0.926);
  });

  test("of every 397th scenario the portfolio fits at least gpulet's share of the ideal, and the thorough search no less", () => {
    const { ideal, portfolio, thorough, elastic, beyond, scenarios } = idealShare({ executors: 4, every: 397 });
    expect(scenarios).toBe(49);
    expect(beyond).toBe(0);
    expect(elastic).toBeLessThan(portfolio);
    expect(thorough).toBeGreaterThanOrEqual(portfolio);
    expect(portfolio / ideal).toBeGreaterThan(1 - 0.026);
  });
});

describe("Nexus", () => {
  test("each mix has 16 sessions, and the batch-oblivious placement serves each in full on 8 accelerators that are equally filled", () => {
    for (const { sessions } of nexusMixes()) {
      expect(sessions.length).toBe(16);
      const streams = sessions.map(({ slo, weight, alpha, beta }, id) => ({
        ...{ id, slo, rate: weight / 10 },
        latency: { batchSizes: [1, 2, 4, 8], latency: (b: number) => alpha * b + beta },
      }));
      const plan = obliviousPlan(streams);
      expect(plan.length).toBe(8);
      const items = plan.flat().flatMap((part) => part.items);
      for (const { id, rate } of streams)
        expect(items.filter(({ model }) => model === id).reduce((sum, one) => sum + one.rate, 0)).toBeCloseTo(rate, 6);
      const filled = plan.map(([part]) =>
        part!.items.reduce((sum, { rate, batchSize, latency }) => sum + (rate * latency(batchSize)) / batchSize, 0),
      );
      expect(Math.max(...filled) / Math.min(...filled)).toBeLessThan(1.001);
    }
  });

  test("squishy packing carries more where architectures and SLOs are mixed", () => {
    const mixes = nexusHeadlines({ seconds: 4, seeds: [1], judged: "all" });
    expect(mixes.length).toBe(5);
    expect(mixes.at(-1)!.gain).toBeGreaterThan(1.1);
  });
});

test("the page stands beside its command, and an unknown part is refused by name", async () => {
  const ideal = { executors: 4, scenarios: 10, ideal: 10, elastic: 7, portfolio: 9, thorough: 9, beyond: 0, cpuS: 1 };
  const page = resultsPage({ ideal }, "npm run bench:planning -- --only ideal");
  expect(page).toContain("`npm run bench:planning -- --only ideal`");
  expect(page).toContain("| portfolio | 9 | 90.00 % | 10.00 % |");
  const run = promisify(execFile)(process.execPath, [join(import.meta.dirname, "../main.ts"), "--only", "nonsense"]);
  await expect(run).rejects.toMatchObject({ code: 2, stderr: expect.stringContaining("there is no part nonsense") });
});
