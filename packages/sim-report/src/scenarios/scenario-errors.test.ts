import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { CommandError } from "@tutti/admin";
import { readScenario } from "./scenario-file.ts";

const folder = mkdtempSync(join(tmpdir(), "tutti-scenario-errors-"));
afterAll(() => rmSync(folder, { recursive: true }));

writeFileSync(join(folder, "zoo.csv"), "fast,0.1,5,20\nslow,7,0.2,56\nmiddling,1,3,30\n");
const header = `{"format":"tutti-trace","version":1,"startedAt":"2026-01-01T00:00:00Z","cluster":"c","payloads":false}`;
writeFileSync(join(folder, "trace.jsonl"), `${header}\n{"t":0,"model":"m","app":"a","bytes":1}\n`);

/** The error message for `text`, without the folder. */
async function complaintAbout(text: string): Promise<string> {
  const path = join(folder, "s.yaml");
  writeFileSync(path, text);
  const error: unknown = await readScenario(path).then(
    () => undefined,
    (reason: unknown) => reason,
  );
  expect(error).toBeInstanceOf(CommandError);
  return (error as CommandError).message.replaceAll(`${folder}/`, "");
}

const small = (more: string, model = "{ name: m, alphaMs: 1, betaMs: 5, sloMs: 25 }"): string =>
  `gpus: 2\nrate: 100\nmodels:\n  - ${model}\n${more}`;

const complaints: readonly (readonly [what: string, text: string, expected: string])[] = [
  [
    "no YAML",
    "gpus: [1\n",
    "s.yaml:2:1: Flow sequence in block collection must be sufficiently indented and end with a ]",
  ],
  ["a list", "- 1\n", "s.yaml:1:1: a scenario is a map of keys: write gpus, rate and models"],
  ["two documents", "--- 1\n--- 2\n", "s.yaml:2:1: a second document begins here; keep one in a file"],
  [
    "nothing in models",
    "models:\n",
    "s.yaml:1:8: models: null must be array; give a list of models, or { zoo: file.csv }",
  ],
  [
    "a number for a model",
    "models: [1]\n",
    "s.yaml:1:10: models[0]: 1 must be object; give a map such as { name: ResNet50",
  ],
  [
    "an infinite rate",
    small("").replace("100", ".inf"),
    "s.yaml:2:7: rate: Infinity must be number; give requests per second",
  ],
  [
    "a stage of a model that isn't there",
    small("pipelines: [{ name: p, sloMs: 50, stages: [{ model: n }] }]\n"),
    `s.yaml:5:53: pipelines[0].stages[0].model: there is no model "n"; describe it under models, which has m`,
  ],
  [
    "a pipeline with two roots",
    small("pipelines: [{ name: p, sloMs: 50, stages: [{ model: m }, { model: m, name: n }] }]\n"),
    "s.yaml:5:43: pipelines[0].stages: 2 stages are fed by no other; a query has one root",
  ],
  [
    "a pipeline with a model's name",
    small("pipelines: [{ name: m, sloMs: 50, stages: [{ model: m }] }]\n"),
    `s.yaml:5:21: pipelines[0].name: something else is called "m"; give it another name`,
  ],
  [
    "more requests of a pipeline than an instance may have",
    small(
      "pipelines: [{ name: p, sloMs: 50, stages: [{ model: m }, { model: m, name: n, after: [m], fanOut: 1024 }] }]\n",
    ),
    "s.yaml:5:43: pipelines[0].stages: one request makes up to 1025 of its stages; 1024 is the limit",
  ],
  [
    "a planner beside pipelines",
    small("planner: { epochS: 1 }\npipelines: [{ name: p, sloMs: 50, stages: [{ model: m }] }]\n"),
    "s.yaml:5:1: planner: a planner and pipelines don't go together yet",
  ],
  [
    "a number for an axis",
    small("vary: { sloMs: 3 }\n"),
    "s.yaml:5:16: vary.sloMs: 3 must be array,object; give a list of values, or a map",
  ],
  [
    "a number for a table",
    small("", "{ name: m, latencyMs: 5, sloMs: 5 }"),
    "s.yaml:4:27: models[0].latencyMs: 5 must be object; give a list such as [6, 7, 8.5]",
  ],
  ["a list as a key", `? [a]\n: 1\n${small("")}`, "s.yaml:1:1: [ a ]: unknown key; remove it. Known here: seed,"],
  ["no models", "gpus: 1\n", `s.yaml:1:1: "models" is missing; give a list of models, or { zoo: file.csv }`],
  ["an unknown key", small("ratee: 5\n"), `s.yaml:5:1: ratee: unknown key; did you mean "rate"? Known here: seed,`],
  ["a wrong type", small("seed: x\n"), `s.yaml:5:7: seed: "x" must be integer; give a whole number`],
  [
    "too small",
    small("warmupS: -1\n"),
    "s.yaml:5:10: warmupS: -1 must be >= 0; give seconds whose arrivals aren't counted",
  ],
  ["an unknown word", small("gather: tail\n"), `s.yaml:5:9: gather: "tail" is not known; give target (`],
  [
    "an unknown policy",
    small("policy: fastest\n"),
    "s.yaml:5:9: policy: there is no policy 'fastest'; there are default, ",
  ],
  [
    "unfit popularity",
    small("popularity: zipf\n"),
    `s.yaml:5:13: popularity: "zipf" isn't understood; give equal, zipf:0.9,`,
  ],
  ["a long list", small("popularity: [1, 2]\n"), "s.yaml:5:13: popularity: 2 numbers for 1 models; give one for each"],
  [
    "no weight",
    small("popularity: [0]\n"),
    "s.yaml:5:13: popularity: every weight is 0; give one model a weight above 0",
  ],
  [
    "noise twice",
    small("noise: { file: none.jsonl, slow: { share: 0.1, factor: 2 } }\n"),
    "s.yaml:5:16: noise.file: give either a recording, or stalls and slow",
  ],
  [
    "noise without a recording",
    small("noise: { file: none.jsonl }\n"),
    "s.yaml:5:16: noise.file: there is no recording of noise at ",
  ],
  [
    "a median above its percentile",
    small("noise: { stalls: { everyMs: 5, medianMs: 3, p99Ms: 2 } }\n"),
    "s.yaml:5:52: noise.stalls.p99Ms: 2 is below the median of 3",
  ],
  [
    "noise for a baseline that plans every run",
    small("policy: nexus:8\nnoise: { slow: { share: 0.1, factor: 2 } }\n"),
    "s.yaml:5:9: policy: 'nexus:8' runs without noise only",
  ],
  ["an unknown preference", small("prefer: speed\n"), `s.yaml:5:9: prefer: "speed" is not known; give latency (`],
  [
    "gamma alone",
    small("arrivals: { process: gamma }\n"),
    `s.yaml:5:11: arrivals: "shape" is missing; write { process: gamma, shape`,
  ],
  [
    "shape for poisson",
    small("arrivals: { process: poisson, shape: 1 }\n"),
    "s.yaml:5:38: arrivals.shape: belongs to process: gamma or modulated, not to poisson",
  ],
  [
    "trace alone",
    small("arrivals: { process: trace }\n"),
    `s.yaml:5:11: arrivals: "file" is missing; write { process: trace, file`,
  ],
  [
    "no such trace",
    small("arrivals: { process: trace, file: no.jsonl }\n"),
    "s.yaml:5:35: arrivals.file: the trace no.jsonl can't be read: there is no such file",
  ],
  [
    "a strange trace",
    small("arrivals: { process: trace, file: trace.jsonl }\n", "{ name: x, alphaMs: 1, betaMs: 1, sloMs: 9 }"),
    `s.yaml:5:35: arrivals.file: it has requests for "m"; describe that model`,
  ],
  [
    "all warm-up",
    small("durationS: 1\nwarmupS: 1\n"),
    "s.yaml:6:10: warmupS: the warm-up of 1 s leaves nothing of 1 s to count",
  ],
  [
    "a recording that ends within the warm-up, however long the scenario",
    small("arrivals: { process: trace, file: trace.jsonl }\ndurationS: 20\n"),
    "s.yaml:1:1: warmupS: the recording lasts 0 s at 100 r/s, less than the warm-up of 1 s; shorten that, or record",
  ],
  [
    "no models",
    "gpus: 2\nrate: 100\nmodels: []\n",
    "s.yaml:3:9: models: [] has too few entries: at least 1; give a list of models",
  ],
  [
    "phases out of order",
    small("phases: [{ fromS: 3 }, { fromS: 3 }]\n"),
    "s.yaml:5:33: phases[1].fromS: 3 s isn't after the phase before",
  ],
  [
    "a phase too late",
    small("phases: [{ fromS: 20 }]\n"),
    "s.yaml:5:19: phases[0].fromS: the scenario ends at 20 s, before its first phase",
  ],
  [
    "no gpus",
    small("").replace("gpus: 2\n", ""),
    `s.yaml:1:1: "gpus" is missing; give the number of accelerators here or with --gpus`,
  ],
  ["gpus twice", small("gpusPerModel: 2\n"), "s.yaml:5:15: gpusPerModel: give either gpus or gpusPerModel"],
  [
    "no latency",
    small("", "{ name: m, sloMs: 5 }"),
    `s.yaml:4:5: models[0]: "alphaMs" is missing; a model needs alphaMs and betaMs, or latencyMs`,
  ],
  [
    "no SLO",
    small("", "{ name: m, alphaMs: 1, betaMs: 1 }"),
    `s.yaml:4:5: models[0]: "sloMs" is missing; give milliseconds`,
  ],
  [
    "no time",
    small("", "{ name: m, alphaMs: 0, betaMs: 0, sloMs: 5 }"),
    "s.yaml:4:25: models[0].alphaMs: a batch can't take no time",
  ],
  [
    "latency twice",
    small("", "{ name: m, alphaMs: 1, latencyMs: [1], sloMs: 5 }"),
    "s.yaml:4:39: models[0].latencyMs: give either latencyMs, or alphaMs and betaMs",
  ],
  [
    "beyond the table",
    small("", "{ name: m, latencyMs: [1, 2], batchMax: 3, sloMs: 5 }"),
    "s.yaml:4:45: models[0].batchMax: 3 is beyond the table, which ends at 2",
  ],
  [
    "no batch size",
    small("", "{ name: m, latencyMs: { one: 2 }, sloMs: 5 }"),
    `s.yaml:4:29: models[0].latencyMs.one: "one" is no batch size; write { 1: 6, 8: 12 }`,
  ],
  [
    "a name twice",
    small("  - { name: m, alphaMs: 1, betaMs: 1, sloMs: 9 }\n"),
    `s.yaml:5:5: models[1]: there are two models "m"; give one another name`,
  ],
  [
    "weight in vain",
    small("popularity: equal\n", "{ name: m, alphaMs: 1, betaMs: 1, sloMs: 9, weight: 2 }"),
    "s.yaml:4:57: models[0].weight: weights count only with popularity: weights",
  ],
  [
    "shares above 1",
    small(
      "",
      "{ name: m, alphaMs: 1, betaMs: 1, sloMs: 9, classes: [{ sloMs: 5, share: 0.7 }, { sloMs: 6, share: 0.7 }] }",
    ),
    "s.yaml:4:58: models[0].classes: the shares come to 1.4; they can't exceed 1",
  ],
  [
    "shares below 1",
    small("", "{ name: m, alphaMs: 1, betaMs: 1, classes: [{ sloMs: 5, share: 0.7 }] }"),
    "s.yaml:4:48: models[0].classes: the shares come to 0.7; give the rest's SLO as sloMs",
  ],
  [
    "too many models",
    small(
      "",
      "{ name: m, alphaMs: 1, betaMs: 1, sloMs: 9, count: 4096 }\n  - { name: n, alphaMs: 1, betaMs: 1, sloMs: 9 }",
    ),
    "s.yaml:5:5: models[1]: there are over 4096 models from here on",
  ],
  [
    "no such zoo",
    small("", "{ zoo: no.csv }"),
    "s.yaml:4:12: models[0].zoo: no.csv can't be read (ENOENT); give a path relative to this file",
  ],
  [
    "not in the zoo",
    small("", "{ zoo: zoo.csv, only: [fast, fest] }"),
    `s.yaml:4:34: models[0].only[1]: zoo.csv has no "fest"; it has fast, slow, middling`,
  ],
];

test.each(complaints)(
  "a file with %s is refused, naming line and column and what to write instead",
  async (_, text, expected) => {
    expect(await complaintAbout(text)).toContain(expected);
  },
);

test("a zoo's faulty line is named, and the zoo with it", async () => {
  writeFileSync(join(folder, "bad.csv"), "# model\na,1,2,3\nb,1,x,3\n");
  expect(await complaintAbout(small("", "{ zoo: bad.csv }"))).toBe(
    `s.yaml:4:12: models[0].zoo: bad.csv:3: a line such as ResNet50,1.053,5.072,25 (model, alpha_ms, beta_ms, slo_ms) is expected, not "b,1,x,3"`,
  );
});

test("everything that is wrong is told at once, in the order of the file, and at most ten lines of it", async () => {
  const two = await complaintAbout("rate: 0\ngpus: 0\nmodels: []\n");
  expect(two.split("\n").map((line) => line.slice(0, 12))).toEqual(["s.yaml:1:7: ", "s.yaml:2:7: ", "s.yaml:3:9: "]);
  const many = await complaintAbout(small(Array.from({ length: 15 }, (_, i) => `x${i}: 1\n`).join("")));
  expect(many.split("\n").length).toBe(11);
  expect(many).toContain("and 5 more");
});

test("aliases work, what they repeat is pointed at where it stands, and a file can't blow up through them", async () => {
  const anchored = `gpus: 1\nrate: 1\nmodels:\n  - &m { name: m, alphaMs: 1, betaMs: 1, sloMs: -5 }\n  - *m\n`;
  expect(await complaintAbout(anchored)).toMatch(
    /^s\.yaml:4:49: models\[0\]\.sloMs: -5 must be > 0.*\ns\.yaml:4:49: models\[1\]/,
  );
  const levels = Array.from({ length: 9 }, (_, i) => `  - &a${i + 1} [${`*a${i}, `.repeat(9)}]\n`).join("");
  expect(await complaintAbout(`models:\n  - &a0 [x]\n${levels}`)).toContain("alias");
});
