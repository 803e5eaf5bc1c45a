import { LatencyTable } from "@tutti/profile";
import { type ActorKey, type Instant, Prng, type RequestSeq, micros, millis, threadId } from "@tutti/units";
import { expect, test } from "vitest";
import { NO_ADAPTATION, adaptationTo, canWaitingPay } from "./adaptation.ts";
import { currentTarget } from "../model-thread/model-thread.ts";
import { Cluster, type Policy } from "../index.ts";

test("even, Poisson and Gamma(0.5) arrivals start 12 % of the SLO early with 0.8 of the ideal batch, bursts 40 % and 0.45, and the unknown counts as even", () => {
  for (const dispersion of [NaN, 0, 1, 1.5, 2])
    expect(adaptationTo(dispersion)).toEqual({ early: 0.12, target: 0.8, span: 0.35, gather: 0, wait: 0.2 });
  for (const dispersion of [4, 15, 1_000]) {
    expect(adaptationTo(dispersion).early).toBeCloseTo(0.4, 10);
    expect(adaptationTo(dispersion).target).toBeCloseTo(0.45, 10);
    expect(adaptationTo(dispersion).span).toBe(Infinity);
    expect(adaptationTo(dispersion).gather).toBeCloseTo(0.2, 10);
    expect(adaptationTo(dispersion).wait).toBeCloseTo(0, 10);
    expect(adaptationTo(dispersion, true).early).toBeCloseTo(0.4, 10);
  }
  expect(adaptationTo(3).early).toBeCloseTo(0.26, 10);
  expect(adaptationTo(3).span).toBeCloseTo(0.7, 10);
  expect(NO_ADAPTATION).toEqual({ early: 0, target: 1, span: Infinity, gather: 0, wait: 0 });
});

/** Start times of batches with one model, one accelerator, and a request at each of `arrivals`. */
function startsOf(policy: Policy, arrivals: readonly number[], since?: Instant): number[] {
  const starts: number[] = [];
  const zero = micros(0);
  const profile = LatencyTable.affine({ alpha: 1_000, beta: 5_000, batchSizeMax: 16 });
  const model = { thread: threadId(1, 0), term: 1, epoch: 1, profile, slo: millis(25), policy, patience: 1, since };
  const delays = { guard: zero, ctrl: zero, perItem: zero, respond: zero };
  const cluster = new Cluster({
    gpus: 1,
    models: [{ ...model, ...delays, gather: "target", queueMax: 100, batchesInFlightMax: 10 }],
    listener: { dispatched: ({ startAt }) => starts.push(startAt) },
  });
  for (const [i, at] of arrivals.entries()) cluster.arrive(0, request(i + 1, at));
  cluster.runUntilIdle();
  return starts;
}
const request = (seq: number, at: number) => ({
  ingress: 1 as ActorKey,
  seq: seq as RequestSeq,
  arrivedAt: at as Instant,
  deadline: (at + 25_000) as Instant,
  slo: millis(25),
  app: 0,
  size: 0,
});

test("a lone request starts 12 % of its SLO before frontrun, which is where deferral starts", () => {
  expect(startsOf({ kind: "deferred" }, [0])).toEqual([25_000 - 7_000]);
  expect(startsOf({ kind: "adaptive" }, [0])).toEqual([25_000 - 7_000 - 3_000]);
});

test("waiting can pay where the next request comes within five times what it saves", () => {
  const beta = 5_000;
  expect([0, 39e-6, 40e-6, 1e-3].map((perMicro) => canWaitingPay(beta, perMicro))).toEqual([false, false, true, true]);
  expect(canWaitingPay(0, 1)).toBe(false);
});

test("a lone request starts at once when it is known that none follow, and waits where others do", () => {
  const second = 1_000_000;
  expect(startsOf({ kind: "adaptive" }, [0, second, 9 * second])).toEqual([15_000, second, 9 * second]);
  expect(startsOf({ kind: "adaptive" }, [second], 0 as Instant)).toEqual([second]);
  expect(startsOf({ kind: "deferred" }, [0, second])).toEqual([18_000, second + 18_000]);
  const every5ms = Array.from({ length: 400 }, (_, i) => 5_000 * i);
  expect(startsOf({ kind: "adaptive" }, every5ms).length).toBeLessThan(250);
});

test("where more requests come, a batch starts no earlier than by 0.35 of the time in which its own come, also under overload", () => {
  const zero = micros(0);
  const profile = LatencyTable.affine({ alpha: 1_053, beta: 5_072, batchSizeMax: 64 });
  const model = { thread: threadId(1, 0), term: 1, epoch: 1, profile, slo: millis(25), patience: 1 };
  const delays = { guard: zero, ctrl: zero, perItem: zero, respond: zero };
  const bound = (gpus: number, perSecond: number): { readonly leads: number[]; readonly atEnd: number } => {
    const leads: number[] = [];
    const cluster = new Cluster({
      gpus,
      models: [
        {
          ...{ ...model, ...delays, policy: { kind: "adaptive" }, gather: "target" },
          ...{ queueMax: 10_000, batchesInFlightMax: 100 },
        },
      ],
      listener: {
        dispatched: ({ requests, startAt, frontrun }) => leads.push(frontrun - startAt - 175 * requests.length),
      },
    });
    for (let seq = 1; seq <= 3 * perSecond; seq++) cluster.arrive(0, request(seq, Math.round((seq * 1e6) / perSecond)));
    return { leads: leads.slice(-50), atEnd: cluster.models[0]!.earlyPerRequest };
  };
  // 0.5 ms from request to request, so that a batch of 12 starts 2.1 ms early instead of 3.
  const calm = bound(20, 2_000);
  expect(calm.leads.length).toBe(50);
  for (const more of calm.leads) expect(Math.abs(more)).toBeLessThan(100);
  // One accelerator carries 450 a second.
  expect(bound(1, 2_000).atEnd).toBeCloseTo(175, 6);
});

test("bursts make the target smaller than even arrivals of the same rate do", () => {
  const targetAfter = (burst: number): number => {
    const zero = micros(0);
    const profile = LatencyTable.affine({ alpha: 1_053, beta: 5_072, batchSizeMax: 64 });
    const model = { thread: threadId(1, 0), term: 1, epoch: 1, profile, slo: millis(25), patience: 1 };
    const delays = { guard: zero, ctrl: zero, perItem: zero, respond: zero };
    const cluster = new Cluster({
      gpus: 8,
      models: [
        {
          ...{ ...model, ...delays, policy: { kind: "adaptive" }, gather: "target" },
          ...{ queueMax: 10_000, batchesInFlightMax: 100 },
        },
      ],
    });
    const prng = new Prng(3);
    let at = 0;
    for (let seq = 1; at < 3_000_000; seq++) {
      if (seq % burst === 0) at += Math.round(prng.nextExponential(2_000 / 1e6 / burst));
      cluster.arrive(0, request(seq, at));
    }
    return currentTarget(cluster.models[0]!);
  };
  const [even, bursty] = [targetAfter(1), targetAfter(20)];
  expect(bursty).toBeLessThan(0.75 * even);
  expect(bursty).toBeGreaterThanOrEqual(1);
});

test("beside idle accelerators a burst's first request waits for a fifth of β, and the rest joins it", () => {
  const zero = micros(0);
  const profile = LatencyTable.affine({ alpha: 1_000, beta: 5_000, batchSizeMax: 16 });
  const model = { thread: threadId(1, 0), term: 1, epoch: 1, profile, slo: millis(25), patience: 1 };
  const delays = { guard: zero, ctrl: zero, perItem: zero, respond: zero };
  const batches: { readonly size: number; readonly wait: number }[] = [];
  const cluster = new Cluster({
    gpus: 8,
    models: [
      {
        ...{ ...model, ...delays, policy: { kind: "adaptive" }, prefer: "latency", gather: "target" },
        ...{ queueMax: 100, batchesInFlightMax: 100 },
      },
    ],
    listener: {
      dispatched: ({ requests, startAt }) =>
        batches.push({ size: requests.length, wait: startAt - requests[0]!.arrivedAt }),
    },
  });
  for (let seq = 0; seq < 6 * 400; seq++)
    cluster.arrive(0, request(seq, 100_000 * Math.floor(seq / 6) + 50 * (seq % 6)));
  cluster.runUntilIdle();
  const { size, wait } = batches.at(-1)!;
  expect(size).toBe(6);
  expect(wait).toBeGreaterThan(900);
  expect(wait).toBeLessThanOrEqual(1_000);
});
