import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { readScenario } from "./scenario-file.ts";

const folder = mkdtempSync(join(tmpdir(), "tutti-learned-"));
afterAll(() => rmSync(folder, { recursive: true }));

function scenarioOf(lines: string): ReturnType<typeof readScenario> {
  const path = join(folder, "scenario.yaml");
  const model = "models: [{ name: m, alphaMs: 1, betaMs: 5, sloMs: 25 }]";
  writeFileSync(path, `gpus: 2\nrate: 100\n${model}\n${lines}\n`);
  return readScenario(path);
}

test("profiles are learned from those that are given, or from so many times these", async () => {
  expect((await scenarioOf("")).learned).toBeUndefined();
  expect((await scenarioOf("profiles: learned")).learned).toEqual({ given: 1 });
  expect((await scenarioOf("profiles: { given: 1.5 }")).learned).toEqual({ given: 1.5 });
});

test("what can't be learned is said", async () => {
  await expect(scenarioOf("profiles: guessed")).rejects.toThrow(/learned, or \{ given: 1.5 \}/);
  await expect(scenarioOf("profiles: learned\nplanner: { epochS: 5 }")).rejects.toThrow(/doesn't go with planner/);
  await expect(scenarioOf("profiles: learned\npolicy: triton")).rejects.toThrow(/'triton' plans with given profiles/);
});

test("standstills at given moments and cold code are noise", async () => {
  const { noise } = await scenarioOf("noise: { once: [{ atS: 5, ms: 1000 }], cold: { factor: 3, forS: 2 } }");
  expect(noise).toEqual({
    stalls: [{ kind: "given", scope: "machine", stalls: [{ at: 5e6, length: 1e6 }] }],
    cold: { factor: 3, until: 2e6 },
  });
  const overlapping = "noise: { once: [{ atS: 1, ms: 2000 }, { atS: 2, ms: 1 }] }";
  await expect(scenarioOf(overlapping)).rejects.toThrow(/before the one before has ended/);
});

test("what a recorded run of a live system needs can be said: arrivals that are gathered, and runs that go on", async () => {
  const lines = "network: { dArriveUs: 50, gatherUs: 1000 }\nnoise: { once: [{ atS: 5, ms: 1 }], runsGoOn: true }";
  const { network, noise } = await scenarioOf(lines);
  expect(network).toMatchObject({ arrive: 50, gather: 1_000 });
  expect(noise).toMatchObject({ runsGoOn: true });
  await expect(scenarioOf("noise: { runsGoOn: 1 }")).rejects.toThrow(/runsGoOn/);
});
