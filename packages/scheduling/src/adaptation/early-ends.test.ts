import { LatencyTable } from "@tutti/profile";
import { Prng, micros, millis, threadId } from "@tutti/units";
import { expect, test } from "vitest";
import { Cluster } from "../lockstep/cluster.ts";
import { EarlyEnds } from "./early-ends.ts";
import type { Request } from "../messages.ts";
import type { ModelThreadConfig } from "../model-thread/model-thread-state.ts";

const RATE = 4.5e-3; // 1/µs

/** One model on one accelerator, whose runs take that share of what is planned. */
function serve(share: number, isLed = true) {
  const listed: string[] = [];
  const stats = { sent: 0, inTime: 0, late: 0, busy: 0 };
  const model: ModelThreadConfig = {
    ...{ thread: threadId(0, 0), term: 1, epoch: 1, slo: millis(25), patience: 1, gather: "target" },
    ...{ profile: LatencyTable.affine({ alpha: 200, beta: 3_000, batchSizeMax: 32 }), prefer: "latency" },
    ...{ guard: micros(0), ctrl: micros(600), perItem: micros(150), respond: micros(0) },
    ...{ queueMax: 1_000, batchesInFlightMax: 1_000, policy: { kind: "adaptive" } },
  };
  const cluster = new Cluster({
    gpus: 1,
    models: [model],
    ...(share !== 1 && { runTime: ({ expectedRun }) => micros(Math.round(expectedRun * share)) }),
    listener: {
      dispatched: ({ requests, startAt }, at) => listed.push(`${at} ${startAt} ${requests.length}`),
      finished: ({ requests }, begin, end) => {
        stats.busy += end - begin;
        for (const { deadline } of requests) stats[end <= deadline ? "inTime" : "late"]++;
      },
    },
  });
  if (!isLed) cluster.rank.accelerators.early.saved = () => undefined;
  const prng = new Prng(5);
  let due = 0;
  for (; due < 3_000_000; stats.sent++) {
    due += prng.nextExponential(RATE);
    const now = Math.round(due);
    const request = {
      ingress: 1,
      seq: stats.sent,
      deadline: now + 25_000,
      arrivedAt: now,
      slo: 25_000,
      app: 0,
      size: 0,
    };
    cluster.arrive(0, request as unknown as Request);
  }
  cluster.runUntilIdle();
  return { ...stats, listed, busyShare: stats.busy / due };
}

test("where runs take half of what is planned, the next inputs are there when a run ends, and nothing is late (RANK-8)", () => {
  const [led, waiting] = [serve(0.5), serve(0.5, false)];
  expect([led.late, waiting.late]).toEqual([0, 0]);
  expect(led.inTime / led.sent).toBeGreaterThan(0.995);
  expect(waiting.inTime / waiting.sent).toBeLessThan(0.98);
  expect(led.busyShare).toBeGreaterThan(waiting.busyShare + 0.05);
});

test("where runs take as planned no grant leaves earlier (EARLY-2)", () => {
  expect(serve(1).listed).toEqual(serve(1, false).listed);
});

test("the share that is saved is a median: rare plans that are far too long don't count (EARLY-1)", () => {
  const early = new EarlyEnds();
  const run = (now: number, saved: number): void => {
    early.granted(0, now);
    early.used(0, now + 1_000);
    early.saved(0, saved);
  };
  for (let i = 0; i < 1_000; i++) run(i, i % 4 === 0 ? 900 : 0);
  expect(early.leadOf(0, 900)).toBeLessThan(20);
  for (let i = 0; i < 1_000; i++) run(i, i % 4 === 0 ? 900 : 400);
  expect(early.leadOf(0, 900)).toBeGreaterThan(380);
  expect(early.leadOf(0, 900)).toBeLessThan(420);
  for (let i = 0; i < 1_000; i++) run(i, 5_000);
  expect(early.leadOf(0, 900)).toBeLessThanOrEqual(1_000); // EARLY-3
  expect([0, 100].map((delay) => early.leadOf(0, delay))).toEqual([0, 400]);
  early.forget(0);
  expect([early.leadOf(0, 900), early.leadOf(7, 900)]).toEqual([0, 0]);
});

test("a half of a planned run of 10 makes leads of 4, 5 and 0 with delays of 1, 2 and 0 (A4, Early ends)", () => {
  const early = new EarlyEnds();
  for (let i = 0; i < 63; i++) {
    early.granted(0, 10);
    early.used(0, 20);
    early.saved(0, 10);
  }
  expect([1, 2, 0].map((delay) => early.leadOf(0, delay))).toEqual([4, 5, 0]);
});
