import { LatencyTable } from "@tutti/profile";
import { type ActorKey, type Instant, Prng, type RequestSeq, micros, millis, threadId } from "@tutti/units";
import { expect, test } from "vitest";
import { NO_ADAPTATION, adaptationTo } from "./adaptation.ts";
import { currentTarget } from "./model-thread.ts";
import { Cluster, type Policy } from "./index.ts";

test("even and Poisson arrivals start 12 % of the SLO early with 0.8 of the ideal batch, bursts 40 % and 0.45, and the unknown counts as even", () => {
  for (const dispersion of [NaN, 0, 1, 1.5]) expect(adaptationTo(dispersion)).toEqual({ early: 0.12, target: 0.8 });
  for (const dispersion of [4, 10, 1_000]) {
    expect(adaptationTo(dispersion).early).toBeCloseTo(0.4, 10);
    expect(adaptationTo(dispersion).target).toBeCloseTo(0.45, 10);
  }
  expect(adaptationTo(2.75).early).toBeCloseTo(0.26, 10);
  expect(NO_ADAPTATION).toEqual({ early: 0, target: 1 });
});

/** One model and a lone request at each of `arrivals`: when its batch starts. */
function startOf(policy: Policy): number {
  let begin = NaN;
  const zero = micros(0);
  const profile = LatencyTable.affine({ alpha: 1_000, beta: 5_000, batchSizeMax: 16 });
  const model = { thread: threadId(1, 0), term: 1, epoch: 1, profile, slo: millis(25), policy, patience: 1 };
  const delays = { guard: zero, ctrl: zero, perItem: zero, respond: zero };
  const cluster = new Cluster({
    gpus: 1,
    models: [{ ...model, ...delays, gather: "target", queueMax: 100, batchesInFlightMax: 10 }],
    listener: { finished: (_, at) => (begin = at) },
  });
  cluster.arrive(0, request(1, 0));
  cluster.runUntilIdle();
  return begin;
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
  expect(startOf({ kind: "deferred" })).toBe(25_000 - 7_000);
  expect(startOf({ kind: "adaptive" })).toBe(25_000 - 7_000 - 3_000);
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
