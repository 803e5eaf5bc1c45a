import { VirtualClock } from "@tutti/ports/clock";
import { type Micros, after, millis, seconds } from "@tutti/units";
import { decodeFromCompressedBase64 } from "hdr-histogram-js";
import { expect, test } from "vitest";
import type { LoadStream } from "./arrivals.ts";
import { benchPage } from "./page.ts";
import { measure, reportOf } from "./report.ts";
import { type Behaviour, FakeServer } from "./testing/fake-server.ts";
import { StallingClock } from "./testing/stalling-clock.ts";
import { type TrialOptions, type TrialReport, runTrial } from "./trial.ts";

const WEB: LoadStream = { model: "ocr", app: "web", slo: millis(50), weight: 3 };
const BATCH: LoadStream = { model: "mlp", app: "batch", slo: millis(500), weight: 1 };

interface Given extends Partial<TrialOptions> {
  readonly behave?: (n: number, stream: number) => Behaviour;
  /** Stall of the client, counted from when the first request is due. */
  readonly stall?: { readonly from: Micros; readonly until: Micros };
}

async function trial({ behave = () => millis(10), stall, ...given }: Given = {}): Promise<TrialReport> {
  const virtual = new VirtualClock();
  const begin = virtual.now();
  const clock =
    stall === undefined
      ? virtual
      : new StallingClock(virtual, { from: after(begin, stall.from), until: after(begin, stall.until) });
  const ended = runTrial({
    ...{ clock, target: new FakeServer(virtual, (n, { stream }) => behave(n, stream)), streams: [WEB] },
    ...{ arrivals: { process: "uniform" }, rate: 1_000, seed: 1, warmup: seconds(1), duration: seconds(10) },
    ...{ grace: seconds(2), utilization: () => 0.1 },
    ...given,
  });
  virtual.advanceBy(seconds(20));
  return ended;
}

test("a server that stalls for a second shows in the percentiles with every request that was due meanwhile", async () => {
  const begin = 1_020 + 3_000; // ms: the warm-up, and then three seconds
  const virtual = new VirtualClock();
  const start = virtual.now();
  const server = new FakeServer(virtual, () => {
    const at = (virtual.now() - start) / 1_000;
    return millis(at >= begin && at < begin + 1_000 ? begin + 1_000 - at + 10 : 10);
  });
  const ended = runTrial({
    ...{ clock: virtual, target: server, streams: [WEB], arrivals: { process: "uniform" }, rate: 1_000, seed: 1 },
    ...{ warmup: seconds(1), duration: seconds(10), grace: seconds(2), utilization: () => 0 },
  });
  virtual.advanceBy(seconds(20));
  const report = await ended;
  // A tenth of the requests waited for 0 to 1 s, evenly: a closed loop would have seen a single one.
  expect(report.offered).toBe(10_000);
  expect(report.latencyMs.p50).toBeCloseTo(10, 0);
  expect(report.latencyMs.p99! / 910).toBeCloseTo(1, 1);
  expect(report.latencyMs.max! / 1_010).toBeCloseTo(1, 1);
  expect(report.late).toBeGreaterThan(940);
  expect(report.late).toBeLessThan(970);
  expect(report.client.wasBottleneck).toBe(false);
  expect(report.slices.map(({ good }) => good < 500)).toEqual([...Array<boolean>(10).keys()].map((i) => i === 3));
});

test("a client that stalls says that it was the bottleneck, and its lag is in the latencies", async () => {
  const { client, latencyMs, late } = await trial({ stall: { from: seconds(4), until: seconds(4.4) } });
  expect(client.wasBottleneck).toBe(true);
  expect(client.reasons.join()).toMatch(/left .* ms late/);
  expect(client.sendLagMs.p50).toBeLessThanOrEqual(0.5);
  expect(client.sendLagMs.max! / 400).toBeCloseTo(1, 1);
  expect(client.eventLoopDelayMs.max! / 390).toBeCloseTo(1, 1);
  expect(latencyMs.max! / 410).toBeCloseTo(1, 1);
  expect(late).toBeGreaterThan(300);
});

test("a thread that is full, requests that can't leave and connections that run out are bottlenecks of the client's too", async () => {
  const full = await trial({ utilization: () => 0.97 });
  expect(full.client.reasons).toEqual(["its thread was busy 97 % of the time"]);
  const unsent = await trial({ behave: (n) => (n % 100 === 0 ? "unsendable" : millis(5)) });
  expect(unsent.client.reasons).toEqual(["100 requests could not be sent"]);
  expect(unsent.badRate).toBeCloseTo(0.01, 5);
  const clock = new VirtualClock();
  const target = new FakeServer(clock, () => millis(5));
  target.held = 3;
  const held = runTrial({
    ...{ clock, target, streams: [WEB], arrivals: { process: "poisson" }, rate: 10, seed: 1 },
    ...{ warmup: seconds(0), duration: seconds(1), grace: seconds(1), utilization: () => 0 },
  });
  clock.advanceBy(seconds(5));
  expect((await held).client.reasons).toEqual(["3 requests waited for a free connection: give more --connections"]);
  expect((await trial()).client).toMatchObject({ wasBottleneck: false, reasons: [] });
});

test("streams are counted apart, the worst model decides, and refusals are told by their code", async () => {
  const report = await trial({
    streams: [WEB, BATCH],
    arrivals: { process: "poisson" },
    behave: (n, stream) => (stream === 1 && n % 10 === 0 ? "refuse" : stream === 1 ? millis(100) : millis(20)),
  });
  const [web, batch] = report.streams;
  expect(web!.offered / batch!.offered).toBeCloseTo(3, 0);
  expect(web).toMatchObject({ name: "ocr.web", sloMs: 50, badRate: 0, refused: {} });
  expect(Object.keys(batch!.refused)).toEqual(["TUTTI_OVERLOADED"]);
  expect(batch!.badRate).toBeCloseTo(0.1, 1);
  expect([batch!.latencyMs.p50, web!.latencyMs.p99]).toEqual([100, 20]);
  expect(report).toMatchObject({ worstModel: "mlp", worstModelBadRate: batch!.badRate, isGood: false });
  expect(report.offered).toBe(web!.offered + batch!.offered);
});

test("what is due in the warm-up counts for nothing", async () => {
  const report = await trial({ behave: (n) => (n < 1_000 ? "refuse" : millis(1)) });
  expect(report).toMatchObject({ offered: 10_000, good: 10_000, refused: {}, isGood: true });
});

test("an end asked for early reports what was measured until then, at its own rate", async () => {
  const virtual = new VirtualClock();
  const abort = new AbortController();
  const ended = runTrial({
    ...{ clock: virtual, target: new FakeServer(virtual, () => millis(10)), streams: [WEB] },
    ...{ arrivals: { process: "uniform" }, rate: 100, seed: 1, warmup: seconds(1), duration: seconds(100) },
    ...{ grace: seconds(2), utilization: () => 0, signal: abort.signal },
  });
  virtual.advanceBy(seconds(5.02));
  abort.abort();
  virtual.advanceBy(seconds(1));
  const report = await ended;
  expect(report.interrupted).toBe(true);
  expect(report.seconds).toBeCloseTo(4, 2);
  expect(report.offeredRps).toBeCloseTo(100, 0);
  expect(report.good).toBe(report.offered);
});

test("a curve of percentiles ends where no request lies beyond it", async () => {
  const { curve, offered } = await trial({ rate: 100, duration: seconds(10), behave: (n) => millis(1 + (n % 40)) });
  expect(offered).toBe(1_000);
  expect(curve.at(-1)).toEqual([99.9, 40]);
  expect(curve[0]).toEqual([0, 1]);
  expect(curve.map(([, ms]) => ms)).toEqual(curve.map(([, ms]) => ms).toSorted((a, b) => a - b));
  expect((await trial({ behave: () => "refuse" })).curve).toEqual([]);
});

test("the encoded histogram is read by HdrHistogram and says the same", async () => {
  const { histogram, latencyMs, good } = await trial({ behave: (n) => millis(1 + (n % 40)) });
  const decoded = decodeFromCompressedBase64(histogram);
  expect(decoded.totalCount).toBe(good);
  expect(decoded.getValueAtPercentile(99) / 1_000).toBeCloseTo(latencyMs.p99!, 1);
});

/** A cluster that carries 730 r/s, and a client that carries `clientRps`. */
const limited = async (rate: number, clientRps = Infinity): Promise<TrialReport> =>
  trial({
    rate,
    ...{ duration: seconds(2), warmup: seconds(0), utilization: () => (rate > clientRps ? 1 : 0.2) },
    behave: () => (rate > Math.min(730, clientRps) ? millis(60) : millis(10)),
  });

test("the search finds the highest good rate within a twentieth, and leaves a bad rate above it", async () => {
  const { goodput, trials } = await measure({ kind: "goodput", first: 100 }, (rate) => limited(rate));
  expect(goodput!.goodputRps).toBeLessThanOrEqual(730);
  expect(goodput!.badRps!).toBeGreaterThan(730);
  expect(goodput!.badRps! / goodput!.goodputRps).toBeLessThanOrEqual(1.05);
  expect(goodput!.limitedByClient).toBe(false);
  expect(trials.length).toBeLessThanOrEqual(16);
});

test("what a client makes bad ends the search without being held against the cluster", async () => {
  const { goodput } = await measure({ kind: "goodput", first: 100 }, (rate) => limited(rate, 300));
  expect(goodput).toMatchObject({ limitedByClient: true });
  expect(goodput!.badRps).toBeUndefined();
  expect(goodput!.goodputRps).toBeGreaterThan(100);
  expect(goodput!.goodputRps).toBeLessThanOrEqual(300);
});

test("a sweep tries its rates in order, and ends at one that was interrupted", async () => {
  const { trials } = await measure({ kind: "rates", rates: [300, 100, 200] }, async (rate) => ({
    ...(await trial({ rate, duration: seconds(1) })),
    interrupted: rate === 100,
  }));
  expect(trials.map(({ rateRps }) => rateRps)).toEqual([300, 100]);
});

test("the page needs nothing else, and says what was the bottleneck; text from outside is text in it", async () => {
  const trials = [await trial({ utilization: () => 0.99 }), await trial({ rate: 50 })];
  const parts = {
    ...{ startedAt: "2026-01-01T00:00:00Z", command: "tutti bench <b>", target: "nats://x", arrivals: "uniform" },
    ...{ seed: 1, warmupSeconds: 1, streams: [WEB, BATCH] },
  };
  const report = reportOf({ ...parts, findings: { trials } });
  expect(report).toMatchObject({ wasBottleneck: true, interrupted: false, format: "tutti-bench", version: 1 });
  for (const one of [report, reportOf({ ...parts, findings: { trials: trials.slice(1) } })]) {
    const page = benchPage(one);
    expect(page).toContain("default-src 'none'");
    expect(page).not.toMatch(/(src|href)="http/);
    expect(page).toContain("tutti bench &lt;b&gt;");
    expect(page.includes("The client was the bottleneck")).toBe(one.wasBottleneck);
  }
});
