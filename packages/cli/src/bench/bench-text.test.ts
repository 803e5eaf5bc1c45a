import type { BenchReport, GoodputFound, Percentiles } from "@tutti/bench";
import { expect, test } from "vitest";
import { progressNote, renderBench } from "./bench-text.ts";

const latency = (p50: number): Percentiles => ({
  p50,
  p90: 2 * p50,
  p99: 3 * p50,
  p999: 4 * p50,
  max: 5 * p50,
  mean: p50,
});
const NONE: Percentiles = { p50: null, p90: null, p99: null, p999: null, max: null, mean: null };

type Trial = BenchReport["trials"][number];

function trial(offeredRps: number, changes: Partial<Trial> = {}): Trial {
  const counts = {
    offered: 100,
    good: 90,
    late: 4,
    lost: 1,
    unsent: 0,
    refused: { TUTTI_OVERLOADED: 5 },
    badRate: 0.1,
  };
  const rates = { offeredRps, goodRps: 0.9 * offeredRps, latencyMs: latency(7) };
  const stream = { name: "mlp.web", model: "mlp", app: "web", sloMs: 30, ...counts, ...rates, refusalMs: NONE };
  return {
    ...counts,
    ...rates,
    ...{ rateRps: offeredRps, seed: 1, seconds: 10, curve: [], histogram: "", slices: [], repeated: 0 },
    streams: [stream, { ...stream, name: "ctr.web", model: "ctr", latencyMs: NONE }],
    ...{ worstModel: "mlp", worstModelBadRate: 0.1, isGood: false, interrupted: false },
    client: {
      ...{ sendLagMs: latency(0.1), eventLoopDelayMs: latency(0.2), utilization: 0.25 },
      ...{ unsent: 0, held: 0, wasBottleneck: false, reasons: [] },
    },
    ...changes,
  };
}

function report(trials: readonly Trial[], changes: Partial<BenchReport> = {}): BenchReport {
  const stream = { model: "mlp", app: "web", sloMs: 30, weight: 1 };
  return {
    ...{ format: "tutti-bench", version: 1, startedAt: "", command: "", target: "nats://x", arrivals: "poisson" },
    ...{
      seed: 1,
      warmupSeconds: 2,
      streams: [
        { name: "mlp.web", ...stream },
        { name: "ctr.web", ...stream },
      ],
    },
    ...{ trials, wasBottleneck: false, interrupted: false },
    ...changes,
  };
}

test("a row for each rate, and for each stream at it, with what became of requests", () => {
  const lines = renderBench(report([trial(50), trial(1_000)])).split("\n");
  expect(lines[1]).toMatch(/^ +50 +45 +10\.00 % +7\.00 +14\.00 +21\.00 +28\.00 +35\.00 +4 +1 +OVERLOADED 5$/);
  expect(lines[2]).toMatch(/^ +1,000 +900 +10\.00 % /);
  expect(lines.find((line) => line.includes("ctr.web"))).toMatch(/ - +- +OVERLOADED 5$/);
  expect(lines.filter((line) => line.startsWith("client at"))).toEqual([
    "client at 50 r/s: left 0.10/0.30/0.50 ms late, event loop 0.20/0.60/1.00 ms late (p50/p99/max), thread 25.00 % in use",
    "client at 1,000 r/s: left 0.10/0.30/0.50 ms late, event loop 0.20/0.60/1.00 ms late (p50/p99/max), thread 25.00 % in use",
  ]);
});

test("what spoils the figures stands last, where it is read", () => {
  const client = { ...trial(50).client, wasBottleneck: true, reasons: ["its thread was busy 99 % of the time"] };
  const spoilt = renderBench(report([trial(50, { client, repeated: 2 })], { interrupted: true }))
    .split("\n")
    .slice(-3);
  expect(spoilt).toEqual([
    "2 answers came to requests that had theirs: that should not happen",
    "The client was the bottleneck at 50 r/s: its thread was busy 99 % of the time.",
    "It was interrupted: this is what was measured until then.",
  ]);
});

test.each<[string, GoodputFound]>([
  [
    "goodput: 950 r/s with at most 1 % bad for every model; 1,000 r/s were too many (1 trials)",
    { goodputRps: 950, badRps: 1_000, limitedByClient: false },
  ],
  [
    "goodput: at least 950 r/s with at most 1 % bad for every model (1 trials)",
    { goodputRps: 950, limitedByClient: true },
  ],
  [
    "goodput: unknown, since the client was the bottleneck from the first rate on",
    { goodputRps: 0, limitedByClient: true },
  ],
])("%s", (text, goodput) => {
  expect(renderBench(report([trial(950)], { goodput }))).toContain(text);
});

test("progress says what is known so far, from the warm-up on", () => {
  const seen = { rate: 200, done: 0.5, isWarmUp: false, settled: 40, good: 39, p50: 4, p99: 9, inFlight: 3 };
  expect(progressNote(seen)).toBe("200 r/s: 97.5 % in time, p50 4, p99 9 ms, 3 under way");
  expect(progressNote({ ...seen, isWarmUp: true })).toBe("200 r/s: warm-up");
  expect(progressNote({ ...seen, rate: 0, settled: 0, p50: null, p99: null })).toBe(
    "trace: no answers yet, p50 -, p99 - ms, 3 under way",
  );
});
