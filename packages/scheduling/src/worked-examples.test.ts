/** docs/algorithms.md, A10, examples 1 to 6. Times are in ms there and in whole µs here. */
import { DeadlineQueue } from "@tutti/collections";
import { LatencyTable } from "@tutti/profile";
import {
  ALWAYS,
  type ActorKey,
  type GpuId,
  type Instant,
  type Micros,
  type RequestSeq,
  type ThreadId,
  micros,
  millis,
} from "@tutti/units";
import { expect, test } from "vitest";
import {
  type Candidate,
  Cluster,
  type Grant,
  type ModelThreadConfig,
  type Policy,
  type Request,
  candidateOffered,
  chooseBatch,
  createModelThread,
  createRankThread,
  gpuJoined,
  requestArrived,
  stepRank,
} from "./index.ts";
import { BatchTargets } from "./batches/batch-targets.ts";

const MODEL = 64 as ThreadId;
const profile = LatencyTable.affine({ alpha: 1000, beta: 5000, batchSizeMax: 32 });
const SLO = millis(12);

function config(more: Partial<ModelThreadConfig> = {}): ModelThreadConfig {
  const zero = micros(0);
  return {
    thread: MODEL,
    term: 1,
    epoch: 1,
    profile,
    slo: SLO,
    policy: { kind: "deferred" },
    patience: 1,
    gather: "head",
    guard: zero,
    ctrl: zero,
    perItem: zero,
    respond: zero,
    queueMax: 1000,
    batchesInFlightMax: 100,
    ...more,
  };
}

/** R_i arrives at 0.75·(i−1) ms. */
function request(i: number, slo = SLO): Request {
  const arrivedAt = (750 * (i - 1)) as Instant;
  const deadline = (arrivedAt + slo) as Instant;
  return { ingress: 1 as ActorKey, seq: i as RequestSeq, deadline, arrivedAt, slo, app: 0, size: 0 };
}

interface Run {
  batches: { ms: number; gpu: number; from: number; to: number; late: boolean }[];
  dropped: number[];
}

/** Three executors; gpu numbers count from 1, as in the paper. */
function run(numbers: number[], more: Partial<ModelThreadConfig> = {}, eagerFrom = Infinity): Run {
  const seen: Run = { batches: [], dropped: [] };
  const cluster = new Cluster({
    models: [config(more)],
    gpus: 3,
    listener: {
      dispatched: ({ requests, startAt, grant, expectedRun, latest }) => {
        const late = startAt > latest || startAt + expectedRun > requests[0]!.deadline;
        const [from, to] = [requests[0]!.seq, requests.at(-1)!.seq];
        seen.batches.push({ ms: startAt / 1000, gpu: grant.gpu + 1, from, to, late });
      },
      refused: ({ seq }) => seen.dropped.push(seq),
    },
  });
  for (const i of numbers) {
    if (750 * (i - 1) >= eagerFrom) setPolicy(cluster, { kind: "eager" });
    cluster.arrive(0, request(i));
  }
  cluster.runUntilIdle();
  return seen;
}
/** Example 3 changes the policy in mid-run, which no configuration does. */
const setPolicy = (cluster: Cluster, policy: Policy) => Object.assign(cluster.models[0]!, { policy });

const upTo = (last: number, missing: number[] = []) =>
  Array.from({ length: last }, (_, i) => i + 1).filter((i) => !missing.includes(i));
const short = ({ ms, gpu, from, to }: Run["batches"][number]) => `${ms} G${gpu} R${from}-${to}`;

test("A10.1: uniform arrivals settle into the staggered pattern, all batches of 4", () => {
  const { batches, dropped } = run(upTo(120));
  expect(batches.slice(0, 6).map(short)).toEqual([
    "2.25 G1 R1-4",
    "5.25 G2 R5-8",
    "8.25 G3 R9-12",
    "11.25 G1 R13-16",
    "14.25 G2 R17-20",
    "17.25 G3 R21-24",
  ]);
  batches.forEach((batch, k) =>
    expect(short(batch)).toBe(`${2.25 + 3 * k} G${(k % 3) + 1} R${4 * k + 1}-${4 * k + 4}`),
  );
  expect(batches).toHaveLength(30);
  expect(batches.every((batch) => !batch.late)).toBe(true);
  expect(dropped).toEqual([]);
});

test("A10.1: the candidate of R1 to R4 may start from 2 on and must by 3", () => {
  const offers: Candidate[] = [];
  const model = createModelThread(config());
  const out = { offer: (c: Candidate) => offers.push({ ...c }), answerGrant() {}, dispatch() {}, refuse() {} };
  for (const i of [1, 2, 3, 4]) requestArrived(model, request(i).arrivedAt, request(i), out);
  expect(model.frontrun).toBe(2000);
  expect(offers.at(-1)).toMatchObject({ batchSize: 4, execAt: 2250, latest: 3000, offerSeq: 4 });
  expect(model.wakeAt).toBe(3001);
});

test("A10.2: three missing requests make deferred scheduling wait, and the pattern goes on", () => {
  const { batches, dropped } = run(upTo(60, [13, 14, 15]));
  expect(batches.slice(3, 7).map(short)).toEqual([
    "13.5 G1 R16-19",
    "16.5 G2 R20-23",
    "19.5 G3 R24-27",
    "22.5 G1 R28-31",
  ]);
  expect(dropped).toEqual([]);
  expect(batches.every((batch) => !batch.late)).toBe(true);
});

test("A10.3: the same arrivals under eager scheduling degenerate into small batches and drops", () => {
  const { batches, dropped } = run(upTo(43, [13, 14, 15]), {}, 11_250);
  const seen = batches.slice(3).map(({ ms, from, to }) => `${ms} R${from}-${to}`);
  expect(seen).toEqual([
    "11.25 R16-16",
    "14.25 R17-20",
    "17.25 R21-24",
    "18 R25-25",
    "23.25 R26-27",
    "24 R28-30",
    "26.25 R31-33",
    "30.25 R34-34",
    "32 R36-36",
    "34.25 R39-39",
    "36.25 R42-42",
  ]);
  expect([batches[3]!.gpu, batches[4]!.gpu]).toEqual([1, 2]);
  expect(dropped.toSorted((a, b) => a - b)).toEqual([35, 37, 38, 40, 41, 43]);
});

test("A10.4: with control and data delays the starts shift by the delay, and none is late", () => {
  const delays = { ctrl: micros(200), perItem: micros(50) };
  const { batches, dropped } = run(upTo(80), delays);
  batches.forEach((batch, k) => expect(batch.ms).toBeCloseTo(2.65 + 3 * k, 9));
  expect(batches.every((batch) => !batch.late && batch.to - batch.from === 3)).toBe(true);
  expect(dropped).toEqual([]);

  const model = createModelThread(config(delays));
  const offers: Candidate[] = [];
  const out = { offer: (c: Candidate) => offers.push({ ...c }), answerGrant() {}, dispatch() {}, refuse() {} };
  for (const i of [1, 2, 3, 4]) requestArrived(model, 0 as Instant, { ...request(1), seq: i as RequestSeq }, out);
  expect(model.frontrun).toBe(1950);
  expect(offers.at(-1)).toMatchObject({ batchSize: 4, execAt: 1950, latest: 3000, delay: 400 });
  const rank = createRankThread({ epoch: 1, ctrl: micros(200), gpusMax: 1 });
  stepRank(
    rank,
    { kind: "candidate-offered", at: 0 as Instant, candidate: offers.at(-1)! },
    { grant() {}, askGpu() {} },
  );
  expect(rank.modelTimers.topPriority).toBe(1550);
});

test.for([
  { target: 1, gpuFree: ALWAYS, drops: 0, size: 1 },
  { target: 2, gpuFree: ALWAYS, drops: 1, size: 3 },
  { target: 3, gpuFree: ALWAYS, drops: 1, size: 3 },
  { target: 4, gpuFree: ALWAYS, drops: 2, size: 4 },
  { target: 6, gpuFree: ALWAYS, drops: 3, size: 4 },
  { target: 1, gpuFree: 2000 as Instant, drops: 1, size: 1 },
  { target: 4, gpuFree: 2000 as Instant, drops: 3, size: 4 },
])(
  "A10.5: GetBatch with target $target and the accelerator free at $gpuFree drops $drops and takes $size",
  ({ target, gpuFree, drops, size }) => {
    const queue = new DeadlineQueue<Request>(10);
    for (const [i, ms] of [6.5, 8.2, 9, 12, 13, 14, 15].entries())
      queue.add({ ...request(1), seq: i as RequestSeq, deadline: millis(ms) as number as Instant });
    const zero = micros(0);
    const targets = new BatchTargets(target, { profile, ctrl: zero, perItem: zero, respond: zero });
    const dropped: Request[] = [];
    const from = {
      queue,
      latencies: profile.byBatchSize,
      batchSizeMax: 32,
      perItem: zero,
      respond: zero,
      targets,
      keptHead: undefined,
      reserve: { us: 0 },
      isOverloaded: false,
      skipped: 0,
    };
    expect(chooseBatch(from, 0 as Instant, gpuFree, { refuse: (r) => dropped.push(r) })).toBe(size);
    expect(dropped.map((r) => r.seq)).toEqual(Array.from({ length: drops }, (_, i) => i));
  },
);

test("A10.6: an accelerator that frees at 10 goes to the waiting candidate whose latest start is nearest but not past", () => {
  const rank = createRankThread({ epoch: 1, ctrl: micros(0), gpusMax: 1 });
  const grants: Grant[] = [];
  const out = { grant: (g: Grant) => grants.push(g), askGpu() {} };
  gpuJoined(rank, ALWAYS, {
    gpu: 0 as GpuId,
    executor: 9 as ActorKey,
    type: 0,
    freeAt: 10_000 as Instant,
    grantSeq: 0,
  });
  const waiting = [
    [7000, 12_000],
    [9000, 11_000],
    [8000, 9500],
  ] as const;
  for (const [i, [execAt, latest]] of waiting.entries()) {
    candidateOffered(rank, 0 as Instant, {
      thread: i as ThreadId,
      term: 1,
      offerSeq: 1,
      batchSize: 1,
      unfit: [],
      execAt: execAt as Instant,
      latest: latest as Instant,
      delay: 0 as Micros,
    });
  }
  for (const at of [7000, 8000, 9000, 10_000]) stepRank(rank, { kind: "clock-reached", at: at as Instant }, out);
  expect(grants.map((g) => [g.thread, g.freeAt, g.sentAt])).toEqual([[1, 10_000, 10_000]]);
  expect([rank.waiting.size, rank.waiting.has(0)]).toEqual([1, true]); // the third is discarded, the first waits on
});
