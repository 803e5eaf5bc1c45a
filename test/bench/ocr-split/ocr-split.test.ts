import { readdir } from "node:fs/promises";
import { readPipelines } from "@tutti/host/pipelines";
import { Prng } from "@tutti/units";
import { expect, test } from "vitest";
import { type Offered, drawArrivals } from "./load.ts";
import { type Round, differenceOf, renderOcrSplit, summed } from "./ocr-split-text.ts";
import { requestsByModel, writeHome } from "./setting.ts";

const offered = (inTime: number, more: Partial<Offered> = {}): Offered => ({
  ...{ offered: 100, inTime, late: 0, refused: {}, latencies: [], lagMs: 0 },
  ...more,
});
const round = (planned: number, even: number): Round => ({
  ...{ first: "even", planned: offered(planned), even: offered(even) },
});

test("what differs between rounds alone doesn't count: only what differs between the two within them", () => {
  const { mean, error } = differenceOf([round(90, 80), round(50, 40), round(30, 20)]);
  expect(mean).toBeCloseTo(0.1, 9);
  expect(error).toBeCloseTo(0, 9);
  expect(differenceOf([round(90, 80), round(50, 60)]).error).toBeCloseTo(0.1, 9);
});

test("rounds are summed up: counts and causes, latencies of all answers, the worst lag", () => {
  const all = [
    offered(2, { refused: { "detect TUTTI_OVERLOADED": 3 }, latencies: [10, 30], lagMs: 1 }),
    offered(1, { refused: { "detect TUTTI_OVERLOADED": 1 }, latencies: [20], late: 1, lagMs: 4 }),
  ];
  expect(summed(all)).toMatchObject({
    ...{ offered: 200, inTime: 3, late: 1, refused: { "detect TUTTI_OVERLOADED": 4 }, p50Ms: 20, lagMs: 4 },
  });
});

test("each stage is shown with its room under both splits", () => {
  const stages = ["ocr-planned", "ocr-even"].flatMap((pipeline, i) => [
    { pipeline, stage: "detect", requests: 1, untilMs: 300 - 100 * i, aloneMs: 100 },
    { pipeline, stage: "recognise", requests: 3, untilMs: 600, aloneMs: 10 },
  ]);
  const text = renderOcrSplit({
    ...{ sloMs: 600, rate: 5, capacityRps: 6, aloneMs: 200, executors: 1, picture: "p.png", stages },
    rounds: [round(90, 80)],
    gains: [{ model: "ocr-det", bucket: 0, batchSize: 4, aloneMs: 100, share: 0.97 }],
  });
  expect(text).toMatch(/^detect +1\.00 +100 ms +300 ms +200 ms +200 ms, 100 ms$/m);
  expect(text).toMatch(/^recognise +3\.00 +10 ms +600 ms +600 ms +290 ms, 390 ms$/m);
  expect(text).toContain("ocr-det/0 100 ms alone, 0.97 each in 4");
});

test("arrivals are Poisson: so many a second, within the round, in order", () => {
  const at = drawArrivals(new Prng(1), 50, 100);
  expect(at.length).toBeGreaterThan(4_700);
  expect(at.length).toBeLessThan(5_300);
  expect(at).toEqual(at.toSorted((a, b) => a - b));
  expect(at.at(-1)!).toBeLessThan(100);
});

test("both pipelines are the shipped one but for their names, SLO and split", async () => {
  const home = await writeHome(700);
  try {
    const [even, planned] = await readPipelines(home.pipelines);
    expect([even, planned].map((one) => [one!.name, one!.split, one!.slo])).toEqual([
      ["ocr-even", "even", 700_000],
      ["ocr-planned", "planned", 700_000],
    ]);
    expect(even!.stages).toEqual(planned!.stages);
    expect(even!.stages.map(({ name, after }) => [name, ...after])).toEqual([
      ["detect"],
      ["classify", "detect"],
      ["recognise", "classify"],
    ]);
    expect(await readdir(home.models)).toHaveLength(3);
  } finally {
    await home.remove();
  }
});

test("requests for a picture are counted over buckets and seconds, and unknown before the first picture", () => {
  const second = (items: Readonly<Record<string, number>>) => ({
    threads: Object.entries(items).map(([name, count]) => ({ name, items: count }) as never),
  });
  const seconds = [second({ "ocr-det@S=1": 2, "ocr-rec@W=80": 3 }), second({ "ocr-det@S=2": 2, "ocr-rec@W=160": 5 })];
  expect(requestsByModel(seconds)).toEqual({ "ocr-det": 4 / 4, "ocr-rec": 2 });
  expect(requestsByModel([second({ "ocr-rec": 3 })])).toEqual({});
});
