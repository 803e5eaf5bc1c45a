import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type Scenario, simulate } from "@tutti/simulator";
import { micros, millis } from "@tutti/units";
import { afterAll, expect, test } from "vitest";
import { CommandError } from "@tutti/admin";
import { DYNAMIC_DEFAULTS } from "./dynamic-models.ts";
import { fromPortable, toPortable } from "./portable-scenario.ts";
import { readScenario } from "./scenario-file.ts";
import { SCENARIO_SCHEMA } from "./scenario-schema.ts";

const folder = mkdtempSync(join(tmpdir(), "tutti-dynamic-models-"));
afterAll(() => rmSync(folder, { recursive: true }));
writeFileSync(join(folder, "lengths.txt"), "# measured\n12.5\n\n30\n12.5\n");
writeFileSync(join(folder, "wrong.txt"), "12.5\nlong\n");
writeFileSync(join(folder, "empty.txt"), "# nothing\n");

function read(text: string): Promise<Scenario> {
  const path = join(folder, "s.yaml");
  writeFileSync(path, text);
  return readScenario(path);
}

/** A scenario of one model; the content of `dynamic` begins at line 7, column 7. */
const dynamicFile = (dynamic: string, model = "sloP99: 3", more = "rate: 100"): string =>
  `gpus: 2\n${more}\nmodels:\n  - name: m\n    ${model}\n    dynamic:\n      ${dynamic}\n      c0Ms: 25\n      c1: 0.2\n`;

test("modes become one application each, with their weights, and the SLO is a multiple of the mixture's 99th percentile", async () => {
  const { models } = await read(
    dynamicFile("lengths: { modes: 2, fromMs: 50, toMs: 500, sigmaMs: 10, peaks: [3, 1] }"),
  );
  const [{ dynamic, slo, classes }] = models as [Scenario["models"][number]];
  expect(dynamic!.apps.map(({ name, share }) => [name, share])).toEqual([
    ["mode-1", 0.75],
    ["mode-2", 0.25],
  ]);
  expect(dynamic!.apps[1]!.lengths).toEqual({ kind: "modes", centres: [500_000], sigma: 10_000, weights: [1] });
  expect(dynamic!.costs).toEqual({ c0: 25_000, c1: 0.2, fromOne: false });
  expect(slo / 3).toBeGreaterThan(515_000); // the 96th percentile of the second mode: 500 + 1.75·10
  expect(slo / 3).toBeLessThan(520_000);
  expect(classes).toEqual([]);
});

test("applications, costs, sizes, hints and arrivals get to where the simulator looks for them", async () => {
  const scenario = await read(`
gpus: 1
load: 1.3
arrivals: { process: modulated, shape: 4, everyMs: 250 }
models:
  - name: m
    count: 2
    sloMs: 900
    dynamic:
      c0Ms: 2
      c1: 0.4
      costsFromOne: true
      batchSizes: [1, 3, 9]
      hints: exact
      apps:
        - { name: chat, share: 3, sloMs: 500, lengths: { meanMs: 79.47, p99Ms: 143.4 } }
        - { name: skewed, lengths: { meanMs: 79.47, p99Ms: 143.4, form: gamma } }
        - { name: replayed, lengths: { replay: lengths.txt } }
        - { name: listed, lengths: { replay: [20, 10] } }
        - { name: same, lengths: { constantMs: 7 } }
        - { name: mixed, lengths: { modes: 3, fromMs: 1, toMs: 3, sigmaMs: 0.1 } }
`);
  expect(scenario.arrivals).toEqual({ process: "modulated", shape: 4, every: millis(250) });
  expect(scenario.models.map(({ name }) => name)).toEqual(["m-1", "m-2"]);
  const { dynamic, slo, profile } = scenario.models[1]!;
  expect([slo, profile.batchSizeMax]).toEqual([900_000, 9]);
  expect(dynamic!.sizes).toEqual([1, 3, 9]);
  expect(dynamic!.costs).toEqual({ c0: 2000, c1: 0.4, fromOne: true });
  expect(dynamic!.hints).toBe("exact");
  expect(dynamic!.apps.map(({ share }) => share)).toEqual([3 / 8, 1 / 8, 1 / 8, 1 / 8, 1 / 8, 1 / 8]);
  expect(dynamic!.apps.map(({ slo: own }) => own)).toEqual([500_000, ...Array<undefined>(5).fill(undefined)]);
  expect(dynamic!.apps.map(({ lengths }) => lengths.kind)).toEqual([
    "lognormal",
    "gamma",
    "replay",
    "replay",
    "constant",
    "modes",
  ]);
  expect(dynamic!.apps[2]!.lengths).toEqual({ kind: "replay", lengths: [12_500, 12_500, 30_000] });
  // load 1.3 on one accelerator: 1.3 times its throughput in batches of 8
  expect((scenario.rate * profile.latency(8)) / 8 / 1e6).toBeCloseTo(1.3, 9);
});

test("what is left out of dynamic has the defaults that the schema declares", async () => {
  const schema = JSON.parse(readFileSync(SCENARIO_SCHEMA, "utf8")) as {
    $defs: { dynamic: { properties: Record<string, { default?: unknown }> } };
  };
  const declared = Object.entries(schema.$defs.dynamic.properties).filter(([, one]) => one.default !== undefined);
  expect(Object.fromEntries(declared.map(([key, one]) => [key, one.default]))).toEqual(DYNAMIC_DEFAULTS);
  const { models } = await read(dynamicFile("lengths: { constantMs: 7 }"));
  expect(models[0]!.dynamic).toMatchObject({ sizes: [1, 2, 4, 8, 16], hints: "none", costs: { fromOne: false } });
});

test("a dynamic scenario comes out of another thread's message as it went in", async () => {
  const scenario = {
    ...(await read(dynamicFile("lengths: { modes: 3, fromMs: 5, toMs: 50, sigmaMs: 1 }"))),
    duration: micros(3_000_000),
    warmup: micros(0),
  };
  const copy = fromPortable(structuredClone(toPortable(scenario)));
  for (const policy of ["default", "orloj"])
    expect(simulate({ ...copy, policy })).toEqual(simulate({ ...scenario, policy }));
});

const THREE = "lengths: { modes: 3, fromMs: 50, toMs: 500, sigmaMs: 10 }";

const complaints: readonly (readonly [what: string, text: string, expected: string])[] = [
  ["nothing to draw from", dynamicFile("hints: none"), `s.yaml:7:7: models[0].dynamic: "lengths" or "apps" is missing`],
  [
    "both lengths and apps",
    dynamicFile(`${THREE}\n      apps: [{ name: a, lengths: { constantMs: 1 } }]`),
    "s.yaml:8:13: models[0].dynamic.apps: give either lengths or apps",
  ],
  [
    "a distribution of no kind",
    dynamicFile("lengths: { sigmaMs: 3 }"),
    "models[0].dynamic.lengths: no distribution; give modes, meanMs with p99Ms, replay or constantMs",
  ],
  [
    "modes from nowhere",
    dynamicFile("lengths: { modes: 3, toMs: 5, sigmaMs: 1 }"),
    `s.yaml:7:16: models[0].dynamic.lengths: "fromMs" is missing; modes goes with fromMs, toMs, sigmaMs`,
  ],
  [
    "two distributions at once",
    dynamicFile("lengths: { constantMs: 3, replay: [1] }"),
    `models[0].dynamic.lengths.constantMs: "constantMs" doesn't go with replay; remove one of the two`,
  ],
  [
    "a key of another kind",
    dynamicFile("lengths: { constantMs: 3, sigmaMs: 1 }"),
    `s.yaml:7:33: models[0].dynamic.lengths.sigmaMs: "sigmaMs" doesn't go with constantMs`,
  ],
  [
    "modes that end before they begin",
    dynamicFile("lengths: { modes: 3, fromMs: 500, toMs: 50, sigmaMs: 10 }"),
    "s.yaml:7:47: models[0].dynamic.lengths.toMs: 50 is before fromMs, 500; swap them",
  ],
  [
    "peaks of other modes",
    dynamicFile("lengths: { modes: 3, fromMs: 5, toMs: 50, sigmaMs: 1, peaks: [1, 2] }"),
    "models[0].dynamic.lengths.peaks: 2 numbers for 3 modes; give one for each",
  ],
  [
    "a percentile below the mean",
    dynamicFile("lengths: { meanMs: 80, p99Ms: 70 }"),
    "s.yaml:7:37: models[0].dynamic.lengths.p99Ms: no lognormal distribution has a mean of 80 and a 99th percentile of 70",
  ],
  [
    "a file that isn't there",
    dynamicFile("lengths: { replay: nowhere.txt }"),
    "models[0].dynamic.lengths.replay: nowhere.txt can't be read (ENOENT); give a path relative to this file",
  ],
  [
    "a file with a word in it",
    dynamicFile("lengths: { replay: wrong.txt }"),
    `models[0].dynamic.lengths.replay: wrong.txt:2: "long" is no length; write milliseconds, one a line`,
  ],
  ["an empty file", dynamicFile("lengths: { replay: empty.txt }"), "empty.txt has 0 lengths; give 1 to 100000"],
  [
    "batch sizes out of order",
    dynamicFile(`${THREE}\n      batchSizes: [1, 4, 2]`),
    "s.yaml:8:26: models[0].dynamic.batchSizes[2]: 2 comes after 4; put batch sizes in ascending order",
  ],
  [
    "two applications of one name",
    dynamicFile("apps: [{ name: a, lengths: { constantMs: 1 } }, { name: a, lengths: { constantMs: 2 } }]"),
    `models[0].dynamic.apps[1].name: there are two applications "a"; rename one`,
  ],
  [
    "an unknown hint",
    dynamicFile(`${THREE}\n      hints: some`),
    `s.yaml:8:14: models[0].dynamic.hints: "some" is not known; give none, or exact`,
  ],
  [
    "a misspelt key",
    dynamicFile("length: { constantMs: 1 }"),
    's.yaml:7:7: models[0].dynamic.length: unknown key; did you mean "lengths"?',
  ],
  [
    "costs of a static model too",
    dynamicFile(THREE, "sloP99: 3\n    alphaMs: 1"),
    "s.yaml:6:5: models[0].alphaMs: doesn't go with dynamic; give c0Ms and c1 there",
  ],
  [
    "two SLOs",
    dynamicFile(THREE, "sloP99: 3\n    sloMs: 100"),
    "s.yaml:5:13: models[0].sloP99: give either sloMs or sloP99",
  ],
  ["no SLO", dynamicFile(THREE, "weight: 1"), `s.yaml:4:5: models[0]: "sloMs" is missing; give milliseconds`],
  [
    "a percentile of a static model",
    "gpus: 1\nrate: 5\nmodels:\n  - { name: m, alphaMs: 1, betaMs: 5, sloP99: 3 }\n",
    "s.yaml:4:39: models[0].sloP99: a static model has no percentiles; give sloMs",
  ],
  ["rate and load", dynamicFile(THREE, "sloP99: 3", "rate: 5\nload: 1"), "s.yaml:3:7: load: give either rate or load"],
  [
    "a modulated process without a shape",
    dynamicFile(THREE, "sloP99: 3", "rate: 5\narrivals: { process: modulated }"),
    `s.yaml:3:11: arrivals: "shape" is missing; write { process: modulated, shape: 4, everyMs: 500 }`,
  ],
  [
    "a pace of Poisson arrivals",
    dynamicFile(THREE, "sloP99: 3", "rate: 5\narrivals: { process: poisson, everyMs: 5 }"),
    "s.yaml:3:40: arrivals.everyMs: belongs to process: modulated, not to poisson",
  ],
];

test.for(complaints)("%s: refused, naming line and column and what to write instead", async ([, text, expected]) => {
  const error: unknown = await read(text).then(
    () => undefined,
    (reason: unknown) => reason,
  );
  expect(error).toBeInstanceOf(CommandError);
  expect((error as CommandError).message.replaceAll(`${folder}/`, "")).toContain(expected);
});
