import { mkdtempSync, readFileSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { LatencyTable } from "@tutti/profile";
import type { ComparedMix, Goodput, MinGpus, PlannerWindow, Scenario, SimulationResult } from "@tutti/simulator";
import { type Micros, micros } from "@tutti/units";
import { expect, test } from "vitest";
import { TimelineRecorder } from "../timeline-recorder.ts";
import { toSvg } from "../svg.ts";
import { type Bench, type Drawing, FULL, type Point, QUICK, commandOfRow } from "./figure.ts";
import { gridSample } from "./grid.ts";
import { DYNAMIC_FIGURES, FIGURES, createBench, writeFigures } from "./index.ts";

const DELAYS = { ctrl: 0 as Micros, data: 0 as Micros, respond: 0 as Micros, jitter: 0 };

/** Every file is this workload: figures ask for the right points elsewhere, here they are drawn. */
const scenarioOf = ({ policy, rate = 300, gpus = 2, durationS = 0.4, seed = 1 }: Point): Scenario => ({
  ...{ seed, policy, rate, gpus, gather: "target", arrivals: { process: "poisson" }, network: DELAYS, phases: [] },
  duration: micros(durationS * 1e6),
  warmup: micros(100_000),
  models: [
    {
      name: "ResNet50",
      profile: LatencyTable.affine({ alpha: 1053, beta: 5072, batchSizeMax: 32 }),
      ...{ slo: 25_000 as Micros, classes: [], share: 1 },
    },
  ],
});

/** Answers at once: a number that depends on the point. */
function inventedBench(asked: Point[] = []): Bench {
  const each = <T>(answer: (point: Point, value: number) => T) => {
    return (points: readonly Point[]): Promise<readonly T[]> => {
      asked.push(...points);
      return Promise.resolve(points.map((point) => answer(point, 1000 + JSON.stringify(point).length)));
    };
  };
  const bound = { staggeredRps: 2000, uncoordinatedRps: 1500, clairvoyantRps: 2200 };
  const result = (point: Point, value: number): SimulationResult => ({
    ...{ seed: 1, policy: point.policy, offeredRps: point.rate ?? value, goodRps: value, badRate: 0.1 },
    gpu: { count: 8, used: 8, busyFraction: 0.5 },
    batchSize: { mean: 4, p50: 4, p99: 9 },
    queueDelayMs: { p50: 2, p99: 9 },
    models: [],
  });
  return {
    simulate: each(result),
    goodput: each((_, goodputRps): Goodput => ({ goodputRps, worstModelBadRate: 0.009, bound, trials: [] })),
    minGpus: each((_, value): MinGpus => ({ minGpus: value, worstModelBadRate: 0.009, bound, trials: [] })),
    record: each((point, value) => {
      const scenario = scenarioOf(point);
      return { result: result(point, value), recording: new TimelineRecorder(scenario).recording() };
    }),
    planned: each((point, value) => ({
      result: { ...result(point, value), planner: { gpusMean: 8, windows: inventedWindows() } },
      goodByModel: ["a", "b"].map((name) => ({ name, goodRps: inventedWindows().map(({ goodRps }) => goodRps / 2) })),
      least: [
        { from: 0, until: 4e6, gpus: 5 },
        { from: 4e6, until: 6e6, gpus: 8 },
      ],
      gpusMax: 12,
    })),
    compareMixes: (points) =>
      Promise.resolve(points.map(({ seed, rivals }, i) => inventedMix(seed, rivals[0]!, i === 1 ? 3 : 60))),
  };
}

const inventedMix = (seed: number, rival: string, badLeast: number): ComparedMix => ({
  ...{ seed, gpus: 8, models: 3, arrivals: "poisson", rival, badLeast },
  ...{ goodputRps: 900 + (seed % 100), rivalRps: 950, boundRps: 1800, nonPreemptiveRps: 1500 },
});

/** Epochs of a second each; after the step at 4 s one has 5 % bad. */
const inventedWindows = (): PlannerWindow[] =>
  Array.from({ length: 6 }, (_, i) => ({
    ...{ fromS: i, untilS: i + 1, offeredRps: 100, goodRps: i === 4 ? 95 : 100, badRate: i === 4 ? 0.05 : 0 },
    ...{ gpus: i < 5 ? 6 : 10, busy: 5, advice: i === 4 ? 4 : 0 },
  }));

test.for([...FIGURES, ...DYNAMIC_FIGURES].map((figure) => [figure.name, figure] as const))(
  "%s is drawn, with titles and units, and each of its rows names the command that made it",
  async ([, figure]) => {
    const { charts, rows } = await figure.draw(inventedBench(), QUICK);
    expect(charts.length).toBeGreaterThan(0);
    expect(rows.length).toBeGreaterThan(0);
    for (const { option } of charts) {
      const svg = toSvg(option);
      expect(svg).toMatch(/^<svg [^>]*xmlns="http:\/\/www.w3.org\/2000\/svg"[\s\S]*<\/svg>$/);
      expect(svg).not.toMatch(/NaN|undefined/);
      for (const name of axisNames(option)) expect(svg).toContain(name.split(" ")[0]);
    }
    for (const row of rows) {
      expect(commandOfRow(row, QUICK)).toMatch(
        /^tutti ((simulate|goodput) test\/bench\/scenarios\/[\w.-]+\.yaml |compare --random \d+ --seed \d+ )/,
      );
    }
  },
);

const axisNames = (option: Drawing["charts"][number]["option"]): string[] =>
  [option["xAxis"], option["yAxis"]]
    .flat()
    .map((axis) => String((axis as { name: string }).name))
    .filter((name) => name !== "");

test("of a changing day the first epoch after a step is set aside, the others are counted against the bound", async () => {
  const figure = FIGURES.find(({ name }) => name === "changing-day")!;
  const { rows } = await figure.draw(inventedBench(), QUICK);
  const ours = rows.slice(0, 4).map((row) => row.ours);
  // Used 6 + 6 + 6 + 10 of 5 + 5 + 8 + 8 from 2 s on; the epoch at 4 s is aside.
  expect(ours).toEqual([28 / 26, 0, 0, expect.closeTo(10, 9)]);
});

test("a full figure asks for at least what the papers show: 500 of the grid, and 8 to 1,000 accelerators", async () => {
  const asked: Point[] = [];
  for (const name of ["grid", "accelerators"]) {
    await FIGURES.find((figure) => figure.name === name)!.draw(inventedBench(asked), FULL);
  }
  const members = new Set(
    asked.filter(({ file }) => file.startsWith("table1")).map(({ set, seed }) => JSON.stringify([set, seed])),
  );
  expect(members.size).toBe(500);
  const counts = asked.flatMap(({ set }) => (set?.["gpus"] === undefined ? [] : [Number(set["gpus"])]));
  expect([Math.min(...counts), Math.max(...counts)]).toEqual([8, 1000]);
});

test("printed rates are looked for at the greatest load at which Orloj reaches them, rounded as the paper rounds", async () => {
  const asked: Point[] = [];
  // Orloj's rate falls from 100 % at load 0 to 70 % at 1; the default's is a tenth of a point above.
  const rateAt = ({ policy, load }: Point): number => 1 - 0.3 * load! + (policy === "default" ? 0.001 : 0);
  const bench = inventedBench();
  const simulate = async (points: readonly Point[]): Promise<readonly SimulationResult[]> => {
    asked.push(...points);
    return (await bench.simulate(points)).map((one, i) => ({ ...one, badRate: 1 - rateAt(points[i]!) }));
  };
  const figure = DYNAMIC_FIGURES.find(({ name }) => name === "dynamic-loads")!;
  const { rows } = await figure.draw({ ...bench, simulate }, FULL);
  const places = rows.map((row) => [row.what.split(",")[0], "point" in row && row.point.load]);
  expect(places).toHaveLength(20);
  // At load 0.5 it is 85 %, at 0.45 86.5 %; 74 % is reached at 0.85 (74.5 %), and no printed 100 % at any load.
  const expected = { "resnet-imagenet": 0.5, "gpt-convAI": 0.45, "blenderbot-convAI": 0.85, "t5-cnn": 0.3 };
  expect(Object.fromEntries(places)).toMatchObject(expected);
  expect(rows.find(({ what }) => what.startsWith("gpt-convAI"))).toMatchObject({
    what: "gpt-convAI, load 0.45, at which Orloj has 86.5 %, SLO 3 × P99",
    policy: "default",
    ours: expect.closeTo(86.6, 9) as number,
    paper: "Orloj 86 %",
  });
  expect(asked.length).toBeLessThanOrEqual(20 * (5 + 2)); // 23 loads in five halvings, and both policies at the last
});

test("random mixes of which 1 % is too few requests are in the table, but not in the means", async () => {
  const figure = FIGURES.find(({ name }) => name === "random-mixes")!;
  const { charts, rows } = await figure.draw(inventedBench(), QUICK);
  expect(toSvg(charts[0]!.option)).toContain("1 of 2 mixes from seed 7000 on");
  expect(rows[0]).toMatchObject({ what: "default ÷ best rival: geometric mean of 1 mixes", ours: 900 / 950 });
  expect(rows.at(-1)!.what).toContain("mix 7001 (8 accelerators, 3 models, poisson; 1 % is 3 requests, left out)");
  expect(commandOfRow(rows.at(-1)!, QUICK)).toBe(
    "tutti compare --random 1 --seed 7001 --rivals eager,deferred,beta-lambda,clockwork,timeout:20%,latest",
  );
});

test("the sample of the grid is the same every time, and a smaller one is its beginning", () => {
  expect(gridSample(50)).toEqual(gridSample(500).slice(0, 50));
});

test("a bench runs a point once however many figures ask for it, and answers in the order of the points", async () => {
  const loaded: string[] = [];
  const load = (point: Point): Promise<Scenario> => {
    loaded.push(point.policy);
    return Promise.resolve(scenarioOf(point));
  };
  const bench = createBench({ scale: { name: "quick", durationS: 0.3 }, load });
  const points = ["eager", "deferred", "eager"].map((policy) => ({ file: "any", policy }));
  const first = await bench.simulate(points);
  const again = await bench.simulate(points.slice(1));
  expect(first.map(({ policy }) => policy)).toEqual(["eager", "deferred", "eager"]);
  expect(again).toEqual(first.slice(1));
  expect(loaded).toEqual(["eager", "deferred"]);
});

test("figures of real runs leave their pictures, and results that can be read and checked", async () => {
  const folder = mkdtempSync(join(tmpdir(), "tutti-figures-"));
  try {
    const scale = { name: "quick", durationS: 0.4 } as const;
    const bench = createBench({ scale, load: (point) => Promise.resolve(scenarioOf(point)) });
    const figures = FIGURES.filter(({ name }) => ["batch-sizes", "queue-delays"].includes(name));
    await writeFigures({ figures, bench, scale, folder, source: "tutti figures <here>" });
    const results = JSON.parse(readFileSync(join(folder, "results.json"), "utf8")) as {
      figures: { files: string[]; rows: { ours: number; command: string }[] }[];
    };
    const files = results.figures.flatMap((figure) => figure.files);
    expect(readdirSync(folder).toSorted()).toEqual([...files, "results.html", "results.json", "results.md"].toSorted());
    expect(results.figures[0]!.rows[0]!.ours).toBeGreaterThan(0);
    const html = readFileSync(join(folder, "results.html"), "utf8");
    expect(html).toContain("tutti figures &lt;here&gt;");
    expect(html.match(/<svg /g)!.length).toBe(files.length);
    expect(html).not.toMatch(/<script|\b(src|href)=/);
    expect(readFileSync(join(folder, "results.md"), "utf8")).toContain(results.figures[0]!.rows[0]!.command);
  } finally {
    rmSync(folder, { recursive: true });
  }
});

test("a run that was stopped is gone on with: what is drawn is kept, what is missing is added, another scale is refused", async () => {
  const folder = mkdtempSync(join(tmpdir(), "tutti-figures-"));
  try {
    const chosen = (...names: string[]) => FIGURES.filter(({ name }) => names.includes(name));
    const asked: Point[] = [];
    const options = { bench: inventedBench(asked), scale: QUICK, folder, resume: true };
    await writeFigures({ ...options, figures: chosen("timeouts"), source: "tutti figures --out results" });
    const first = asked.length;
    await writeFigures({ ...options, figures: chosen("timeouts", "network"), source: "again" });
    expect(asked.slice(first).every(({ file }) => file === "figure14")).toBe(true);
    const { source, figures } = JSON.parse(readFileSync(join(folder, "results.json"), "utf8")) as {
      source: string;
      figures: { name: string; rows: unknown[] }[];
    };
    expect([source, ...figures.map(({ name }) => name)]).toEqual([
      "tutti figures --out results",
      "timeouts",
      "network",
    ]);
    expect(figures.every(({ rows }) => rows.length > 0)).toBe(true);
    const page = readFileSync(join(folder, "results.html"), "utf8");
    expect([page.includes('id="timeouts"'), page.includes('id="network"')]).toEqual([true, true]);
    await expect(writeFigures({ ...options, scale: FULL, figures: [], source: "" })).rejects.toThrow("quick");
  } finally {
    rmSync(folder, { recursive: true });
  }
});
