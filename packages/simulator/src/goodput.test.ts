import { LatencyTable } from "@tutti/profile";
import { micros, millis, seconds } from "@tutti/units";
import { expect, test } from "vitest";
import { type Judged, goodput, minGpus } from "./goodput.ts";
import type { Scenario } from "./scenario/scenario.ts";

const model = {
  name: "ResNet50",
  profile: LatencyTable.affine({ alpha: 1053, beta: 5072, batchSizeMax: 64 }),
  slo: millis(25),
  classes: [],
  share: 0.5,
};
const scenario: Scenario = {
  seed: 5,
  duration: seconds(3),
  warmup: seconds(1),
  gpus: 8,
  policy: "default",
  gather: "target",
  rate: 1000,
  arrivals: { process: "uniform" },
  network: { ctrl: micros(0), data: micros(0), respond: micros(0), jitter: 0 },
  models: [model, { ...model, name: "second" }],
  phases: [],
};
const short = { arrivalsMin: seconds(2) };
const bound = { staggeredRps: 5839, uncoordinatedRps: 4500, clairvoyantRps: 5912 };
const bad = (...rates: number[]): Promise<Judged> =>
  Promise.resolve({ streams: rates.map((badRate, model) => ({ model, offered: 1e6, bad: badRate * 1e6 })) });

test.for([5800, 5321, 3000, 400, 20])(
  "where bad requests begin at %i r/s, the search ends within 1 % below it",
  async (limit) => {
    const found = await goodput(scenario, ({ rate }) => bad(0, rate <= limit ? 0.01 : 0.0101), { ...short, bound });
    expect(found.goodputRps).toBeLessThanOrEqual(limit);
    expect(found.goodputRps).toBeGreaterThanOrEqual(limit / 1.01);
    expect(found.worstModelBadRate).toBe(0.01);
    expect(found.trials.length).toBeLessThanOrEqual(20);
    expect(found.bound).toBe(bound);
  },
);

test("every trial is told of, with its worst model, in order", async () => {
  const told: unknown[] = [];
  const { trials } = await goodput(scenario, ({ rate }) => bad(0, rate / 6e5), {
    ...short,
    bound,
    onTrial: (trial) => told.push(trial),
  });
  expect(told).toEqual(trials);
  expect(trials[0]).toMatchObject({ seed: 5, gpus: 8, worstModel: "second", good: true });
  expect(trials.every(({ good, worstModelBadRate }) => good === worstModelBadRate <= 0.01)).toBe(true);
});

test("a rate at which no request is counted is not good", async () => {
  const none = await goodput(
    scenario,
    ({ rate }) => Promise.resolve({ streams: [{ model: 0, offered: rate > 3000 ? 0 : 1000, bad: 0 }] }),
    { ...short, bound },
  );
  expect(none.goodputRps).toBeLessThanOrEqual(3000);
  expect(none.goodputRps).toBeGreaterThanOrEqual(3000 / 1.01);
});

test("a search ends where nothing is good, and where everything is", async () => {
  const nothing = await goodput(scenario, () => bad(1), { ...short, bound });
  expect(nothing).toMatchObject({ goodputRps: 0, worstModelBadRate: 1 });
  expect(nothing.trials.length).toBeLessThan(30);
  const everything = await goodput(scenario, () => bad(0), { ...short, bound });
  expect(everything.trials.length).toBeLessThan(30);
});

test("runs have at least 20 s of arrivals after the warm-up", async () => {
  const durations = new Set<number>();
  await goodput(scenario, ({ duration }) => (durations.add(duration), bad(1)), { bound });
  expect([...durations]).toEqual([seconds(21)]);
});

test.for([8, 9, 11, 40])("the fewest accelerators are found where %i are needed", async (needed) => {
  const found = await minGpus({ ...scenario, rate: 5500 }, ({ gpus }) => bad(gpus >= needed ? 0 : 0.5), short);
  expect(found.minGpus).toBe(needed);
  expect(found.worstModelBadRate).toBe(0);
  expect(found.trials.find(({ gpus }) => gpus === needed - 1)?.good ?? false).toBe(false);
});

test("no number of accelerators up to the limit is an answer too", async () => {
  const found = await minGpus({ ...scenario, rate: 5500 }, () => bad(0.5), { ...short, gpusMax: 30 });
  expect(found.minGpus).toBeUndefined();
  expect(found.trials.at(-1)?.gpus).toBe(30);
});

test("goodput is that of all accelerators: a planner stays out of it, and there are never fewer than sub-clusters", async () => {
  const planner = { epoch: seconds(1), startup: seconds(0), gpusMin: 1, gpusStart: 8, rule: "work" } as const;
  const seen: Scenario[] = [];
  const look = (tried: Scenario): Promise<Judged> => {
    seen.push(tried);
    return bad(0, 0);
  };
  await goodput({ ...scenario, planner }, look, { ...short, bound });
  await minGpus({ ...scenario, planner, rate: 10, subClusters: 2 }, look, short);
  expect(seen.filter((tried) => tried.planner !== undefined || tried.gpus < 2)).toEqual([]);
  expect(seen.at(-1)!.gpus).toBe(2);
});
