/** Tests of scenarios with rates from a file, and of those with a planner. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { seconds } from "@tutti/units";
import { afterAll, expect, test } from "vitest";
import { CommandError } from "@tutti/admin";
import { type ScenarioOptions, readScenario } from "./scenario-file.ts";

const folder = mkdtempSync(join(tmpdir(), "tutti-changing-"));
afterAll(() => rmSync(folder, { recursive: true }));

const MODELS =
  "models: [{ name: a, alphaMs: 1, betaMs: 5, sloMs: 25 }, { name: b, alphaMs: 1, betaMs: 5, sloMs: 25 }]\n";
const write = (name: string, text: string): void => writeFileSync(join(folder, name), text);

async function read(text: string, options: ScenarioOptions = {}) {
  const duration = text.includes("durationS") ? "" : "durationS: 20\n";
  const gpus = text.includes("gpus:") ? "" : "gpus: 8\n";
  const models = text.includes("models:") ? "" : MODELS;
  write("s.yaml", `${gpus}${duration}${models}${text}`);
  return readScenario(join(folder, "s.yaml"), options);
}
async function complaintAbout(text: string): Promise<string> {
  const error: unknown = await read(text).then(
    () => undefined,
    (reason: unknown) => reason,
  );
  expect(error).toBeInstanceOf(CommandError);
  return (error as CommandError).message.replaceAll(`${folder}/`, "");
}

test("a file of rates says how many requests of each model come from when on, columns in any order", async () => {
  write("rates.csv", "# a day\nfrom_s,b,a\n0,100,300\n5, 50 ,0\n");
  const { rate, phases } = await read("phases: { file: rates.csv }\n");
  expect(rate).toBe((5 * 400 + 15 * 50) / 20);
  expect(phases.map(({ from }) => from)).toEqual([0, seconds(5)]);
  expect(phases.map(({ factor, shares }) => shares!.map((share) => share * factor * rate))).toEqual([
    [expect.closeTo(300, 9), expect.closeTo(100, 9)],
    [0, expect.closeTo(50, 9)],
  ]);
});

test("another rate scales all rates of a file, and a shorter run has the mean rate of its time", async () => {
  write("rates.csv", "from_s,a,b\n0,300,100\n5,0,50\n");
  const twice = await read("phases: { file: rates.csv }\n", { overrides: { rate: 275 } });
  expect(twice.phases[0]!.factor * twice.rate).toBeCloseTo(2 * 400, 9);
  const short = await read("phases: { file: rates.csv }\n", { overrides: { durationS: 5 } });
  expect(short.rate).toBe(400);
  expect(short.phases[1]!.factor * short.rate).toBeCloseTo(50, 9);
});

const ratesWrong: readonly (readonly [what: string, file: string, expected: string])[] = [
  ["no head", "0,1,2\n", "rates.csv:1: the head begins with from_s"],
  ["an unknown model", "from_s,a,c\n0,1,2\n", 'rates.csv:1: the scenario has no model "c"'],
  ["a model twice", "from_s,a,a\n0,1,2\n", 'rates.csv:1: "a" has two columns'],
  ["a model without a column", "from_s,a\n0,1\n", 'rates.csv:1: "b" has no column; give 0 where no request comes'],
  ["a value too few", "# c\nfrom_s,a,b\n0,1\n", "rates.csv:3: 2 values for 3 columns"],
  ["a negative rate", "from_s,a,b\n0,1,-2\n", 'rates.csv:2: "-2" is no rate; give a number from 0 on'],
  ["an empty cell", "from_s,a,b\n0,1,\n", 'rates.csv:2: "" is no rate'],
  ["times out of order", "from_s,a,b\n0,1,2\n3,1,2\n3,1,1\n", "rates.csv:4: 3 s isn't after the line before"],
  ["no lines", "from_s,a,b\n", "rates.csv has no rates"],
  ["nothing but 0", "from_s,a,b\n0,0,0\n", "rates.csv has only rates of 0"],
];

test.for(ratesWrong)(
  "a file of rates with %s is answered with its line, at the key that names it",
  async ([, file, expected]) => {
    write("rates.csv", file);
    const complaint = await complaintAbout("phases: { file: rates.csv }\n");
    expect(complaint).toContain("s.yaml:4:17: phases.file: ");
    expect(complaint).toContain(expected);
  },
);

test("a file of rates that isn't there is said to be missing, and a key that it doesn't know too", async () => {
  expect(await complaintAbout("phases: { file: none.csv }\n")).toContain("none.csv can't be read (ENOENT)");
  expect(await complaintAbout("phases: { path: none.csv }\n")).toContain('"file" is missing');
});

test("a planner has the defaults that the schema declares", async () => {
  const { planner } = await read("rate: 100\nplanner: { epochS: 2 }\n");
  expect(planner).toEqual({ epoch: seconds(2), startup: seconds(0), gpusMin: 1, gpusStart: 8, rule: "work" });
  const whole = "rate: 100\nplanner: { epochS: 2, startupS: 0.5, gpusMin: 2, gpusStart: 4, rule: advice }\n";
  expect((await read(whole)).planner).toEqual({
    ...{ epoch: seconds(2), startup: seconds(0.5), gpusMin: 2, gpusStart: 4, rule: "advice" },
  });
});

const plannersWrong: readonly (readonly [what: string, text: string, expected: string])[] = [
  ["no epoch", "planner: {}\n", 's.yaml:5:10: planner: "epochS" is missing; give seconds between plans'],
  [
    "more at least than there are",
    "planner: { epochS: 2, gpusMin: 9 }\n",
    "s.yaml:5:32: planner.gpusMin: 9 are more than the 8 accelerators",
  ],
  [
    "more at first than there are",
    "planner: { epochS: 2, gpusStart: 9 }\n",
    "planner.gpusStart: 9 are more than the 8",
  ],
  [
    "fewer at first than at least",
    "planner: { epochS: 2, gpusMin: 3, gpusStart: 2 }\n",
    "gpusStart: 2 are fewer than gpusMin, 3",
  ],
  [
    "epochs without end",
    "planner: { epochS: 0.01 }\ndurationS: 2000\n",
    "planner.epochS: 0.01 s make 200000 epochs of 2000 s",
  ],
  ["an unknown key", "planner: { epochS: 2, epoch: 3 }\n", "s.yaml:5:23: planner.epoch: unknown key"],
  ["another rule", "planner: { epochS: 2, rule: luck }\n", 'planner.rule: "luck" is not known; give work'],
  [
    "a policy that can't follow",
    "policy: nexus:8\nplanner: { epochS: 2 }\n",
    "s.yaml:5:9: policy: 'nexus:8' can't take or give back",
  ],
];

test("models on parts of accelerators: a whole one is a part too, and neighbours are as the scenario says", async () => {
  const model =
    "models: [{ name: a, alphaMs: 1, betaMs: 5, fills: 0.1, cacheUse: 0.2, bandwidthUse: 0.3, sloMs: 25 }]\n";
  const { models, interference } = await read(`rate: 100\n${model}interference: [0.2, 0.5, 0.3, 0.2, 0.9]\n`);
  expect(models[0]!.parts).toEqual({ alpha: 1000, beta: 5000, fills: 0.1, cacheUse: 0.2, bandwidthUse: 0.3 });
  expect([1, 10, 20].map((b) => models[0]!.profile.latency(b))).toEqual([15_000, 15_000, 25_000]);
  expect(interference).toEqual([0.2, 0.5, 0.3, 0.2, 0.9]);
  const table = "rate: 100\nmodels: [{ name: a, latencyMs: [5], fills: 0.1, sloMs: 25 }]\n";
  expect(await complaintAbout(table)).toContain("models[0].fills: needs alphaMs and betaMs");
  expect(await complaintAbout(`rate: 100\n${MODELS}interference: [1]\n`)).toContain("give five coefficients");
});

const splitsWrong: readonly (readonly [what: string, text: string, expected: string])[] = [
  ["more than models", "subClusters: 3\n", "s.yaml:5:14: subClusters: 3 for 2 models; each has at least one"],
  ["more than accelerators", "gpus: 1\nsubClusters: 2\n", "subClusters: 2 for 1 accelerators"],
  ["a planner", "subClusters: 2\nplanner: { epochS: 2 }\n", "subClusters: doesn't go with a planner"],
  [
    "a baseline",
    "subClusters: 2\npolicy: clockwork\n",
    "policy: 'clockwork' is for the whole cluster; in subClusters use default",
  ],
  ["more to be used than there are", "subClusters: 2\nsubClustersMin: 3\n", "subClustersMin: 3 of 2"],
  ["none at all", "subClusters: 0\n", "subClusters: 0 must be >= 1; give models and accelerators split"],
];

test.for(splitsWrong)("sub-clusters with %s are answered with their line", async ([, text, expected]) => {
  expect(await complaintAbout(`rate: 100\n${text}`)).toContain(expected);
});

test("halves of accelerators with a planner or for dynamic models are answered with their line", async () => {
  const halves = 'rate: 100\npolicy: "default:halves"\n';
  expect(await complaintAbout(`${halves}${MODELS}planner: { epochS: 2 }\n`)).toContain(
    "policy: 'default:halves': a planner and halves of accelerators don't go together yet",
  );
  const dynamic = "models: [{ name: d, sloMs: 100, dynamic: { lengths: { constantMs: 10 }, c0Ms: 5, c1: 0.2 } }]\n";
  expect(await complaintAbout(`${halves}${dynamic}`)).toContain(
    "how long d takes on half of an accelerator is not known",
  );
});

const typesWrong: readonly (readonly [what: string, text: string, expected: string])[] = [
  ["beside gpus", "gpus: 8\ntypes: [{ name: a, gpus: 1 }]\n", "gpus: doesn't go with types"],
  ["twice the same", "types: [{ name: a, gpus: 1 }, { name: a, gpus: 2 }]\n", "types[1].name: a is there twice"],
  ["faster than the models say", "types: [{ name: a, gpus: 1, times: 0.5 }]\n", "must be >= 1"],
  [
    "for a baseline",
    "types: [{ name: a, gpus: 1 }]\npolicy: nexus\n",
    "'nexus' is for accelerators that are all alike",
  ],
  ["missing for pools", 'policy: "default:pools"\n', "'default:pools' needs types of accelerators"],
];

test.for(typesWrong)("types of accelerators %s are answered with their line", async ([, text, expected]) => {
  expect(await complaintAbout(`rate: 100\n${text}`)).toContain(expected);
});

const EMBED = "{ name: embed, alphaMs: 1, betaMs: 1 }";
const jobsWrong: readonly (readonly [what: string, text: string, expected: string])[] = [
  ["beside sub-clusters", `subClusters: 2\njobs: [${EMBED}]\n`, "subClusters: doesn't go with jobs"],
  ["twice the same", `jobs: [${EMBED}, ${EMBED}]\n`, "jobs[1].name: embed is there twice"],
  ["without latencies", "jobs: [{ name: embed, alphaMs: 1 }]\n", '"betaMs" is missing'],
  ["for a baseline", `jobs: [${EMBED}]\npolicy: nexus\n`, "'nexus' has no jobs; use default"],
];

test.for(jobsWrong)("jobs %s are answered with their line", async ([, text, expected]) => {
  expect(await complaintAbout(`rate: 100\ngpus: 8\n${MODELS}${text}`)).toContain(expected);
});

test("types of accelerators add up to the number of accelerators", async () => {
  const { gpus, types } = await read(
    `rate: 100\n${MODELS}types: [{ name: a100, gpus: 8 }, { name: t4, gpus: 16, times: 4 }]\n`,
  );
  expect(gpus).toBe(24);
  expect(types).toEqual([
    { name: "a100", gpus: 8, times: 1 },
    { name: "t4", gpus: 16, times: 4 },
  ]);
});

test.for(plannersWrong)("a planner with %s is answered with its line", async ([, text, expected]) => {
  expect(await complaintAbout(`rate: 100\n${text}`)).toContain(expected);
});
