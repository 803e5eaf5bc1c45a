/**
 * `tutti up --divide`: the models of docs/algorithms.md, D6, on four emulated accelerators, ten times slower. On whole
 * accelerators `le` waits for the runs of others and loses requests; as halves they carry the same load.
 */
import { join } from "node:path";
import { type Tutti, connect } from "@tutti/client";
import { D6_PROFILES } from "@tutti/planning/testing";
import { afterAll, expect, test } from "vitest";
import { SteadyLoad } from "../e2e/steady-load.ts";
import { ROOT, TuttiUp } from "../e2e/tutti-up.ts";

const SLOWER = 10;
/** Requests per second of each model: whole accelerators are expected to carry 0.6, and halves 16. */
const RATE = 8;
const ANSWERS = new Set(["ok", "TUTTI_OVERLOADED", "TUTTI_DEADLINE_INFEASIBLE", "TUTTI_DEADLINE_EXCEEDED"]);
let up: TuttiUp | undefined;
let client: Tutti | undefined;
afterAll(async () => {
  await client?.close();
  await up?.stop();
});

test("accelerators become halves under a load that whole ones can't carry, and no request is lost", async () => {
  const path = join(ROOT, "test/e2e/d6-ten-times-slower.yaml");
  up = await TuttiUp.start(["--emulate", path, "--gpus", "4", "--executors", "4", "--divide"]);
  client = await connect({ servers: up.url, app: "e2e" });
  const loads = D6_PROFILES.map(({ name, slo }, i) => {
    // Slightly unlike rates, so that the models don't ask in step.
    return new SteadyLoad(client!, { model: name, perSecond: RATE * (1 + 0.03 * i), sloMs: SLOWER * slo });
  });
  const [le] = loads as [SteadyLoad, ...SteadyLoad[]];
  const startedAt = performance.now();
  for (const load of loads) load.start();

  const dividing = await up.next("dividing");
  expect(dividing).toMatchObject({ kind: "halves" });
  expect(dividing["halvesRps"]).toBeGreaterThan(5 * Number(dividing["wholeRps"]));
  const dividingAt = performance.now();
  await up.next("divided", ({ failed }) => (failed as unknown[]).length === 0);
  // Requests that were sent before that are over within the longest SLO.
  const dividedAt = performance.now() + SLOWER * 202;
  await le.until("ok", dividedAt, 60_000, 200);

  const settled = (await Promise.all(loads.map((load) => load.stop()))).flat();
  expect(settled.filter(({ status }) => !ANSWERS.has(status))).toEqual([]);
  const shares = (from: number, to: number): number[] => loads.map((load) => load.okShare(from, to));
  expect(Math.min(...shares(startedAt, dividingAt))).toBeLessThan(0.85);
  expect(Math.min(...shares(dividedAt, Infinity))).toBeGreaterThan(0.97);
  expect(loads.flatMap((load) => load.late())).toEqual([]);
});
