import { execFile } from "node:child_process";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { afterAll, beforeAll, expect, test } from "vitest";
import { goodput } from "./goodput.ts";

const main = fileURLToPath(new URL("../main.ts", import.meta.url));
const SCENARIO = `
durationS: 2
warmupS: 0.5
gpus: 2
policy: deferred
models:
  - { name: ResNet50, alphaMs: 1.053, betaMs: 5.072, sloMs: 25 }
`;
let folder: string;
let scenario: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "tutti-goodput-"));
  scenario = join(folder, "scenario.yaml");
  await writeFile(scenario, SCENARIO);
});
afterAll(() => rm(folder, { recursive: true }));

const tutti = (...args: readonly string[]) => promisify(execFile)(process.execPath, [main, "goodput", ...args]);

test("the JSON has exactly the public fields, and a rate between nothing and the bound", async () => {
  const { stdout, stderr } = await tutti(scenario, "--json", "--duration", "2", "--seeds", "2", "--seed", "7");
  const found = JSON.parse(stdout) as Record<string, unknown> & { goodputRps: number; trials: { seed: number }[] };
  expect(Object.keys(found)).toEqual(["goodputRps", "worstModelBadRate", "bound", "trials"]);
  const bound = found["bound"] as Record<string, number>;
  expect(Object.keys(bound)).toEqual(["staggeredRps", "uncoordinatedRps", "clairvoyantRps", "nonPreemptiveRps"]);
  expect(found.goodputRps).toBeGreaterThan(0.6 * bound["clairvoyantRps"]!);
  expect(found.goodputRps).toBeLessThan(bound["nonPreemptiveRps"]!);
  expect(bound["nonPreemptiveRps"]).toBeLessThanOrEqual(bound["clairvoyantRps"]!);
  expect([...new Set(found.trials.map(({ seed }) => seed))].sort()).toEqual([7, 8]);
  expect(stderr).toBe("");
});

test("a finer search ends nearer to the first bad rate", async () => {
  const gap = async (precision: string): Promise<number> => {
    const { stdout } = await tutti(scenario, "--json", "--duration", "2", "--precision", precision);
    const { goodputRps, trials } = JSON.parse(stdout) as {
      goodputRps: number;
      trials: { rateRps: number; good: boolean }[];
    };
    const bad = trials.filter(({ rateRps, good }) => !good && rateRps > goodputRps).map(({ rateRps }) => rateRps);
    return Math.min(...bad) / goodputRps - 1;
  };
  expect(await gap("0.1")).toBeLessThanOrEqual(0.001);
  expect(await gap("5")).toBeGreaterThan(0.005);
});

test("people are told the fewest accelerators for a rate", async () => {
  const { stdout } = await tutti(scenario, "--min-gpus", "--rate", "1500", "--duration", "2", "--workers", "1");
  expect(stdout).toMatch(
    /^ResNet50, policy deferred, 1,500 r\/s: \d+ trials? of 1 seed\n\n3 accelerators are enough \(.*\) and leave \d+ % headroom; 4 leave \d+ % headroom\.\n/,
  );
});

test("a model by its table of latencies needs no scenario, and no cluster", async () => {
  const profile = join(folder, "profile.yaml");
  await writeFile(profile, "{ alpha: 1.053ms, beta: 5.072ms }");
  const model = ["--model", "mlp", "--profile", profile, "--slo", "25ms", "--min-gpus", "--rate", "1500"];
  const { stdout, stderr } = await tutti(...model, "--duration", "2", "--workers", "1");
  expect(stdout).toMatch(/^mlp, policy default, 1,500 r\/s: \d+ trials? of 1 seed\n\n3 accelerators are enough/);
  expect(stderr).toBe("");
});

test.for([
  [{}, "name a scenario file, or a model with --model"],
  [{ model: "mlp", profile: "p.yaml" }, "--profile has no SLO"],
  [{ model: "mlp", profile: "p.yaml", slo: "40ms", minGpus: false }, "of how many accelerators?"],
  [{ model: "mlp", profile: "none.yaml", slo: "40ms" }, "none.yaml can't be read (ENOENT)"],
  [{ model: "mlp", slo: "long" }, "--slo long"],
] as const)("without a scenario %j is wrong usage, and the error says why", async ([options, text]) => {
  const ended = goodput(undefined, { seeds: "1", minGpus: true, ...options });
  await expect(ended).rejects.toMatchObject({ exitCode: 2, message: expect.stringContaining(text) });
});

test("a recording that is too short at the rate in question is refused, with how long to record", async () => {
  const trace = join(folder, "short.csv");
  const lines = Array.from({ length: 1000 }, (_, i) => `${(i + 1) * 10},ResNet50`); // 10 s at 100 r/s
  await writeFile(trace, ["t_ms,model", ...lines].join("\n"));
  const replayed = join(folder, "replayed.yaml");
  await writeFile(replayed, `${SCENARIO.replace("durationS: 2", "")}arrivals: { process: trace, file: short.csv }\n`);
  const most = goodput(replayed, { seeds: "1" });
  await expect(most).rejects.toMatchObject({
    message: expect.stringMatching(/^at [\d,]+ r\/s the recording lasts only 0\.\d+ s, .*--seconds \d+`\)$/),
  });
  const fewest = goodput(replayed, { seeds: "1", minGpus: true, rate: "500" });
  await expect(fewest).rejects.toMatchObject({
    exitCode: 1,
    message:
      "at 500 r/s the recording lasts only 2 s, of which 1.5 s after the warm-up: too little to judge 1 % bad by; " +
      "so that 20 s are left, record for 103 s of such traffic (`tutti record --seconds 103`)",
  });
});

test.for([
  [{ model: "mlp" }, "--model needs no scenario file"],
  [{ slo: "40ms" }, "--slo and --profile go with --model"],
  [{ rate: "100" }, "--rate goes with --min-gpus"],
  [{ minGpus: true, gpus: "3" }, "--gpus is what --min-gpus looks for"],
  [{ minGpus: true, precision: "1" }, "--precision is of rates"],
  [{ seeds: "0" }, "--seeds 0"],
  [{ precision: "0" }, "--precision 0"],
  [{ workers: "many" }, "--workers many"],
  [{ policy: "nonsense" }, "there is no policy 'nonsense'"],
] as const)("%j is wrong usage, and the error says why", async ([options, text]) => {
  const ended = goodput(scenario, { seeds: "1", ...options });
  await expect(ended).rejects.toMatchObject({ exitCode: 2, message: expect.stringContaining(text) });
});
