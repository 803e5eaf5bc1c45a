/** Tests that a cluster's decisions don't depend on whether it receives requests in advance. */
import { affineCosts, histogramOf } from "@tutti/dynamic";
import { type ActorKey, type Instant, type Micros, Prng, type RequestSeq } from "@tutti/units";
import { expect, test } from "vitest";
import { type ArrivalSlice, Cluster, dynamicProfile } from "./index.ts";
import type { Request } from "./messages.ts";
import { randomModel } from "./testing/random-model.ts";

interface Coming {
  readonly model: number;
  readonly request: Request;
}
/** Requests that arrive before a moment, given in advance or not, and the actions on the cluster at that moment. */
interface Segment {
  readonly isTold: boolean;
  readonly until: Instant;
  readonly coming: readonly Coming[];
  readonly acts: readonly ((cluster: Cluster) => string)[];
}

function randomDynamic(prng: Prng, slo: Micros) {
  const apps = Array.from({ length: 1 + prng.nextInt(3) }, (_, app) => {
    const typical = 300 + prng.nextInt(4_000);
    const alone = Array.from({ length: 60 }, () => typical * (0.7 + 0.6 * prng.nextFloat()));
    return { app, share: 1, alone: histogramOf(alone) };
  });
  const costs = affineCosts(prng.nextInt(800), 0.1 + 0.6 * prng.nextFloat());
  return dynamicProfile({ apps, costs, batchSizeMax: 1 + prng.nextInt(12), slo });
}

/**
 * Models with policies, bounds, shares and dynamic time of any kind. Each has several SLOs, so that a newcomer may be
 * the head. The load is anything from light to far too much.
 */
function randomModels(prng: Prng) {
  const isDynamic = prng.nextInt(3) === 0;
  return Array.from({ length: 1 + prng.nextInt(6) }, (_, m) => {
    const model = randomModel(prng, m);
    return {
      ...model,
      ...(prng.nextInt(2) === 0 && { policy: { kind: "adaptive" as const }, gather: "target" as const }),
      ...(prng.nextInt(3) === 0 && { batchesInFlightMax: 1 + prng.nextInt(3) }),
      ...(prng.nextInt(3) === 0 && { queueMax: 1 + prng.nextInt(20) }),
      ...(prng.nextInt(3) === 0 && {
        shares: {
          weights: new Map([
            [0, 1],
            [1, 3],
          ]),
          otherWeight: 0.5,
        },
      }),
      ...(isDynamic && prng.nextInt(2) === 0 && { dynamic: randomDynamic(prng, model.slo) }),
    };
  });
}

function randomRun(seed: number) {
  const prng = new Prng(seed);
  const models = randomModels(prng);
  const gpus = 1 + prng.nextInt(4);
  const grid = [1, 250, 5_000][prng.nextInt(3)]!;
  const rate = models.reduce((sum, { profile }) => sum + gpus / (profile.latency(profile.batchSizeMax) / 4), 0);
  const load = (0.2 + 3 * prng.nextFloat()) / models.length;
  const slowness = prng.nextInt(2);
  const coming: Coming[] = [];
  let now = 1e6;
  for (let seq = 1; seq <= 400; seq++) {
    now += prng.nextExponential(rate * load);
    const at = (Math.round(now / grid) * grid) as Instant;
    const model = prng.nextInt(models.length);
    const slo = Math.round(models[model]!.slo * (0.5 + prng.nextFloat())) as Micros;
    const ids = { ingress: (1 + prng.nextInt(2)) as ActorKey, seq: seq as RequestSeq, app: prng.nextInt(3) };
    const request = { ...ids, deadline: (at + slo) as Instant, arrivedAt: at, slo, size: 0, priority: prng.nextInt(2) };
    coming.push({ model, request });
  }
  coming.sort((a, b) => a.request.arrivedAt - b.request.arrivedAt || a.model - b.model);
  return { models, gpus, slowness, segments: segmentsOf(prng, coming, gpus) };
}

function segmentsOf(prng: Prng, coming: readonly Coming[], gpus: number): Segment[] {
  const length = [700, 5_000, 50_000, 1e9][prng.nextInt(4)]!;
  const areThere = Array.from({ length: gpus }, () => true);
  const segments: Segment[] = [];
  let until = 1e6 as Instant;
  for (let from = 0; from < coming.length;) {
    if (prng.nextInt(6) > 0) until = (until + Math.round(length * prng.nextFloat())) as Instant; // else an empty slice
    const at = until;
    let to = from;
    while (to < coming.length && coming[to]!.request.arrivedAt < until) to++;
    const act = (): ((cluster: Cluster) => string) => {
      const [kind, drawn] = [prng.nextInt(3), prng.nextInt(1_000)];
      const gpu = drawn % gpus;
      if (kind === 0) {
        const joins = !areThere[gpu]!;
        areThere[gpu] = joins;
        return (cluster) => (joins ? cluster.join(gpu, at) : cluster.leave(gpu, at), "");
      }
      const last = coming[to - 1 - (drawn % 8)];
      if (kind === 1 && last !== undefined) {
        const { model, request } = last;
        return (cluster) => `${at} withdrawn ${request.seq}: ${cluster.withdraw(model, request, at)}`;
      }
      return (cluster) => {
        for (let next = cluster.nextAt(); next <= at; next = cluster.nextAt())
          cluster.runUntil(next > cluster.now ? next : cluster.now);
        return "";
      };
    };
    const acts = Array.from({ length: prng.nextInt(2) * prng.nextInt(4) }, act);
    segments.push({ isTold: prng.nextInt(4) > 0, until, coming: coming.slice(from, to), acts });
    from = to;
  }
  return segments;
}

function sliceOf(models: number, { coming, until }: Segment): ArrivalSlice {
  const byModel = Array.from({ length: models }, (_, m) => coming.filter(({ model }) => model === m));
  let end = 0;
  const ends = Uint32Array.from(byModel, (own) => (end += own.length));
  return { requests: byModel.flat().map(({ request }) => request), ends, until };
}

/** @param tells - true if any requests are given in advance */
function decisionsOf(seed: number, tells: boolean, tellsAll: boolean): { decided: string[]; ahead: number } {
  const { models, gpus, slowness, segments } = randomRun(seed);
  const decided: string[] = [];
  const refused: string[] = [];
  let ahead = 0;
  const cluster: Cluster = new Cluster({
    ...{ models, gpus, tellsAll },
    ...(slowness === 1 && {
      runTime: ({ batchId, expectedRun }) => Math.round(expectedRun * (0.5 + (batchId % 7) / 5)) as Micros,
    }),
    listener: {
      dispatched: ({ batchId, thread, grant, requests, startAt }, at) => {
        const members = requests.map(({ seq }) => seq).join();
        decided.push(`${at} ${thread}/${batchId} on ${grant.gpu} at ${startAt}: ${members}`);
      },
      refused: ({ seq }, cause, at) => {
        if (at > cluster.now) ahead++;
        refused.push(`${at} refused ${seq} ${cause}`);
      },
      finished: ({ batchId, thread }, begin, end) => decided.push(`${end} ${thread}/${batchId} ran from ${begin}`),
    },
  });
  for (const segment of segments) {
    if (tells && segment.isTold) cluster.runSlice(sliceOf(models.length, segment));
    else for (const { model, request } of segment.coming) cluster.arrive(model, request);
    for (const act of segment.acts) decided.push(act(cluster));
  }
  decided.push(`idle at ${cluster.runUntilIdle()}, ${cluster.busyTime} µs of work`);
  return { decided: [...decided, ...refused.sort()], ahead };
}

test("requests that are told in advance are decided as if each had come in its turn (CLUSTER-4)", () => {
  let [dispatched, refused, ahead] = [0, 0, 0];
  for (let seed = 1; seed <= 900; seed++) {
    const { decided } = decisionsOf(seed, false, true);
    dispatched += decided.filter((line) => line.includes(" on ")).length;
    refused += decided.filter((line) => line.includes("refused")).length;
    const told = decisionsOf(seed, true, false);
    ahead += told.ahead;
    expect(told.decided, `seed ${seed}`).toEqual(decided);
    if (seed % 10 === 0) expect(decisionsOf(seed, true, true).decided, `seed ${seed}, all told`).toEqual(decided);
  }
  expect(dispatched).toBeGreaterThan(15_000);
  expect(refused).toBeGreaterThan(15_000);
  expect(ahead).toBeGreaterThan(1_000);
});

test("a request that comes when its slice is over is an error", () => {
  const [model] = randomModels(new Prng(3));
  const at = 1e6 as Instant;
  const ids = { ingress: 1 as ActorKey, seq: 1 as RequestSeq, app: 0 };
  const request = { ...ids, deadline: (at + 1e6) as Instant, arrivedAt: at, slo: 1e6 as Micros, size: 0, priority: 0 };
  const cluster = new Cluster({ models: [model!], gpus: 1 });
  expect(() => cluster.runSlice({ requests: [request], ends: Uint32Array.of(1), until: at })).toThrow(
    "a request of a slice comes when it is over",
  );
});
