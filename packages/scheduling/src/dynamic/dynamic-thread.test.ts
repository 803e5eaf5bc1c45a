/** ModelThreads whose models' running times depend on the input, on a cluster without message delays. */
import { type BatchCosts, affineCosts, costsFromOne, histogramOf, meanOf, pointHistogram } from "@tutti/dynamic";
import { LatencyTable } from "@tutti/profile";
import {
  type ActorKey,
  type Instant,
  type Micros,
  NEVER,
  Prng,
  type RequestSeq,
  between,
  micros,
  millis,
  threadId,
} from "@tutti/units";
import { expect, test, vi } from "vitest";
import {
  Cluster,
  type ClusterListener,
  type ModelThreadConfig,
  type Policy,
  type Request,
  createModelThread,
  dynamicProfile,
  modelClockReached,
  nextRankWakeAt,
  nextWakeAt,
  profileChanged,
  requestArrived,
  requestWithdrawn,
} from "../index.ts";

const COSTS = affineCosts(25_000, 0.2);
const SIZE_MAX = 16;
const BY_APP = new Map([
  [1, 50],
  [2, 275],
  [3, 500],
]);
const SLO = millis(1_550);

interface Timed extends Request {
  /** True running time of the request alone, µs. */
  readonly solo: number;
}

/** Requests of three applications. Each takes its application's time alone, plus or minus at most 20 ms. */
function requestsOf(seed: number, count: number, perSecond: number): Timed[] {
  const prng = new Prng(seed);
  let at = 1e6;
  return Array.from({ length: count }, (_, i) => {
    at += prng.nextExponential(perSecond / 1e6);
    const app = 1 + prng.nextInt(3);
    const arrivedAt = Math.round(at) as Instant;
    const solo = (BY_APP.get(app)! + 20 * (prng.nextFloat() + prng.nextFloat() - 1)) * 1_000;
    const common = { ingress: 1 as ActorKey, seq: (i + 1) as RequestSeq, arrivedAt, slo: SLO, size: 0, units: solo };
    return { ...common, deadline: (arrivedAt + SLO) as Instant, app, solo };
  });
}
const SAMPLES = requestsOf(99, 3_000, 10);
const aloneOf = (of: (request: Timed) => boolean) => histogramOf(SAMPLES.filter(of).map(({ solo }) => solo));
const mean = meanOf(aloneOf(() => true));
const MEANS = LatencyTable.fromPoints(
  Array.from({ length: SIZE_MAX }, (_, i) => {
    const { fixed, slope } = COSTS(i + 1);
    return { batchSize: i + 1, latency: micros(Math.round(fixed + slope * mean)) };
  }),
);
const common = { costs: COSTS, batchSizeMax: SIZE_MAX, slo: SLO };
const PROFILES = {
  means: undefined,
  "all together": dynamicProfile({ apps: [{ app: 0, share: 1, alone: aloneOf(() => true) }], ...common }),
  "by application": dynamicProfile({
    apps: [1, 2, 3].map((app) => ({ app, share: 1, alone: aloneOf((request) => request.app === app) })),
    ...common,
  }),
} as const;

const modelOf = (policy: Policy, dynamic: ModelThreadConfig["dynamic"], number = 0): ModelThreadConfig => ({
  ...{ thread: threadId(number, 0), term: 1, epoch: 1, profile: MEANS, dynamic, slo: SLO, policy, patience: 1 },
  ...{ gather: "target", guard: micros(0), ctrl: micros(500), perItem: micros(20), respond: micros(0) },
  ...{ queueMax: 10_000, batchesInFlightMax: 64 },
});

interface Run {
  readonly log: string[];
  readonly inTime: number;
  readonly cluster: Cluster;
}

/** Runs a cluster, and checks that every request ends exactly once and nothing is left over. */
function run(
  models: ModelThreadConfig[],
  gpus: number,
  requests: readonly Timed[],
  before: (cluster: Cluster, request: Timed) => void = () => undefined,
): Run {
  const log: string[] = [];
  const open = new Set(requests.map(({ seq }) => seq));
  const end = (seq: RequestSeq): void => expect(open.delete(seq), `request ${seq} ends once`).toBe(true);
  let inTime = 0;
  const listener: ClusterListener = {
    dispatched: ({ requests: batch, startAt, latest, grant }, at) => {
      expect(startAt).toBeLessThanOrEqual(latest); // M4
      expect(batch.map(({ deadline }) => deadline)).toEqual(
        batch.map(({ deadline }) => deadline).toSorted((a, b) => a - b),
      );
      log.push(`${at} gpu ${grant.gpu} at ${startAt}: ${batch.map(({ seq }) => seq).join()}`);
    },
    refused: ({ seq }, cause, at) => {
      end(seq);
      log.push(`${at} refused ${seq}: ${cause}`);
    },
    finished: ({ requests: batch }, _, at) => {
      for (const { seq, deadline } of batch) {
        end(seq);
        if (at <= deadline) inTime++;
      }
    },
  };
  const runTime = ({ requests: batch }: { readonly requests: readonly Request[] }): Micros => {
    const { fixed, slope } = COSTS(batch.length);
    return micros(Math.round(fixed + slope * Math.max(...batch.map((request) => (request as Timed).solo))));
  };
  const cluster = new Cluster({ models, gpus, listener, runTime });
  for (const request of requests) {
    before(cluster, request);
    cluster.arrive(request.seq % models.length, request);
  }
  cluster.runUntilIdle();
  expect(open.size).toBe(0);
  expect(nextRankWakeAt(cluster.rank)).toBe(NEVER);
  for (const model of cluster.models) {
    expect([nextWakeAt(model), model.queue.size, model.inFlightBatches.size]).toEqual([NEVER, 0, 0]);
    expect(model.dynamic?.queue.size ?? 0).toBe(0);
  }
  return { log, inTime: inTime / requests.length, cluster };
}

// 1.3 of the rate at which one accelerator serves batches of 8 drawn at random.
const SEPARATING = 12.6;

test("at 1.3 of one accelerator's capacity distributions end 0.96 in time, where means end less than half", () => {
  const requests = requestsOf(5, 3_000, SEPARATING);
  const rate = (profile: keyof typeof PROFILES) =>
    run([modelOf({ kind: "adaptive" }, PROFILES[profile])], 1, requests).inTime;
  expect(rate("by application")).toBeGreaterThan(0.96);
  expect(rate("all together")).toBeGreaterThan(0.94);
  expect(rate("means")).toBeLessThan(0.5);
});

test("with exact size hints it is as good without telling applications apart", () => {
  const bounds = Array.from({ length: 15 }, (_, i) => 40_000 + 32_000 * (i + 1));
  const ranges = [...bounds, Infinity].map((below, i) => ({ below, from: bounds[i - 1] ?? 0 }));
  const byUnits = ranges.flatMap(({ below, from }) => {
    const solos = SAMPLES.map(({ solo }) => solo).filter((solo) => solo >= from && solo < below);
    return solos.length === 0 ? [] : [{ below, share: solos.length / SAMPLES.length, alone: histogramOf(solos) }];
  });
  const hinted = dynamicProfile({ apps: [{ app: 0, share: 1, alone: aloneOf(() => true), byUnits }], ...common });
  expect([hinted!.classOf(0, 50_000), hinted!.classOf(0, 500_000)]).toEqual([0, byUnits.length - 1]);
  const requests = requestsOf(6, 3_000, SEPARATING).map((request) => ({ ...request, app: 0 }));
  const withHints = run([modelOf({ kind: "adaptive" }, hinted)], 1, requests).inTime;
  const without = run([modelOf({ kind: "adaptive" }, PROFILES["all together"])], 1, requests).inTime;
  expect(withHints).toBeGreaterThan(without);
  expect(withHints).toBeGreaterThan(0.96);
});

test("every policy, with several models and accelerators, ends every request once, and again in the same way (T6)", () => {
  const policies: Policy[] = [
    { kind: "adaptive" },
    { kind: "deferred" },
    { kind: "eager" },
    { kind: "latest" },
    { kind: "beta-lambda" },
    { kind: "timeout", wait: millis(40) },
  ];
  for (const [seed, policy] of policies.entries()) {
    const models = [
      modelOf(policy, PROFILES["by application"], 0),
      modelOf(policy, undefined, 1),
      modelOf(policy, PROFILES["all together"], 2),
    ];
    const requests = requestsOf(seed, 800, 50);
    expect(run(models, 3, requests).log).toEqual(run(models, 3, requests).log);
  }
});

test("a model whose requests all take equally long is scheduled exactly as without distributions", () => {
  const alone = pointHistogram(100_000);
  const apps = [1, 2, 3].map((app) => ({ app, share: 1, alone }));
  expect(dynamicProfile({ apps, ...common })).toBe(undefined);
  const other = { app: 4, share: 1, alone: pointHistogram(300_000) };
  expect(dynamicProfile({ apps: [...apps, other], ...common })).not.toBe(undefined);
});

test("distributions that come, change and go while requests wait lose nobody", () => {
  const profiles = [PROFILES["by application"], PROFILES["all together"], undefined];
  const requests = requestsOf(7, 1_500, SEPARATING);
  let changes = 0;
  run([modelOf({ kind: "adaptive" }, undefined)], 1, requests, (cluster, { seq, arrivedAt }) => {
    if (seq % 50 !== 0) return;
    cluster.runUntil(arrivedAt);
    profileChanged(
      cluster.models[0]!,
      arrivedAt,
      { profile: MEANS, dynamic: profiles[changes++ % 3] },
      {
        offer: (candidate) => cluster.offered(0, candidate),
        answerGrant: () => undefined,
        dispatch: () => undefined,
        refuse: (request, cause) => cluster.refused(0, request, cause),
      },
    );
  });
  expect(changes).toBe(30);
});

test("without patience a batch starts with the first request, with it later ones join", () => {
  const requests = requestsOf(8, 900, 12).filter(({ app }) => app === 2); // together they pay, whatever their order
  const sizes = (patience: number): number => {
    const model = { ...modelOf({ kind: "deferred" }, PROFILES["by application"]), patience };
    return requests.length / run([model], 4, requests).log.filter((line) => line.includes(" gpu ")).length;
  };
  expect(sizes(0)).toBeLessThan(1.1);
  expect(sizes(1)).toBeGreaterThan(1.3 * sizes(0));
  expect(sizes(0.5)).toBeGreaterThanOrEqual(sizes(0));
});

test("a lone request waits for the next where two take less than one, and starts early where they don't", () => {
  const waits = (costs: BatchCosts, perSecond: number): Micros => {
    const apps = [1, 2, 3].map((app) => ({ app, share: 1, alone: aloneOf((request) => request.app === app) }));
    const model = createModelThread(modelOf({ kind: "adaptive" }, dynamicProfile({ apps, ...common, costs })));
    const out = { offer: vi.fn(), answerGrant: vi.fn(), dispatch: vi.fn(), refuse: vi.fn() };
    const longs = requestsOf(9, 300, 3 * perSecond).filter(({ app }) => app === 3);
    for (const [i, request] of longs.entries()) {
      const last = longs[i - 1];
      if (last !== undefined) requestWithdrawn(model, request.arrivedAt, last.ingress, last.seq, out);
      requestArrived(model, request.arrivedAt, request, out);
    }
    const { execAt, batchSize, delay } = model.offered;
    expect(batchSize).toBe(1);
    // The ranker's grant for it arrives before the thread itself would give the request up.
    expect(nextWakeAt(model)).toBeGreaterThan(execAt - delay + model.ctrl);
    return between(longs.at(-1)!.arrivedAt, execAt);
  };
  // Two of 500 ms take 225, one takes 500: (100 + 225) / 2 ms each at 10 requests a second, and 1,000 + 225 at one in
  // two seconds.
  expect(waits(costsFromOne(COSTS), 10)).toBeGreaterThan(0.6 * SLO);
  expect(waits(costsFromOne(COSTS), 0.5)).toBeLessThan(0.4 * SLO);
  // (100 + 225) / 2 ms each beside 125.
  expect(waits(COSTS, 10)).toBeLessThan(0.4 * SLO);
  // Two take 25 ms less than one and one, and the next request is two seconds away: it starts as soon as it can.
  expect(waits(COSTS, 0.5)).toBe(500 + 20);
});

test("a request that the batch leaves out is refused before its deadline, also when nothing else happens (T3)", () => {
  const model = createModelThread(modelOf({ kind: "deferred" }, PROFILES["by application"]));
  const refusedAt = new Map<number, Instant>();
  const refuse = vi.fn(({ seq }: Request) => void refusedAt.set(seq, model.now));
  const out = { offer: vi.fn(), answerGrant: vi.fn(), dispatch: vi.fn(), refuse };
  // The long one is due first. No accelerator is granted.
  const [long, short] = [3, 1].map((app) => requestsOf(11, 30, 1_000).find((request) => request.app === app)!);
  const asked = [long!, { ...short!, deadline: (long!.deadline + 400_000) as Instant }];
  for (const request of asked) requestArrived(model, 1_100_000 as Instant, request, out);
  expect(model.offered.batchSize).toBe(1);
  expect(model.offered.latest).toBeGreaterThan(long!.deadline);
  while (nextWakeAt(model) !== NEVER) modelClockReached(model, nextWakeAt(model), out);
  for (const { seq, deadline } of asked) expect(refusedAt.get(seq)).toBeLessThan(deadline);
});

test("a request waits for others only as long as it almost certainly ends in time, whether or not batches are slower", () => {
  for (const costs of [costsFromOne(COSTS), COSTS]) {
    const profile = dynamicProfile({ apps: [{ app: 0, share: 1, alone: aloneOf(() => true) }], ...common, costs })!;
    const model = createModelThread(modelOf({ kind: "deferred" }, profile));
    const [request] = requestsOf(10, 1, 10);
    const out = { offer: vi.fn(), answerGrant: vi.fn(), dispatch: vi.fn(), refuse: vi.fn() };
    requestArrived(model, request!.arrivedAt, request!, out);
    const left = between(model.offered.execAt, request!.deadline);
    expect(left).toBeGreaterThanOrEqual(profile.certain.needed(0, 0));
    expect(left).toBeGreaterThan(1.5 * profile.likely.needed(0, 0));
    expect(left).toBeLessThan(0.5 * SLO);
  }
});

test("an application that nobody has measured counts as the mixture, and more than 16 are taken together by their means", () => {
  const many = Array.from({ length: 40 }, (_, i) => ({
    app: i + 1,
    share: 1,
    alone: pointHistogram(10_000 * (i + 1)),
  }));
  const profile = dynamicProfile({ apps: many, ...common })!;
  expect(profile.likely.classes).toBeLessThanOrEqual(17);
  const [first, last, unknown] = [1, 40, 999].map((app) => profile.classOf(app, 0));
  const level = (of: number | undefined): number => profile.likely.levelOf(of!);
  expect(level(first)).toBe(0);
  expect(level(last)).toBe(profile.likely.classes - 1);
  expect(level(unknown)).toBeGreaterThan(level(first));
  expect(level(unknown)).toBeLessThan(level(last));
});
