import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { readScenario } from "@tutti/sim-report/scenarios";
import { simulate } from "@tutti/simulator";
import { micros } from "@tutti/units";
import { afterAll, expect, test } from "vitest";
import { type SeenCluster, type SeenLoad, type SeenModel, liveScenario, scenarioText } from "./live-scenario.ts";

const folder = mkdtempSync(join(tmpdir(), "tutti-live-scenario-"));
afterAll(() => rmSync(folder, { recursive: true }));

const points = (base: number) =>
  [1, 2, 4, 8].map((batchSize) => ({ batchSize, latency: micros(base + 1_000 * batchSize) }));
const spread = { runs: 40, p10: 9_000, p50: 10_000, p90: 13_000 };
const model = (name: string, more: Partial<SeenModel> = {}): SeenModel => ({
  ...{ name, spec: { slo: micros(50_000), batchSizeMax: 8 }, times: undefined },
  status: { profiles: [points(5_000)] },
  ...more,
});
const seen: SeenCluster = {
  ...{ cluster: "main", at: "2026-01-01T00:00:00.000Z", accelerators: ["gpu", "gpu"], subClusters: 1 },
  delays: { arriveUs: 900, grantUs: 100, startUs: 400, respondUs: 1_800 },
  turnsUs: [100, 200, 3_000, 4_000],
  models: [
    model("mlp", {
      times: {
        ...{ buckets: [], learned: { at: 0 as never, sizes: [{ spread }] as never } },
      },
    }),
    model("cnn"),
    model("idle"),
  ],
};
const load: SeenLoad = {
  ...{ seconds: 10, burstiness: 4 },
  models: [
    {
      ...{ name: "mlp", rate: 90 },
      slos: [
        { slo: micros(50_000), share: 0.75 },
        { slo: micros(200_000), share: 0.25 },
      ],
    },
    { name: "cnn", rate: 10, slos: [{ slo: micros(50_000), share: 1 }] },
    { name: "gone", rate: 5, slos: [{ slo: micros(50_000), share: 1 }] },
  ],
};

/** The scenario as a file that is read. */
function read(cluster: SeenCluster, of: SeenLoad, rateDefault = 100) {
  const text = scenarioText(liveScenario(cluster, of), cluster, "tutti scenario --live");
  writeFileSync(join(folder, "live.yaml"), text);
  return { text, scenario: readScenario(join(folder, "live.yaml"), { rateDefault }) };
}

test("a cluster is written as a scenario that runs: rates, SLOs, burstiness, delays and noise", async () => {
  const { text, scenario } = read(seen, load);
  expect(text.split("\n")).toEqual([
    "# The cluster main, 2026-01-01T00:00:00.000Z, by `tutti scenario --live`: docs/simulator.md explains the keys.",
    "# Served, but not asked for in that time: idle",
    "# Asked for, but not served here, or a pipeline: describe it, or leave its requests out: gone",
    "gpus: 2",
    "rate: 100",
    "arrivals: { process: gamma, shape: 0.25 }",
    "network: { dArriveUs: 150, gatherUs: 1000, dCtrlUs: 400, dRespUs: 900, jitter: 1 }",
    "noise: { scope: scheduler, stalls: { everyMs: 2000, medianMs: 4, p99Ms: 4 }, slow: { share: 0.2, factor: 1.6 } }",
    "profiles: learned",
    "models:",
    "  - name: mlp",
    "    weight: 90",
    "    sloMs: 50",
    "    classes:",
    "      - { sloMs: 200, share: 0.25 }",
    "    batchMax: 8",
    "    latencyMs: { 1: 6, 2: 7, 4: 9, 8: 13 }",
    "  - name: cnn",
    "    weight: 10",
    "    sloMs: 50",
    "    batchMax: 8",
    "    latencyMs: { 1: 6, 2: 7, 4: 9, 8: 13 }",
    "",
  ]);
  const { offeredRps, badRate } = simulate(await scenario);
  expect(Math.abs(offeredRps / 100 - 1)).toBeLessThan(0.2);
  expect(badRate).toBeLessThan(0.05);
});

test("arrivals near Poisson's are Poisson's, and where nobody asked the rate is to be given", async () => {
  const quiet = { seconds: 10, models: [], burstiness: undefined };
  const { text, scenario } = read({ ...seen, turnsUs: [] }, quiet);
  expect(text).toContain("# Nobody asked for anything in that time: give a rate, here or with --rate\n");
  expect((await scenario).models.map(({ name, share }) => [name, share])).toEqual([
    ["mlp", 1 / 3],
    ["cnn", 1 / 3],
    ["idle", 1 / 3],
  ]);
  expect(liveScenario(seen, { ...load, burstiness: 1.2 }).document["arrivals"]).toEqual({ process: "poisson" });
});

test("a recording gives the requests, and every model that it names is described", async () => {
  writeFileSync(join(folder, "trace.csv"), "t_ms,model\n0,mlp\n1000,mlp\n2000,cnn\n3000,mlp\n");
  const { scenario } = read(seen, { trace: "trace.csv", models: ["mlp", "cnn"] }, 0);
  const { models, arrivals } = await scenario;
  expect(models.map(({ name }) => name)).toEqual(["mlp", "cnn"]);
  expect(arrivals).toMatchObject({ process: "trace", entries: { length: 4 } });
});

test("accelerators that were measured apart are types, with the latencies of the fastest", async () => {
  const apart = (times: number) => ({
    profiles: [points(5_000).map((one) => ({ ...one, latency: micros(times * one.latency) }))],
    means: [],
  });
  const status = {
    profiles: apart(2).profiles,
    byType: [
      { type: "slow", ...apart(2) },
      { type: "fast", ...apart(1) },
    ],
  };
  const cluster = {
    ...seen,
    accelerators: ["slow", "fast", "fast"],
    subClusters: 2,
    models: [model("mlp", { status })],
  };
  const { document } = liveScenario(cluster, load);
  expect(document).toMatchObject({
    types: [
      { name: "slow", gpus: 1, times: 2 },
      { name: "fast", gpus: 2, times: 1 },
    ],
  });
  const { scenario } = read(cluster, load);
  expect((await scenario).models[0]!.profile.latency(8)).toBe(13_000);
});

test("sub-clusters stay apart, and long tables keep their doublings", async () => {
  const profiles = [Array.from({ length: 20 }, (_, i) => ({ batchSize: i + 1, latency: micros(1_000 * (i + 1)) }))];
  const wide = model("wide", { status: { profiles }, spec: { slo: micros(50_000), batchSizeMax: 20 } });
  const cluster = { ...seen, subClusters: 2, models: [wide, model("mlp")] };
  const { scenario, text } = read(cluster, { seconds: 10, models: [], burstiness: undefined });
  expect(text).toContain("latencyMs: { 1: 1, 2: 2, 4: 4, 8: 8, 16: 16, 20: 20 }");
  expect((await scenario).subClusters).toBe(2);
});
