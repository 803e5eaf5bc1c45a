/** Tests of `tutti plan` as processes: output, exit codes and pages. */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { PATIENCE_MS, typedIn } from "../testing/typed-command.ts";

const folder = mkdtempSync(join(tmpdir(), "tutti-plan-commands-"));
afterAll(() => rmSync(folder, { recursive: true }));

const files = {
  "pack.yaml": `streams:\n  - { name: "<b>a</b>", rate: 50, sloMs: 50, alphaMs: 1, betaMs: 5 }\n  - { name: c, rate: 20, sloMs: 80, alphaMs: 1, betaMs: 5 }\n`,
  "never.yaml": `streams:\n  - { name: a, rate: 50, sloMs: 8, alphaMs: 1, betaMs: 5 }\n`,
  "fractions.yaml": `executors: 1\nmodels:\n  - { name: a, rate: 50, sloMs: 100, alphaMs: 1, betaMs: 5 }\n`,
  "much.yaml": `executors: 1\nmodels:\n  - { name: a, rate: 50000, sloMs: 100, alphaMs: 1, betaMs: 5 }\n`,
  "subclusters.yaml": `subClusters: 2\nproposals: 1000\nmodels:\n  - { name: a, rate: 5, staticMb: 5, was: 0 }\n  - { name: b, rate: 5, staticMb: 5, was: 0 }\n`,
  "query.yaml": `sloMs: 100\nrate: 100\nstages:\n  - { name: a, alphaMs: 1, betaMs: 5 }\n  - { name: c, after: [a], requests: 3, alphaMs: 1, betaMs: 9 }\n`,
  "scenario.yaml": `gpus: 1\nwarmupS: 0.5\nmodels:\n  - { name: m, alphaMs: 1, betaMs: 5, sloMs: 30 }\n`,
  "scale.yaml": `scenario: scenario.yaml\nwindowS: 2\nrates: [300, 900]\n`,
};
for (const [name, text] of Object.entries(files)) writeFileSync(join(folder, name), text);

const plan = typedIn(folder, "plan");
const timeout = PATIENCE_MS;

test(
  "each kind prints JSON with the documented fields, and its reasons where they are asked for",
  { timeout },
  async () => {
    const fields = {
      pack: "kind feasible work nodes unplaced batchOblivious",
      subclusters:
        "kind feasible objective relativeObjective rateGap memoryGapMb imbalance rateMax memoryMaxMb moved moveCost budget greedy before subClusters models",
      fractions:
        "kind feasible used executorsMax wholeExecutors greedyExecutors interference splits order neighbours executors models division",
      scale: "kind feasible windows gpusMean badRate",
      query: "kind feasible sloMs rate fits stages planned even",
    };
    for (const [kind, names] of Object.entries(fields)) {
      const { code, stdout, stderr } = await plan(kind, `${kind}.yaml`, "--json", "--explain");
      expect({ kind, code, stderr }).toEqual({ kind, code: 0, stderr: "" });
      const result = JSON.parse(stdout) as Record<string, unknown>;
      expect(Object.keys(result)).toEqual([...names.split(" "), "explanation"]);
      expect((result["explanation"] as string[]).length).toBeGreaterThan(0);
    }
  },
);

test("a page that can't be written is refused before the input is looked at", { timeout }, async () => {
  for (const kind of ["pack", "subclusters", "fractions", "query", "scale"]) {
    const { code, stderr } = await plan(kind, "no.yaml", "--html", "no/page.html");
    expect({ kind, code, stderr }).toEqual({
      kind,
      code: 1,
      stderr: "tutti: no/page.html can't be written (ENOENT)\n",
    });
  }
});

test("a plan that leaves something out is printed, and ends with 1; wrong usage ends with 2", { timeout }, async () => {
  const [refused, much, missing, unknown] = await Promise.all([
    plan("pack", "never.yaml", "--explain"),
    plan("fractions", "much.yaml", "--explain"),
    plan("pack", "no.yaml"),
    plan("guess", "pack.yaml"),
  ]);
  expect(refused.code).toBe(1);
  expect(refused.stdout).toContain("Not placed: a at 50 r/s: not even a batch of one fits twice into its SLO");
  expect(refused.stdout).toMatch(/^- a \(50 r\/s within 8 ms\): not placed/m);
  expect(much.code).toBe(1);
  expect(much.stdout).toMatch(/^1 model doesn't fit on 1 accelerator \(whole ones: \d+/);
  expect(much.stdout).toContain("no part is left");
  expect(missing).toMatchObject({ code: 2, stdout: "", stderr: expect.stringContaining("there is no such file") });
  expect(unknown.code).toBe(2);
});

test("a page shows every node and its shares, needs nothing else, and names in it are text", { timeout }, async () => {
  for (const kind of ["pack", "subclusters", "fractions", "scale", "query"]) {
    expect((await plan(kind, `${kind}.yaml`, "--html", `${kind}.html`)).code).toBe(0);
    const html = readFileSync(join(folder, `${kind}.html`), "utf8");
    expect(html).toContain(`http-equiv="Content-Security-Policy" content="default-src 'none'`);
    expect(html).toContain("<h2>Why</h2>");
    expect(html).toMatch(/<div title="[^"]+" style="width:\d/);
    expect(html).not.toContain("<b>a</b>");
  }
  expect(readFileSync(join(folder, "pack.html"), "utf8")).toContain("&lt;b&gt;a&lt;/b&gt; by ");
  expect((await plan("pack", "pack.yaml", "--html", "no/such/folder.html")).code).toBe(1);
});
