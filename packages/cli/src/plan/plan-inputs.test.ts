/** Tests of the errors for invalid inputs of `tutti plan`, and of its defaults. */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { SIZES, WINDOWS_TO_RELEASE } from "@tutti/planning";
import { afterAll, expect, test } from "vitest";
import { CommandError } from "@tutti/admin";
import { FRACTION_DEFAULTS, readFractionsInput } from "./fractions-input.ts";
import { runFractions } from "./fractions-plan.ts";
import { readPackInput } from "./pack-input.ts";
import { type PlanKind, planSchema } from "./plan-file.ts";
import { readQueryInput } from "./query-input.ts";
import { SCALE_DEFAULTS, readScaleInput } from "./scale-input.ts";
import { SUB_CLUSTER_DEFAULTS, readSubClustersInput } from "./subclusters-input.ts";

const folder = mkdtempSync(join(tmpdir(), "tutti-plan-"));
afterAll(() => rmSync(folder, { recursive: true }));
writeFileSync(join(folder, "scenario.yaml"), "models:\n  - { name: m, alphaMs: 1, betaMs: 5, sloMs: 25 }\ngpus: 3\n");

const READERS = {
  pack: readPackInput,
  subclusters: readSubClustersInput,
  fractions: readFractionsInput,
  scale: readScaleInput,
  query: readQueryInput,
} as const;

const path = join(folder, "p.yaml");
function read<Kind extends PlanKind>(kind: Kind, text: string): ReturnType<(typeof READERS)[Kind]> {
  writeFileSync(path, text);
  return READERS[kind](path) as ReturnType<(typeof READERS)[Kind]>;
}

/** The error message for `text`, without the folder. */
async function complaintAbout(kind: PlanKind, text: string): Promise<string> {
  const error: unknown = await read(kind, text).then(
    () => undefined,
    (reason: unknown) => reason,
  );
  expect(error).toBeInstanceOf(CommandError);
  return (error as CommandError).message.replaceAll(`${folder}/`, "");
}

const stream = (more = "", rate = "rate: 5, ") =>
  `streams:\n  - { name: a, ${rate}sloMs: 50, alphaMs: 1, betaMs: 5${more} }\n`;
const model = (more = "") => `subClusters: 2\nmodels:\n  - { name: a, rate: 5, staticMb: 50${more} }\n`;
const part = (more = ", alphaMs: 1, betaMs: 5") => `models:\n  - { name: a, rate: 5, sloMs: 50${more} }\n`;

const complaints: readonly (readonly [kind: PlanKind, text: string, expected: string])[] = [
  ["query", "sloMs: 5\nrate: 10\n", `p.yaml:1:1: "stages" is missing; give a list of stages`],
  [
    "query",
    "sloMs: 50\nrate: 10\nstages:\n  - { name: a, alphaMs: 1, betaMs: 1, requets: 5 }\n",
    `p.yaml:4:39: stages[0].requets: unknown key; did you mean "requests"?`,
  ],
  ["pack", "- 1\n", "p.yaml:1:1: an input is a map of keys; test/bench/plans/c9-merging.yaml is one"],
  ["pack", "memoryMb: 5\n", `p.yaml:1:1: "streams" is missing; give a list of streams: a model at one SLO each`],
  ["pack", stream("", ""), `p.yaml:2:5: streams[0]: "rate" is missing; give requests per second, such as 64`],
  ["pack", stream(", ratee: 5"), `p.yaml:2:59: streams[0].ratee: unknown key; did you mean "rate"?`],
  [
    "pack",
    stream(", memoryMb: -1"),
    "p.yaml:2:69: streams[0].memoryMb: -1 must be >= 0; give megabytes of its weights",
  ],
  [
    "pack",
    stream(", latencyMs: [1]"),
    "p.yaml:2:70: streams[0].latencyMs: give either latencyMs, or alphaMs and betaMs",
  ],
  [
    "pack",
    stream(", latencyMs: { one: 2 }"),
    `streams[0].latencyMs.one: "one" is no batch size; write { 1: 6, 8: 12 }`,
  ],
  [
    "pack",
    `${stream()}  - { name: a, rate: 5, sloMs: 9, alphaMs: 1, betaMs: 1 }\n`,
    `p.yaml:3:13: streams[1].name: there are two streams "a"`,
  ],
  ["pack", `between: nothing\n${stream()}`, `p.yaml:1:10: between: "nothing" is not known; give interpolate`],
  [
    "subclusters",
    `budget: 5\n${model()}`,
    "p.yaml:1:9: budget: a budget bounds moves; say with was: where each model is now",
  ],
  ["subclusters", model(", was: 2"), "p.yaml:3:44: models[0].was: 2 is no sub-cluster; they are numbered from 0 to 1"],
  [
    "subclusters",
    `${model(", was: 1")}  - { name: b, rate: 5, staticMb: 50 }\n`,
    `p.yaml:4:5: models[1]: "was" is missing; others say where they are, so b has to`,
  ],
  [
    "subclusters",
    `budget: 5\nbudgetShare: 0.1\n${model(", was: 1")}`,
    "p.yaml:2:14: budgetShare: give either budget or budgetShare",
  ],
  ["subclusters", `seconds: 1\nproposals: 5\n${model()}`, "p.yaml:2:12: proposals: give either seconds or proposals"],
  [
    "subclusters",
    model().replace("rate: 5", "rate: 0"),
    "p.yaml:3:3: models: every rate is 0; give one model a rate above 0",
  ],
  [
    "fractions",
    part(""),
    `p.yaml:2:5: models[0]: "alphaMs" is missing; a model needs alphaMs and betaMs, or latencyMs`,
  ],
  ["fractions", part(", alphaMs: 0, betaMs: 0"), "p.yaml:2:45: models[0].alphaMs: a batch can't take no time"],
  [
    "fractions",
    part(", saturation: 1, latencyMs: { 50: { 1: 5 } }"),
    "p.yaml:2:36: models[0].saturation: give either latencyMs, or alphaMs and betaMs",
  ],
  [
    "fractions",
    `sizes: [20, 50, 100]\n${part()}`,
    "p.yaml:1:9: sizes[0]: 20 leaves 80, which isn't among the sizes; add it",
  ],
  ["fractions", `sizes: [50]\n${part()}`, "p.yaml:1:8: sizes: the last size is 100"],
  ["fractions", `sizes: [100, 50]\n${part()}`, "p.yaml:1:14: sizes[1]: put sizes in ascending order, each once"],
  [
    "fractions",
    `interference: { samples: [${"[0.1, 0.1, 0.1, 0.1, 1], ".repeat(5)}] }\n${part()}`,
    "p.yaml:1:26: interference.samples: these pairs don't tell the five coefficients apart",
  ],
  ["scale", "scenario: no.yaml\nrates: [5]\n", "p.yaml:1:11: scenario: no.yaml can't be read (there is no such file)"],
  [
    "scale",
    "scenario: scenario.yaml\nrates: []\n",
    "p.yaml:2:8: rates: [] has too few entries: at least 1; give requests per second of all models",
  ],
  [
    "scale",
    "scenario: scenario.yaml\nrates: [5]\nset: { x: 1 }\n",
    `p.yaml:1:11: scenario: scenario.yaml: no axis "x" can be set`,
  ],
];

test.each(complaints)(
  "an input of %s like %j is refused, naming line and column and what to write instead",
  async (kind, text, expected) => {
    expect(await complaintAbout(kind, text)).toContain(expected);
  },
);

test("the defaults are those that the schemas declare", async () => {
  const declared = (kind: PlanKind) => {
    const { properties } = JSON.parse(readFileSync(planSchema(kind), "utf8")) as {
      properties: Record<string, { default?: unknown }>;
    };
    return Object.fromEntries(
      Object.entries(properties).flatMap(([key, one]) => (one.default === undefined ? [] : [[key, one.default]])),
    );
  };
  expect(declared("subclusters")).toEqual(SUB_CLUSTER_DEFAULTS);
  const { batchMax, ...ofFractions } = FRACTION_DEFAULTS;
  expect(declared("fractions")).toEqual(ofFractions);
  expect(declared("fractions")["sizes"]).toEqual(SIZES);
  expect(declared("scale")).toEqual(SCALE_DEFAULTS);
  expect(SCALE_DEFAULTS.windowsToRelease).toBe(WINDOWS_TO_RELEASE);
  const { models, executors, interference } = await read("fractions", part());
  expect([models[0]!.batchMax, executors, interference]).toEqual([batchMax, 8, undefined]);
  const { problem, search } = await read(
    "subclusters",
    `${model(", dynamicMb: 7")}  - { name: b, rate: 15, staticMb: 150 }\n`,
  );
  expect([problem.rateMax, problem.memoryMax]).toEqual([expect.closeTo(11.5, 9), expect.closeTo(117, 9)]);
  expect(search).toEqual({ seed: 1, seconds: 2 });
  expect(await read("scale", "scenario: scenario.yaml\nrates: [5]\n")).toMatchObject({
    gpus: 3,
    ask: true,
    scenario: { duration: 21e6 },
  });
});

test("a size that wasn't measured is as slow as the next smaller one that was, and below the smallest nothing is known", async () => {
  const { models } = await read("fractions", part(", latencyMs: { 40: { 1: 10, 3: 20 }, 100: { 1: 5, 3: 8 } }"));
  const { latency, batchMax } = models[0]!;
  expect(batchMax).toBe(3);
  expect([20, 40, 60, 80, 100].map((size) => latency(2, size))).toEqual([Infinity, 15, 15, 15, 6.5]);
});

test("of many accelerators no more are taken than whole ones would be and a few, without looking at every mixture of splits", async () => {
  const entries = Array.from(
    { length: 20 },
    (_, i) =>
      `  - { name: m${i}, rate: ${80 * i + 80}, sloMs: ${60 + 9 * i}, alphaMs: 1.2, betaMs: ${3 + (i % 7)}, saturation: 0.06, cacheUse: 0.3, bandwidthUse: 0.4 }\n`,
  );
  const input = await read(
    "fractions",
    `executors: 64\ninterference: { coefficients: [0.2, 0.5, 0.3, 0.2, 0.9] }\nmodels:\n${entries.join("")}`,
  );
  const { result, steps } = runFractions(input);
  expect(result.feasible).toBe(true);
  expect(result.used).toBeGreaterThan(16);
  expect(result.used).toBeLessThanOrEqual(1.1 * result.wholeExecutors!);
  for (const { model, rate } of result.models) {
    const served = result.executors
      .flatMap(({ parts }) => parts.flatMap(({ models }) => models))
      .filter((one) => one.model === model);
    expect(served.reduce((sum, one) => sum + one.rate, 0)).toBeCloseTo(rate, 6);
  }
  expect(steps.some(({ kind }) => kind === "failed")).toBe(false);
});

test("where only some sizes are compiled, only those are planned, and what lies between takes as long as the next", async () => {
  const text = (between: string) =>
    `between: ${between}\nstreams:\n  - { name: a, rate: 5, sloMs: 90, latencyMs: { 2: 10, 8: 20 } }\n`;
  const latencies: number[][] = [];
  for (const between of ["pad-up", "interpolate"]) {
    const { streams } = await read("pack", text(between));
    const { batchSizes, latency } = streams[0]!.latency;
    latencies.push([batchSizes.length, latency(1), latency(5), latency(9)]);
  }
  expect(latencies).toEqual([
    [2, 10, 20, Infinity],
    [8, 10, 15, Infinity],
  ]);
});
