/** Tests of `tutti simulate` and `tutti compare` as processes: their output, and the files that they write. */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type SimulationResult, decisionLines, simulate as runScenario, tellStory } from "@tutti/simulator";
import { afterAll, expect, test } from "vitest";
import { compare } from "../commands/compare.ts";
import { simulate } from "../commands/simulate.ts";
import { PATIENCE_MS, typedIn } from "../testing/typed-command.ts";
import { readScenario } from "@tutti/sim-report/scenarios";

const folder = mkdtempSync(join(tmpdir(), "tutti-simulate-"));
afterAll(() => rmSync(folder, { recursive: true }));

const scenario = join(folder, "scenario.yaml");
writeFileSync(
  scenario,
  `durationS: 3\ngpus: 4\nrate: 500\nmodels:\n  - { name: a, count: 2, alphaMs: 1, betaMs: 5, sloMs: 30 }\n`,
);

const tutti = typedIn(folder);

test(
  "simulate prints a table for people, and with --json exactly the documented fields of that run",
  { timeout: PATIENCE_MS },
  async () => {
    const [text, json] = await Promise.all([
      tutti("simulate", scenario),
      tutti("simulate", scenario, "--json", "--seed", "2", "--policy", "eager", "--rate", "800", "--gpus", "3"),
    ]);
    expect(text).toMatchObject({ code: 0, stderr: "" });
    expect(text.stdout).toMatch(
      /^default: 4 accelerators, 2 models, poisson arrivals, 3 s with 1 s of warm-up, seed 1\n/,
    );
    expect(text.stdout).toMatch(/^a-2 +\d+ +\d+ +[\d.]+ % +[\d.]+ ms +[\d.]+ ms +[\d.]+$/m);

    const result = JSON.parse(json.stdout) as Record<string, unknown>;
    const overrides = { seed: 2, policy: "eager", rate: 800, gpus: 3 };
    expect(result).toEqual(runScenario(await readScenario(scenario, { overrides })));
    expect(Object.keys(result)).toEqual(
      "seed policy offeredRps goodRps badRate gpu batchSize queueDelayMs models".split(" "),
    );
    expect(Object.keys(result["gpu"] as object)).toEqual(["count", "used", "busyFraction"]);
    expect(Object.keys(result["batchSize"] as object)).toEqual(["mean", "p50", "p99"]);
    expect(Object.keys(result["queueDelayMs"] as object)).toEqual(["p50", "p99"]);
    const [model] = result["models"] as object[];
    expect(Object.keys(model!)).toEqual("name offeredRps goodRps badRate p50Ms p99Ms batchMean".split(" "));
  },
);

test(
  "simulate writes the decision log and the page, and tells a request's story",
  { timeout: PATIENCE_MS },
  async () => {
    const [log, page] = [join(folder, "log.jsonl"), join(folder, "page.html")];
    const [story, nobody] = await Promise.all([
      tutti("simulate", scenario, "--log", log, "--html", page, "--explain", "12"),
      tutti("simulate", scenario, "--explain", "123456"),
    ]);
    expect(readFileSync(log, "utf8").trimEnd().split("\n")).toEqual(decisionLines(await readScenario(scenario)));
    const html = readFileSync(page, "utf8");
    expect(html).toContain(`tutti simulate ${scenario} --log`);
    expect(html.trimEnd().endsWith("</html>")).toBe(true);
    expect(story).toMatchObject({ code: 0, stdout: `${tellStory(await readScenario(scenario), 12)}\n` });
    expect(nobody).toMatchObject({ code: 1, stdout: "" });
    expect(nobody.stderr).toContain("no request 123456 arrived");
  },
);

test(
  "compare runs the same arrivals under each policy and rates them by the best, goodput included",
  { timeout: PATIENCE_MS },
  async () => {
    const page = join(folder, "compare.html");
    const policies = ["--policies", "default,eager,nexus", "--duration", "2"];
    const [text, json] = await Promise.all([
      tutti("compare", scenario, ...policies, "--html", page),
      tutti("compare", scenario, ...policies, "--goodput", "--json"),
    ]);
    expect(text.stdout).toMatch(/^4 accelerators, 2 models, .* r\/s offered\n\npolicy +of the best +good r\/s/);
    expect(text.stdout).toMatch(/^nexus +[\d.]+ /m);
    expect(readFileSync(page, "utf8")).toContain("3 policies");

    const runs = JSON.parse(json.stdout) as (SimulationResult & { goodputRps: number; ratioToBest: number })[];
    const best = Math.max(...runs.map(({ goodputRps }) => goodputRps));
    expect(best).toBeGreaterThan(0);
    expect(runs.map(({ policy }) => policy)).toEqual(["default", "eager", "nexus"]);
    for (const { goodputRps, ratioToBest, ...result } of runs) {
      expect(ratioToBest).toBeCloseTo(goodputRps / best, 9);
      const overrides = { durationS: 2, policy: result.policy };
      expect(result).toEqual(runScenario(await readScenario(scenario, { overrides })));
    }
  },
);

test(
  "compare --random finds the best rival of a random mix, says how much that rests on, and draws it",
  { timeout: PATIENCE_MS },
  async () => {
    const page = join(folder, "mixes.html");
    const random = ["--random", "1", "--seed", "1", "--rivals", "eager,latest"];
    const [drawn, parts, both] = await Promise.all([
      tutti("compare", ...random, "--json", "--html", page),
      tutti("compare", "--random", "1", "--seed", "6", "--rivals", "default:whole", "--parts", "--json"),
      tutti("compare", scenario, ...random),
    ]);
    const [ofParts] = JSON.parse(parts.stdout) as Record<string, number>[];
    expect(ofParts).toMatchObject({ seed: 6, gpus: 14, models: 5, rival: "default:whole" });
    expect(ofParts!["goodputRps"]).toBeGreaterThan(1.2 * ofParts!["rivalRps"]!);
    const [mix, ...others] = JSON.parse(drawn.stdout) as Record<string, number>[];
    expect(others).toEqual([]);
    expect(mix).toMatchObject({ seed: 1, gpus: 11, models: 2, arrivals: "poisson", rival: "eager" });
    expect(mix!["goodputRps"]).toBeGreaterThan(mix!["rivalRps"]!);
    expect(mix!["boundRps"]).toBeGreaterThan(mix!["goodputRps"]!);
    expect(mix!["badLeast"]).toBeGreaterThan(50);
    expect(readFileSync(page, "utf8")).toContain("1 random mixes");
    expect(both).toMatchObject({ code: 2, stdout: "" });
    expect((await tutti("compare", scenario, "--parts")).stderr).toContain("--parts goes with --random");
  },
);

test(
  "what can't be run says why, with exit code 2 for a wrong command line and 1 for a wrong file",
  { timeout: PATIENCE_MS },
  async () => {
    const broken = join(folder, "broken.yaml");
    writeFileSync(broken, "gpus: 4\nrate: 500\nmodles: []\n");
    const [missing, file] = await Promise.all([tutti("simulate", "nothing.yaml"), tutti("simulate", broken, "--json")]);
    expect(missing).toMatchObject({ code: 2, stdout: "" });
    expect(missing.stderr).toContain("nothing.yaml can't be read (there is no such file)");
    expect(file.code).toBe(1);
    const { error, code } = JSON.parse(file.stdout) as { error: string; code: string };
    expect(code).toBe("TUTTI_COMMAND");
    expect(error).toContain(`${broken}:3:1: modles: unknown key; did you mean "models"?`);

    const refused = (options: Parameters<typeof simulate>[1]) => expect(simulate(scenario, options)).rejects;
    const usage = (text: string) =>
      expect.objectContaining({ exitCode: 2, message: expect.stringContaining(text) as string });
    await refused({ policy: "fastest" }).toEqual(usage("there is no policy 'fastest'; there are default,"));
    const range = "requests per second, such as 5000, above 0 and below 1e9";
    for (const rate of ["many", "1e9", "0"]) await refused({ rate }).toEqual(usage(`--rate ${rate}: ${range}`));
    await refused({ load: "0" }).toEqual(usage("--load 0: work relative to all accelerators, such as 1.3"));
    await refused({ load: "1", rate: "5" }).toEqual(usage("--load and --rate: give one of the two"));
    await refused({ seed: "1.5" }).toEqual(usage("--seed 1.5: a whole number from 0 to 4294967295"));
    await refused({ duration: "soon" }).toEqual(usage("--duration soon: seconds, such as 20"));
    await refused({ gather: "tail" }).toEqual(usage("--gather tail: target or head"));
    await refused({ set: ["slo"] }).toEqual(usage("--set slo: write --set axis=value"));
    await refused({ explain: "0" }).toEqual(usage("--explain 0: a whole number from 1"));
    await refused({ log: join(folder, "no", "log") }).toThrow("can't be written (ENOENT)");
    await expect(compare(scenario, { policies: "default,,eager" })).rejects.toEqual(usage("there is no policy ''"));
  },
);

test(
  "a scenario with a planner says how many accelerators it took, in words and in the documented fields, and with whom it goes",
  { timeout: PATIENCE_MS },
  async () => {
    const path = join(folder, "planner.yaml");
    const models = "models: [{ name: a, count: 2, alphaMs: 1, betaMs: 5, sloMs: 30 }]";
    writeFileSync(path, `durationS: 3\ngpus: 4\nrate: 500\nplanner: { epochS: 0.5 }\n${models}\n`);
    const [text, json, baseline] = await Promise.all([
      tutti("simulate", path),
      tutti("simulate", path, "--json"),
      tutti("compare", path, "--policies", "default,nexus"),
    ]);
    expect(text.stdout).toMatch(/^default: at most 4 accelerators, 2 models/);
    expect(text.stdout).toMatch(/^ {2}planner +[\d.]+ accelerators on average, [\d.]+ to 4.0$/m);
    expect(text.stdout).toMatch(/^ {2}epochs +0 of 6 with over 1 % bad$/m);
    const { planner } = JSON.parse(json.stdout) as Required<SimulationResult>;
    expect(Object.keys(planner)).toEqual(["gpusMean", "windows"]);
    expect(Object.keys(planner.windows[0]!)).toEqual(
      "fromS untilS offeredRps goodRps badRate gpus busy advice".split(" "),
    );
    expect(baseline).toMatchObject({ code: 2, stdout: "" });
    expect(baseline.stderr).toContain("'nexus' can't take or give back accelerators during a run");
  },
);
