import { VirtualClock } from "@tutti/ports/clock";
import { type Instant, type Micros, after, micros, millis, seconds } from "@tutti/units";
import fc from "fast-check";
import { expect, test } from "vitest";
import { type LoadStream, createArrivals } from "./arrivals.ts";
import { type LoadObserver, OpenLoop, type Outcome, type Sent } from "./open-loop.ts";
import { FakeServer } from "./testing/fake-server.ts";
import { StallingClock } from "./testing/stalling-clock.ts";

const MLP: LoadStream = { model: "mlp", app: "web", slo: millis(50), weight: 1 };

class Recorder implements LoadObserver {
  readonly sentOnes: Sent[] = [];
  readonly ends: { readonly request: Sent; readonly outcome: string; readonly at: Instant }[] = [];
  readonly strays: string[] = [];
  sent(request: Sent): void {
    this.sentOnes.push(request);
  }
  settled(request: Sent, outcome: Outcome, at: Instant): void {
    this.ends.push({ request, outcome: typeof outcome === "string" ? outcome : outcome.outcome, at });
  }
  stray(kind: string): void {
    this.strays.push(kind);
  }
}

function loop(options: {
  readonly clock: VirtualClock | StallingClock;
  readonly server: FakeServer;
  readonly rate: number;
  readonly duration?: Micros;
  readonly inFlightMax?: number;
}): { readonly loop: OpenLoop; readonly recorder: Recorder } {
  const { clock, server, rate, duration = seconds(2), inFlightMax } = options;
  const recorder = new Recorder();
  const arrivals = createArrivals({ streams: [MLP], arrivals: { process: "uniform" }, rate, duration, seed: 1 });
  const made = new OpenLoop({
    ...{ clock, target: server, arrivals, observer: recorder, grace: seconds(1) },
    ...(inFlightMax !== undefined && { inFlightMax }),
  });
  return { loop: made, recorder };
}

test("requests leave when they are due while the server is silent, and each gets one outcome (LOAD-1, LOAD-2)", async () => {
  const clock = new VirtualClock();
  const server = new FakeServer(clock, () => "never");
  const { loop: open, recorder } = loop({ clock, server, rate: 200 });
  const ended = open.run();
  clock.advanceBy(seconds(10));
  await ended;
  expect(recorder.sentOnes).toHaveLength(400);
  expect(recorder.sentOnes.every(({ dueAt, sentAt }) => dueAt === sentAt)).toBe(true);
  expect(recorder.ends.map(({ outcome }) => outcome)).toEqual(Array.from({ length: 400 }, () => "lost"));
  for (const { request, at } of recorder.ends) {
    expect(at - request.dueAt).toBeGreaterThanOrEqual(seconds(1) + MLP.slo);
    expect(at - request.dueAt).toBeLessThan(seconds(1.2));
  }
  expect(server.forgotten).toHaveLength(400);
});

test("a client that stalls sends what fell due meanwhile as soon as it can, and its lag is seen (LOAD-1)", async () => {
  const virtual = new VirtualClock();
  const stall = { from: after(virtual.now(), seconds(1)), until: after(virtual.now(), seconds(1.5)) };
  const clock = new StallingClock(virtual, stall);
  const { loop: open, recorder } = loop({ clock, server: new FakeServer(virtual, () => millis(2)), rate: 1_000 });
  const ended = open.run();
  virtual.advanceBy(seconds(5));
  await ended;
  const lags = recorder.sentOnes.map(({ dueAt, sentAt }) => sentAt - dueAt);
  expect(recorder.sentOnes).toHaveLength(2_000);
  expect(Math.max(...lags)).toBeGreaterThan(millis(490));
  expect(lags.filter((lag) => lag > millis(100)).length).toBeCloseTo(400, -1);
  const latencies = recorder.ends.map(({ request, at }) => at - request.dueAt);
  expect(Math.max(...latencies)).toBeGreaterThan(millis(490));
});

test("beyond the bound of what is under way requests are unsent at once, and the bound is free again later (LOAD-3)", async () => {
  const clock = new VirtualClock();
  const server = new FakeServer(clock, () => millis(100));
  const { loop: open, recorder } = loop({ clock, server, rate: 100, duration: seconds(1), inFlightMax: 5 });
  const ended = open.run();
  clock.advanceBy(seconds(3));
  await ended;
  const unsent = recorder.ends.filter(({ outcome }) => outcome === "unsent");
  expect(recorder.ends).toHaveLength(100);
  expect(unsent.length).toBeGreaterThan(40);
  expect(unsent.length).toBeLessThan(60);
  expect(unsent.every(({ request, at }) => at === request.dueAt)).toBe(true);
});

test("second answers are told from answers after a request was given up", async () => {
  const clock = new VirtualClock();
  const server = new FakeServer(clock, (n) => (n === 3 ? seconds(1.5) : millis(1)), { twice: (n) => n === 5 });
  const { loop: open, recorder } = loop({ clock, server, rate: 10 });
  const ended = open.run();
  clock.advanceBy(seconds(6));
  await ended;
  expect(recorder.strays.toSorted()).toEqual(["after-loss", "repeated"]);
});

test("whatever a server does, every request that was due has one outcome, and the loop ends (LOAD-2)", async () => {
  const behaviour = fc.constantFrom<Micros | "never" | "refuse" | "unsendable">(
    ...[millis(1), millis(49), millis(400), seconds(3), "never" as const, "refuse" as const, "unsendable" as const],
  );
  await fc.assert(
    fc.asyncProperty(
      fc.array(behaviour, { minLength: 1, maxLength: 30 }),
      fc.integer({ min: 1, max: 400 }),
      async (list, rate) => {
        const clock = new VirtualClock();
        const server = new FakeServer(clock, (n) => list[n % list.length]!, { twice: (n) => n % 7 === 0 });
        const { loop: open, recorder } = loop({ clock, server, rate, inFlightMax: 50 });
        const ended = open.run();
        clock.advanceBy(seconds(8));
        await ended;
        const tokens = recorder.ends.map(({ request }) => request.token).toSorted((a, b) => a - b);
        expect(tokens).toEqual(recorder.sentOnes.map(({ token }) => token));
        expect(open.inFlight).toBe(0);
      },
    ),
    { numRuns: 60 },
  );
});

test("stopping sends nothing more and waits for what is under way", async () => {
  const clock = new VirtualClock();
  const { loop: open, recorder } = loop({ clock, server: new FakeServer(clock, () => millis(300)), rate: 100 });
  const ended = open.run();
  clock.advanceBy(seconds(1));
  const sent = recorder.sentOnes.length;
  open.stop();
  expect(open.inFlight).toBeGreaterThan(20);
  clock.advanceBy(millis(301));
  await ended;
  expect(recorder.sentOnes).toHaveLength(sent);
  expect(recorder.ends.every(({ outcome }) => outcome === "ok")).toBe(true);
});

test("arrivals follow their rate and mix, and a stream's depend on its name and rate alone", () => {
  const times = (streams: readonly LoadStream[], rate: number, name: string): number[] => {
    const arrivals = createArrivals({
      streams,
      arrivals: { process: "poisson" },
      rate,
      duration: seconds(20),
      seed: 7,
    });
    const found: number[] = [];
    for (let due = arrivals.next(); due !== undefined; due = arrivals.next())
      if (streams[due.stream]!.model === name) found.push(due.at);
    return found;
  };
  const ocr = { ...MLP, model: "ocr", weight: 3 };
  const alone = times([MLP], 100, "mlp");
  expect(times([ocr, MLP], 400, "mlp")).toEqual(alone);
  expect(alone.length / 20).toBeCloseTo(100, -1);
  expect(times([ocr, MLP], 400, "ocr").length / alone.length).toBeCloseTo(3, 0);
});

test("a trace keeps its times, names and SLOs, and a rate stretches it", () => {
  const entries = [0, 10, 30].map((ms, i) => ({
    ...{ at: micros(1_000 * ms), model: "mlp", app: i === 1 ? "batch" : "web" },
    slo: i === 2 ? millis(7) : undefined,
  }));
  const streams = [MLP, { ...MLP, app: "batch", slo: millis(500) }];
  const read = (rate: number): (readonly [number, number, number])[] => {
    const arrivals = createArrivals({
      streams,
      arrivals: { process: "trace", entries },
      rate,
      duration: seconds(9),
      seed: 1,
    });
    return Array.from({ length: 3 }, () => arrivals.next()!).map(({ at, stream, slo }) => [at, stream, slo] as const);
  };
  expect(read(0)).toEqual([
    [0, 0, millis(50)],
    [millis(10), 1, millis(500)],
    [millis(30), 0, millis(7)],
  ]);
  expect(read(50).map(([at]) => at)).toEqual([0, micros(20_000), micros(60_000)]);
});
