import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { LatencyTable } from "@tutti/profile";
import { type Scenario, recordedRate, simulate } from "@tutti/simulator";
import { type Micros, millis, seconds } from "@tutti/units";
import { afterAll, expect, test } from "vitest";
import { CommandError } from "@tutti/admin";
import { SCENARIO_DEFAULTS, ScenarioFile, type ScenarioOptions, readScenario } from "./scenario-file.ts";
import { choicesOf } from "./scenario-family.ts";
import { SCENARIO_SCHEMA } from "./scenario-schema.ts";

const folder = mkdtempSync(join(tmpdir(), "tutti-scenario-"));
afterAll(() => rmSync(folder, { recursive: true }));

const ZOO = "# a comment\nfast,0.1,5,20\nslow, 7 ,0.2,56\nmiddling,1,3,30\n";
writeFileSync(join(folder, "zoo.csv"), ZOO);
const header = `{"format":"tutti-trace","version":1,"startedAt":"2026-01-01T00:00:00Z","cluster":"c","payloads":false}`;
writeFileSync(
  join(folder, "trace.jsonl"),
  `${[header, `{"t":0,"model":"m","app":"a","bytes":1}`, `{"t":2000000,"model":"m","app":"a","bytes":1}`].join("\n")}\n`,
);

let files = 0;
function read(text: string, options: ScenarioOptions = {}): Promise<Scenario> {
  const path = join(folder, `s${++files}.yaml`);
  writeFileSync(path, text);
  return readScenario(path, options);
}

/** The error message for `text`, without the folder. */
async function complaintAbout(text: string, options: ScenarioOptions = {}): Promise<string> {
  const error: unknown = await read(text, options).then(
    () => undefined,
    (reason: unknown) => reason,
  );
  expect(error).toBeInstanceOf(CommandError);
  return (error as CommandError).message.replaceAll(`${folder}/`, "").replaceAll(/s\d+\.yaml/g, "s.yaml");
}

const small = (more: string, model = "{ name: m, alphaMs: 1, betaMs: 5, sloMs: 25 }"): string =>
  `gpus: 2\nrate: 100\nmodels:\n  - ${model}\n${more}`;

test("a scenario with nothing but gpus, rate and a model has the defaults that the schema declares", async () => {
  const scenario = await read(small(""));
  expect(scenario).toEqual({
    seed: 1,
    duration: seconds(20),
    warmup: seconds(1),
    gpus: 2,
    policy: "default",
    gather: "target",
    rate: 100,
    arrivals: { process: "poisson" },
    network: { ctrl: 0, data: 0, respond: 0, jitter: 0 },
    models: [
      {
        name: "m",
        profile: LatencyTable.affine({ alpha: 1000, beta: 5000, batchSizeMax: 20 }),
        slo: millis(25),
        classes: [],
        share: 1,
      },
    ],
    phases: [],
  });
  const schema = JSON.parse(readFileSync(SCENARIO_SCHEMA, "utf8")) as {
    properties: Record<string, { default?: unknown }>;
  };
  const declared = Object.entries(schema.properties).filter(([, { default: value }]) => value !== undefined);
  expect(Object.fromEntries(declared.map(([key, { default: value }]) => [key, value]))).toEqual(SCENARIO_DEFAULTS);
});

test("every key of a scenario file gets to where the simulator looks for it", async () => {
  const scenario = await read(`
seed: 7
durationS: 12.5
warmupS: 0.5
gpus: 3
policy: timeout:5ms
gather: head
rate: 1234.5
arrivals: { process: gamma, shape: 0.1 }
network: { dCtrlUs: 30, dDataUs: 2.5, dRespUs: 40, jitter: 0.1 }
models:
  - { name: a, alphaMs: 0.5, betaMs: 2, sloMs: 10, batchMax: 4, weight: 3 }
  - { name: b, latencyMs: [2, 3, 3.5], sloMs: 20, count: 2 }
  - { name: c, latencyMs: { 1: 6, 3: 8 }, sloMs: 30, weight: 0 }
phases:
  - { fromS: 2, factor: 1.5 }
  - { fromS: 4.5, popularity: [1, 1, 1, 1] }
`);
  expect(scenario).toMatchObject({
    ...{ seed: 7, duration: 12.5e6, warmup: 5e5, gpus: 3, policy: "timeout:5ms", gather: "head", rate: 1234.5 },
    arrivals: { process: "gamma", shape: 0.1 },
    network: { ctrl: 30, data: 3, respond: 40, jitter: 0.1 },
    phases: [
      { from: 2e6, factor: 1.5 },
      { from: 4.5e6, factor: 1, shares: [0.25, 0.25, 0.25, 0.25] },
    ],
  });
  expect(scenario.models.map(({ name, share, slo }) => [name, share, slo])).toEqual([
    ["a", 0.6, 10_000],
    ["b-1", 0.2, 20_000],
    ["b-2", 0.2, 20_000],
    ["c", 0, 30_000],
  ]);
  const latencies = scenario.models.map(({ profile }) => profile.toPoints().map(({ latency }) => latency));
  expect(latencies).toEqual([
    [2500, 3000, 3500, 4000],
    [2000, 3000, 3500],
    [2000, 3000, 3500],
    [6000, 7000, 8000],
  ]);
});

test("the command line goes before the file, and a missing rate may have a default", async () => {
  const overrides = { seed: 5, durationS: 3, gpus: 9, policy: "eager", gather: "head", rate: 42 } as const;
  expect(await read(small("seed: 2\n"), { overrides })).toMatchObject({
    ...{ seed: 5, duration: seconds(3), gpus: 9, policy: "eager", gather: "head", rate: 42 },
  });
  // l(8)/8 on the given accelerators; small's model has l(b) = b + 5.
  const byLoad = await read(small(""), { overrides: { load: 0.5, gpus: 9 } });
  expect(byLoad.rate).toBeCloseTo((0.5 * 9 * 8 * 1e6) / byLoad.models[0]!.profile.latency(8), 9);
  const pipeline = "pipelines: [{ name: p, sloMs: 50, stages: [{ model: m }] }]\n";
  await expect(read(small(pipeline), { overrides: { load: 0.5 } })).rejects.toThrow(
    "pipelines: --load is of models alone; with pipelines give --rate",
  );
  const text = small("").replace("rate: 100\n", "");
  expect(await read(text, { rateDefault: 8 })).toMatchObject({ rate: 8 });
  expect(await complaintAbout(text)).toBe(
    `s.yaml:1:1: "rate" is missing; give requests per second here or with --rate`,
  );
});

test("popularity is equal, zipf, the models' weights or a list of numbers", async () => {
  const shares = async (popularity: string, weight = 1): Promise<number[]> => {
    const model = `{ name: m, count: 2, alphaMs: 1, betaMs: 5, sloMs: 25 }\n  - { name: n, alphaMs: 1, betaMs: 5, sloMs: 25, weight: ${weight} }`;
    return (await read(small(popularity, model))).models.map(({ share }) => share);
  };
  expect(await shares("popularity: equal")).toEqual([1 / 3, 1 / 3, 1 / 3]);
  expect(await shares("")).toEqual([1 / 3, 1 / 3, 1 / 3]);
  expect(await shares("", 2)).toEqual([0.25, 0.25, 0.5]);
  expect(await shares("popularity: weights", 2)).toEqual([0.25, 0.25, 0.5]);
  expect(await shares("popularity: [1, 2, 5]")).toEqual([0.125, 0.25, 0.625]);
  const zipf = await shares("popularity: zipf:0.9");
  expect(zipf.reduce((sum, share) => sum + share)).toBeCloseTo(1, 12);
  expect(zipf[0]! / zipf[2]!).toBeCloseTo(3 ** 0.9, 12);
});

test("SLO classes share a model's requests: the model's own SLO has the rest, or the first class has it", async () => {
  const classesOf = async (keys: string): Promise<unknown> => {
    const [model] = (await read(small("", `{ name: m, alphaMs: 1, betaMs: 5, ${keys} }`))).models;
    return { slo: model!.slo, classes: model!.classes, batchSizeMax: model!.profile.batchSizeMax };
  };
  const expected = { slo: 25_000, classes: [{ slo: 100_000, share: 0.3 }], batchSizeMax: 95 };
  expect(await classesOf("sloMs: 25, classes: [{ sloMs: 100, share: 0.3 }]")).toEqual(expected);
  expect(await classesOf("classes: [{ sloMs: 25, share: 0.7 }, { sloMs: 100, share: 0.3 }]")).toEqual(expected);
});

test("a zoo gives its models, all or those that are asked for, with the entry's own keys before the zoo's", async () => {
  const namesOf = async (models: string): Promise<[string, Micros][]> =>
    (await read(`gpusPerModel: 1.5\nrate: 100\nmodels: ${models}\n`)).models.map(({ name, slo }) => [name, slo]);
  const ms = (count: number): Micros => millis(count);
  expect(await namesOf("{ zoo: zoo.csv }")).toEqual([
    ["fast", ms(20)],
    ["slow", ms(56)],
    ["middling", ms(30)],
  ]);
  expect((await namesOf("{ zoo: zoo.csv, batching: strong }")).map(([name]) => name)).toEqual(["fast", "middling"]);
  expect((await namesOf("{ zoo: zoo.csv, batching: weak }")).map(([name]) => name)).toEqual(["slow"]);
  expect(await namesOf("[{ zoo: zoo.csv, only: [fast], sloMs: 40, count: 2 }]")).toEqual([
    ["fast-1", ms(40)],
    ["fast-2", ms(40)],
  ]);
  expect((await read("gpusPerModel: 1.5\nrate: 1\nmodels: { zoo: zoo.csv }\n")).gpus).toBe(5);
});

test("a trace brings its own length and rate, and another rate stretches it", async () => {
  const text = small("arrivals: { process: trace, file: trace.jsonl }\nwarmupS: 0\n").replace("rate: 100\n", "");
  const scenario = await read(text);
  if (scenario.arrivals.process !== "trace") throw new Error("no trace");
  expect(scenario.rate).toBe(recordedRate(scenario.arrivals.entries));
  expect(scenario.duration).toBe(seconds(2) + 1);
  expect((await read(text, { overrides: { rate: scenario.rate / 2 } })).duration).toBe(seconds(4) + 1);
  expect(simulate(scenario).badRate).toBe(0);
});

test("a family of scenarios is chosen from by its axes", async () => {
  const text = `
vary:
  sloMs: [20, 25]
  beta: { low: { betaMs: 1 }, high: { betaMs: 15 } }
gpus: 2
rate: 10
models:
  - { name: $beta, alphaMs: 1, betaMs: $beta.betaMs, sloMs: $sloMs }
`;
  const [model] = (await read(text, { choice: { sloMs: "25", beta: "high" } })).models;
  expect([model!.name, model!.slo, model!.profile.latency(1)]).toEqual(["high", 25_000, 16_000]);
  const path = join(folder, "family.yaml");
  writeFileSync(path, text);
  expect([...choicesOf((await ScenarioFile.read(path)).axes)]).toEqual([
    { sloMs: "20", beta: "low" },
    { sloMs: "20", beta: "high" },
    { sloMs: "25", beta: "low" },
    { sloMs: "25", beta: "high" },
  ]);
  const axes = "--set sloMs=20|25 --set beta=low|high";
  expect(await complaintAbout(text)).toBe(`s.yaml: choose one scenario of this family: ${axes}`);
  expect(await complaintAbout(text, { choice: { sloMs: "30", beta: "low" } })).toBe(
    `s.yaml: "30" is not on the axis sloMs: ${axes}`,
  );
  expect(await complaintAbout(text, { choice: { rate: "30" } })).toBe(
    `s.yaml: no axis "rate" can be set; it has sloMs, beta`,
  );
  expect(await complaintAbout(small("seed: $seed\n"))).toBe(
    "s.yaml:5:7: seed: nothing is called $seed; declare it in `vary`",
  );
});
