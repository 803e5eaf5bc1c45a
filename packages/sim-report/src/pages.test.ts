import { LatencyTable } from "@tutti/profile";
import { type Scenario, simulate } from "@tutti/simulator";
import type { Instant, Micros } from "@tutti/units";
import { expect, test } from "vitest";
import type { PageData } from "./html.ts";
import { comparisonPage, simulationPage, TimelineRecorder } from "./index.ts";

const HOSTILE = `</script><img src=x onerror="alert('1')">&`;

const scenarioNamed = (name: string, rate = 3000): Scenario => ({
  seed: 1,
  duration: 600_000 as Micros,
  warmup: 100_000 as Micros,
  gpus: 4,
  policy: "deferred",
  gather: "target",
  rate,
  arrivals: { process: "poisson" },
  network: { ctrl: 0 as Micros, data: 0 as Micros, respond: 0 as Micros, jitter: 0 },
  models: [name, "other"].map((each) => ({
    name: each,
    profile: LatencyTable.affine({ alpha: 1053, beta: 5072, batchSizeMax: 32 }),
    slo: 25_000 as Micros,
    classes: [],
    share: 0.5,
  })),
  phases: [],
});

function recorded(scenario: Scenario, options = {}) {
  const recorder = new TimelineRecorder(scenario, options);
  const result = simulate(scenario, { listener: recorder });
  return { scenario, result, recording: recorder.recording() };
}

/** Data that the page's script reads, found as a browser would: up to the first end of a script element. */
function dataOf(html: string): PageData {
  const [, json] = /<script type="application\/json" id="page-data">([\s\S]*?)<\/script>/.exec(html)!;
  return JSON.parse(json!) as PageData;
}

const both = (): readonly string[] => {
  const run = recorded(scenarioNamed(HOSTILE));
  return [
    simulationPage({ ...run, source: `tutti simulate ${HOSTILE}` }),
    comparisonPage({ scenario: run.scenario, entries: [run, { result: { ...run.result, policy: HOSTILE } }] }),
  ];
};

test("pages name nothing outside themselves, and forbid themselves to fetch", () => {
  for (const html of both()) {
    // Comments of the library carry addresses of licences; nothing but the names of XML's own namespaces is left
    // without them.
    const code = html.replaceAll(/\/\*[\s\S]*?\*\//g, "");
    const addresses = [...code.matchAll(/https?:\/\/[^"'`\s)]+/g)].map(([address]) => address);
    expect(addresses.filter((address) => !address.startsWith("http://www.w3.org/"))).toEqual([]);
    expect(html.includes(`http-equiv="Content-Security-Policy" content="default-src 'none';`)).toBe(true);
    const markup = code.replaceAll(/<script[\s\S]*?<\/script>/g, "");
    expect(markup.match(/<[^>]*\b(src|href)\s*=|@import|url\(/)?.[0]).toBeUndefined();
  }
});

test("names from a scenario are text wherever they stand, and can't end a script", () => {
  for (const html of both()) {
    expect(html.includes("<img src=x")).toBe(false);
    expect(html.includes("&lt;/script&gt;&lt;img src=x onerror=&quot;alert(&#39;1&#39;)&quot;&gt;&amp;")).toBe(true);
    expect(html.match(/<script/g)!.length).toBe(html.match(/<\/script>/g)!.length);
    expect(html.match(/<script/g)!.length).toBe(3);
  }
  expect(dataOf(both()[0]!).timeline!.models[0]!.name).toBe(HOSTILE);
});

test("the timeline of a page is the recording: every batch on its accelerator, every refusal at its moment", () => {
  const run = recorded(scenarioNamed("ResNet50"));
  const { timeline } = dataOf(simulationPage(run));
  const { batches, refusals } = run.recording;
  expect(batches.seen).toBeGreaterThan(50);
  expect(refusals.seen).toBeGreaterThan(0);
  expect(timeline!.batches.begin).toEqual(Array.from(batches.begin, (at) => at / 1000));
  expect(timeline!.batches.end).toEqual(Array.from(batches.end, (at) => at / 1000));
  for (const column of ["gpu", "model", "size", "completed"] as const) {
    expect(timeline!.batches[column]).toEqual([...batches[column]]);
  }
  expect(timeline!.refusals.at).toEqual(Array.from(refusals.at, (at) => at / 1000));
  expect(timeline!.refusals.model).toEqual([...refusals.model]);
  expect(timeline!.until * 1000).toBe(Math.max(...batches.end));
});

test("a recording counts what the result counts", () => {
  const { recording, result } = recorded(scenarioNamed("ResNet50"));
  const { rates, batchSizes, busy } = recording;
  const after = (counts: Float64Array): number => sum(counts.subarray(100_000 / rates.width));
  expect(after(rates.good) / 0.5).toBeCloseTo(result.goodRps, 6);
  expect((after(rates.refused) + after(rates.late)) / 0.5).toBeCloseTo(result.offeredRps - result.goodRps, 6);
  const items = batchSizes.reduce((total, count, size) => total + count * size, 0);
  expect(items / sum(batchSizes)).toBeCloseTo(result.batchSize.mean, 6);
  expect(sum(busy) / (4 * 500_000)).toBeCloseTo(result.gpu.busyFraction, 6);
});

test("a recorder keeps no more batches and refusals than it may, and the page says so", () => {
  const run = recorded(scenarioNamed("ResNet50", 6000), { batchesMax: 300, refusalsMax: 10 });
  const { batches, refusals } = run.recording;
  expect([batches.begin.length, batches.model.length, refusals.at.length]).toEqual([
    Math.min(300, batches.seen),
    Math.min(300, batches.seen),
    10,
  ]);
  expect(refusals.seen).toBeGreaterThan(10);
  expect(simulationPage(run)).toMatch(/Cut: shown are .*the first 10 of [\d,]+ refusals/);
  expect(simulationPage(recorded(scenarioNamed("ResNet50")))).not.toContain("Cut:");
});

test("a preempted batch is drawn as such and makes none of its requests good", () => {
  const scenario = scenarioNamed("ResNet50");
  const recorder = new TimelineRecorder(scenario);
  const request = {
    id: 1,
    model: 0,
    arrivedAt: 200_000 as Instant,
    deadline: 225_000 as Instant,
    slo: 25_000 as Micros,
    ...{ app: 0, solo: 0, units: 0 },
  };
  const batch = { id: 1, model: 0, gpu: 2, requests: [request] };
  recorder.finished(batch, 201_000 as Instant, 203_000 as Instant, false);
  recorder.refused(request, "preempted", 203_000 as Instant);
  const recording = recorder.recording();
  expect([...recording.batches.completed]).toEqual([0]);
  expect([sum(recording.rates.good), sum(recording.rates.refused), sum(recording.batchSizes)]).toEqual([0, 1, 0]);
  expect([...recording.busy]).toEqual([0, 0, 2000, 0]);
});

const sum = (counts: Float64Array): number => counts.reduce((total, count) => total + count, 0);
