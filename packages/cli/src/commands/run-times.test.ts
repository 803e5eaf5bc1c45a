import { RunTimeStats } from "@tutti/profile";
import type { ModelRunTimes, ModelSpec } from "@tutti/protocol";
import { instant, micros, millis, seconds } from "@tutti/units";
import { expect, test } from "vitest";
import { runTimesPage } from "./run-times-page.ts";
import { type ProfileTable, massesAt, renderRunTimes } from "@tutti/admin/model-tables";

const AT = instant(1_000_000_000);
const spec: ModelSpec = {
  name: "loop",
  number: 7,
  version: "1",
  engine: "emulated",
  slo: micros(100_000),
  batchSizeMax: 4,
  patience: 1,
  inputs: [{ name: "x", type: "FP32", dims: ["batch", 1] }],
  outputs: [{ name: "y", type: "FP32", dims: ["batch", 1] }],
  constants: [],
  axes: {},
  buckets: [{}],
};

/**
 * Run times of two applications without names. They are `short` (8 to 12 ms, three quarters of the arrivals) and `long`
 * (50 ms, and 90 ms with larger hints).
 */
function known(): ModelRunTimes {
  const runTimeStats = new RunTimeStats({ window: seconds(60), table: (b) => 10_000 * b, sizes: [1, 2, 4] });
  for (let i = 0; i < 80; i++) {
    runTimeStats.note(AT, { app: 1, units: 0, alone: 8_000 + 50 * i });
    runTimeStats.note(AT, { app: 0xabc, units: i < 40 ? 10 : 20, alone: i < 40 ? 50_000 : 90_000 });
  }
  runTimeStats.count(AT, 1, 30);
  runTimeStats.count(AT, 0xabc, 10);
  runTimeStats.name(1, "short");
  return { name: "loop", number: 7, version: "1", buckets: [runTimeStats.times(AT)] };
}

test("a row for each application and each class of its size hints, most arrivals first", () => {
  const lines = renderRunTimes(spec, known()).split("\n");
  expect(lines[0]).toBe("loop: scheduled by these distributions");
  expect(lines.slice(1, 6).map((line) => line.replaceAll(/ {2,}/g, "|"))).toEqual([
    "application|share|samples|mean|p50|p99",
    "short|75 %|80|9.97 ms|9.95 ms|11.9 ms",
    "#abc|25 %|80|70 ms|50 ms|90 ms",
    "|up to 10 units|40|50.1 ms|50.1 ms|50.2 ms",
    "|up to 20 units|40|90.2 ms|90.2 ms|90.4 ms",
  ]);
});

test("distributions stand above one another over one axis of time, empty where nothing is", () => {
  const lines = renderRunTimes(spec, known()).split("\n");
  const axis = lines.findIndex((line) => /8 ms +90\.\d ms$/.test(line));
  const [short, long] = [lines[axis + 1]!, lines[axis + 2]!].map((line) => line.slice(7));
  expect(short).toMatch(/^[▁-█]{3}$/);
  expect(long!.trimStart()).toMatch(/^█ +█$/);
  expect(long!.length).toBe(60);
});

test("what batches take is told with where that is known from", () => {
  expect(renderRunTimes(spec, known())).toContain("takes (from the latency table)\n    2  2.00 · its longest member's");
  const [bucket] = known().buckets;
  const fitted = { ...bucket!, costSamples: 12, costs: [{ batchSize: 4, fixed: 2_000, slope: 2.5 }] };
  expect(renderRunTimes(spec, { ...known(), buckets: [fitted] })).toContain(
    "takes (from 12 batches)\n    4  2 ms + 2.50 · its longest member's",
  );
});

test("of a model of which little is known that is said, and nothing breaks", () => {
  const runTimeStats = new RunTimeStats({ window: seconds(60), table: () => 10_000, sizes: [1] });
  const times = { name: "loop", number: 7, version: "1", buckets: [runTimeStats.times(AT)] };
  expect(renderRunTimes(spec, times)).toBe(
    "loop: too few samples to tell whether its times vary: scheduled by its latency table",
  );
  expect(runTimesPage({ spec, tables: [], times, source: "tutti profile loop" })).toContain(
    "loop: requests alone, unknown",
  );
});

test("columns of any width add up to all of the mass", () => {
  const [{ apps }] = known().buckets as [ModelRunTimes["buckets"][number]];
  const places = Float64Array.from({ length: 8 }, (_, i) => 8_000 + (i * 84_000) / 7);
  expect(massesAt(apps[0]!, places).reduce((sum, mass) => sum + mass, 0)).toBeCloseTo(1, 9);
});

const TABLES: ProfileTable[] = [
  {
    ...{ name: "loop", type: "<b>cpu</b>", source: "measured at load" },
    sizes: [1, 2, 4].map((batchSize) => ({
      ...{ batchSize, given: millis(batchSize), learned: millis(2 * batchSize) },
      ...(batchSize < 4 && { spread: { runs: 9, p10: 900, p50: 2_000 * batchSize, p90: 5_000 } }),
    })),
  },
];

test("the page draws latencies that were given and learned, with a band where sizes ran", () => {
  const page = runTimesPage({ spec, tables: TABLES, times: undefined, source: "tutti profile loop" });
  const data = /id="page-data">(.*?)<\/script>/s.exec(page)![1]!;
  const { charts } = JSON.parse(data) as { charts: Record<string, { series: { name: string; data: number[][] }[] }> };
  expect(Object.fromEntries(charts["profile-0"]!.series.map(({ name, data }) => [name, data]))).toEqual({
    learned: [
      [1, 2],
      [2, 4],
      [4, 8],
    ],
    "measured at load": [
      [1, 1],
      [2, 2],
      [4, 4],
    ],
    "": [
      [1, 0.9],
      [2, 0.9],
    ],
    "runs, p10 to p90": [
      [1, 4.1],
      [2, 4.1],
    ],
  });
  expect(page).not.toContain("<b>cpu");
  expect(page).toContain("alone is still unknown");
});

test("the page draws every application, names nothing that is not text, and fetches nothing", () => {
  const evil = {
    ...known(),
    buckets: known().buckets.map((one) => ({ ...one, apps: one.apps.map((app) => ({ ...app, name: "<script>" })) })),
  };
  const page = runTimesPage({ spec, tables: TABLES, times: evil, source: "tutti profile loop --html x.html" });
  expect(page).toContain("default-src 'none'");
  expect(page).not.toContain("<script></");
  expect(page).toContain("&lt;script&gt;");
  expect(page).toContain('"times-0"');
});
