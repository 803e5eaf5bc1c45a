import { LatencyTable } from "@tutti/profile";
import { type Instant, Prng, micros, threadId } from "@tutti/units";
import { expect, test } from "vitest";
import { Cluster } from "../lockstep/cluster.ts";
import type { Request } from "../messages.ts";

const SLO_US = 200_000;
const COMMON = {
  term: 1,
  epoch: 1,
  patience: 1,
  queueMax: 1_000,
  batchesInFlightMax: 1_000,
  policy: { kind: "adaptive" },
  gather: "target",
  prefer: "latency",
} as const;
/** A model of long runs, and one that has less slack than they take. */
const LONG = { slo: 280_000, alpha: 750, beta: 28_700, perSecond: 40 };
const SHORT = { slo: 3_000, alpha: 400, beta: 700, perSecond: 30 };
const LASTS_US = 150_000_000;
/** Standstills of the process: so long, at the beginning of each of these periods, between 5 and 20 s. */
const STILL_US = 400_000;
const EVERY_US = 500_000;
const [FROM_US, TO_US, END_US] = [5_000_000, 20_000_000, 60_000_000];

/** Time at which a process that stands still reads what came then. */
function readAt(at: number): number {
  if (at < FROM_US || at >= TO_US) return at;
  const since = (at - FROM_US) % EVERY_US;
  return since < STILL_US ? at - since + STILL_US : at;
}

/** Latencies in µs of a light application's requests, by the second in which they came, and the number lost. */
function light(perSecond: number, gpus: number, seed: number): { bySecond: number[][]; lost: number } {
  const bySecond = Array.from({ length: END_US / 1e6 }, () => [] as number[]);
  let lost = 0;
  const cluster = new Cluster({
    gpus,
    models: [
      {
        ...COMMON,
        ...{ thread: threadId(0, 0), slo: micros(SLO_US) },
        profile: LatencyTable.affine({ alpha: 500, beta: 1_500, batchSizeMax: 8 }),
        ...{ guard: micros(100), ctrl: micros(200), perItem: micros(0), respond: micros(200) },
      },
    ],
    listener: {
      refused: () => void lost++,
      finished: ({ requests }, _, end) => {
        for (const { arrivedAt } of requests) bySecond[Math.floor(arrivedAt / 1e6)]!.push(end - arrivedAt);
      },
    },
  });
  const prng = new Prng(seed);
  let at = 0;
  for (let seq = 1; ; seq++) {
    at += Math.round(prng.nextExponential(perSecond / 1e6));
    if (at >= END_US) break;
    const request = { ingress: 1, seq, deadline: at + SLO_US, arrivedAt: at, slo: SLO_US, app: 0, size: 0 };
    cluster.arrive(0, request as unknown as Request, readAt(at) as Instant);
  }
  cluster.runUntilIdle();
  return { bySecond, lost };
}

/** The share that a model of a short SLO loses beside another's long runs on two accelerators. */
function lostBesideLongRuns(seed: number): number {
  let [came, lost] = [0, 0];
  const cluster = new Cluster({
    gpus: 2,
    models: [LONG, SHORT].map(({ slo, alpha, beta }, number) => ({
      ...COMMON,
      ...{ thread: threadId(number, 0), slo: micros(slo) },
      profile: LatencyTable.affine({ alpha, beta, batchSizeMax: 64 }),
      ...{ guard: micros(0), ctrl: micros(0), perItem: micros(0), respond: micros(0) },
    })),
    listener: { refused: ({ slo }) => void (lost += slo === SHORT.slo ? 1 : 0) },
  });
  const prng = new Prng(seed);
  const due = [0, 0];
  for (let seq = 1; due[0]! < LASTS_US || due[1]! < LASTS_US; seq++) {
    const which = due[0]! <= due[1]! ? 0 : 1;
    const { slo, perSecond } = which === 0 ? LONG : SHORT;
    const at = Math.round(due[which]!);
    due[which]! += prng.nextExponential(perSecond / 1e6);
    came += which;
    const request = { ingress: 1, seq, deadline: at + slo, arrivedAt: at, slo, app: 0, size: 0 };
    cluster.arrive(which, request as unknown as Request, at as Instant);
  }
  cluster.runUntilIdle();
  return lost / came;
}

const median = (times: readonly number[]): number => times.toSorted((a, b) => a - b)[times.length >> 1] ?? 0;

test.each([
  [5, 1],
  [5, 2],
  [20, 1],
  [20, 2],
])("what standstills taught is given back within ten seconds: %i r/s on %i accelerators", (perSecond, gpus) => {
  for (const seed of [1, 2, 3]) {
    const { bySecond, lost } = light(perSecond, gpus, seed);
    expect(lost).toBeGreaterThan(10);
    const before = median(bySecond.slice(1, 5).flat());
    const after = bySecond.slice(TO_US / 1e6 + 10).flat();
    expect(median(after)).toBeLessThan(1.5 * before);
  }
});

test("a model that loses one request in twelve seconds beside long runs remembers it, and loses no more", () => {
  const shares = [100, 101, 102, 103].map(lostBesideLongRuns);
  for (const share of shares) {
    expect(share).toBeGreaterThan(0.001);
    expect(share).toBeLessThan(0.005);
  }
});
