import { appendFileSync, mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { ComparedMix } from "@tutti/simulator";
import { afterAll, expect, test } from "vitest";
import { StoredMixes } from "./stored-mixes.ts";

const folder = mkdtempSync(join(tmpdir(), "tutti-mixes-"));
afterAll(() => rmSync(folder, { recursive: true }));

const mix: ComparedMix = {
  ...{ seed: 7, gpus: 8, models: 3, arrivals: "poisson", goodputRps: 900, rival: "eager", rivalRps: 950 },
  ...{ boundRps: 1800, nonPreemptiveRps: 1500, badLeast: 60 },
};

test("a run that is gone on with has the mixes of the one that was stopped, but not half a line", () => {
  new StoredMixes(folder, false).set("one", mix);
  appendFileSync(join(folder, "mixes.partial.jsonl"), '{"key":"two","mix":{"se');
  const resumed = new StoredMixes(folder, true);
  expect(resumed.get("one")).toEqual(mix);
  expect(resumed.get("two")).toBeUndefined();
});

test("a run that begins anew has none, and one at its end leaves none", () => {
  new StoredMixes(folder, false).set("one", mix);
  expect(new StoredMixes(folder, false).get("one")).toBeUndefined();
  const ended = new StoredMixes(folder, false);
  ended.set("one", mix);
  ended.discard();
  expect(readdirSync(folder)).toEqual([]);
});
