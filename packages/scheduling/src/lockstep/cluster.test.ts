/**
 * Tests that a cluster's decisions don't depend on how often its ranker hears of offers, and that none is made deaf.
 */
import { type ActorKey, type Instant, type Micros, Prng, type RequestSeq } from "@tutti/units";
import { expect, test } from "vitest";
import { Cluster, type ClusterOptions } from "../index.ts";
import type { Request } from "../messages.ts";
import { randomModel } from "../testing/random-model.ts";

type Variant = Pick<ClusterOptions, "tellsAll" | "heardAt">;

/**
 * Events of one random run, stepped from event to event. Requests come and are withdrawn, accelerators leave and join,
 * and runs take other times than planned.
 */
function logOf(seed: number, variant: Variant): string[] {
  const prng = new Prng(seed);
  const models = Array.from({ length: 1 + prng.nextInt(5) }, (_, m) => randomModel(prng, m));
  const gpus = 1 + prng.nextInt(4);
  const grid = [1, 250, 5_000][prng.nextInt(3)]!; // of moments: many events are simultaneous
  const log: string[] = [];
  const cluster = new Cluster({
    models,
    gpus,
    ...variant,
    ...(prng.nextInt(2) === 0 && {
      runTime: ({ batchId, expectedRun }) => Math.round(expectedRun * (0.5 + (batchId % 7) / 5)) as Micros,
    }),
    listener: {
      dispatched: ({ batchId, grant, requests, startAt }, at) =>
        log.push(`${at} ${batchId} on ${grant.gpu} at ${startAt}: ${requests.map(({ seq }) => seq).join()}`),
      refused: ({ seq }, cause, at) => log.push(`${at} refused ${seq} ${cause}`),
      finished: ({ batchId }, begin, end) => log.push(`${end} ${batchId} ran from ${begin}`),
    },
  });
  const rate = models.reduce((sum, { profile }) => sum + gpus / (profile.latency(profile.batchSizeMax) / 4), 0);
  const areThere = Array.from({ length: gpus }, () => true);
  const sent: { model: number; request: Request }[] = [];
  let now = 1e6;
  for (let seq = 1; seq <= 250; seq++) {
    now += prng.nextExponential((rate / models.length) * (0.3 + prng.nextFloat()));
    const at = Math.max(Math.round(now / grid) * grid, cluster.now) as Instant;
    const [act, drawn] = [prng.nextInt(8), prng.nextInt(1_000)];
    if (act === 0) cluster.runUntil(at);
    else if (act === 1) {
      const gpu = drawn % gpus;
      if (areThere[gpu]) cluster.leave(gpu, at);
      else cluster.join(gpu, at);
      areThere[gpu] = !areThere[gpu];
    } else if (act === 2 && sent.length > 0) {
      const { model, request } = sent[sent.length - 1 - (drawn % Math.min(8, sent.length))]!;
      log.push(`${at} withdrawn ${request.seq}: ${cluster.withdraw(model, request, at)}`);
    } else if (act === 3) {
      for (let next = cluster.nextAt(); next < at; next = cluster.nextAt()) {
        log.push(`next ${next}`);
        cluster.runUntil(Math.max(next, cluster.now) as Instant);
      }
    }
    const model = prng.nextInt(models.length);
    const slo = Math.round(models[model]!.slo * (0.5 + prng.nextFloat())) as Micros;
    const deadline = (at + slo) as Instant;
    const ingress = (1 + prng.nextInt(2)) as ActorKey;
    const request = { ingress, seq: seq as RequestSeq, deadline, arrivedAt: at, slo, app: 0, size: 0 };
    sent.push({ model, request });
    cluster.arrive(model, request);
  }
  log.push(`idle at ${cluster.runUntilIdle()}, ${cluster.busyTime} µs of work`);
  return log;
}

test("a ranker that hears of an offer only when it is due decides as one that hears of each (LOOKAHEAD-1, LOOKAHEAD-2)", () => {
  let dispatched = 0;
  for (let seed = 1; seed <= 400; seed++) {
    const log = logOf(seed, { tellsAll: true });
    dispatched += log.filter((line) => line.includes(" on ")).length;
    expect(logOf(seed, { tellsAll: false }), `seed ${seed}`).toEqual(log);
  }
  expect(dispatched).toBeGreaterThan(8_000);
});

/** Stands still for the first `length` of every `every`. */
const deafFor = (length: number, every: number) => (at: Instant) =>
  Math.max(at, Math.floor(at / every) * every + length) as Instant;

test("schedulers that stand still decide nothing meanwhile, and runs end at their own times (CLUSTER-5)", () => {
  const seen = { dispatched: 0, ended: 0 };
  for (let seed = 1; seed <= 200; seed++) {
    const [length, every] = [500 + 37 * seed, 20_000 + 211 * seed];
    const log = logOf(seed, { heardAt: deafFor(length, every) });
    const isDeaf = (line: string): boolean => Number(line.split(" ")[0]) % every < length;
    const decided = log.filter((line) => line.includes(" on ") || line.includes(" refused "));
    expect(decided.filter(isDeaf), `seed ${seed}`).toEqual([]);
    seen.dispatched += decided.length;
    seen.ended += log.filter((line) => line.includes(" ran from ") && isDeaf(line)).length;
  }
  expect(seen.dispatched).toBeGreaterThan(4_000);
  expect(seen.ended).toBeGreaterThan(500);
});

test("schedulers that never stand still decide as ones that can't (CLUSTER-5)", () => {
  for (let seed = 1; seed <= 100; seed++)
    expect(logOf(seed, { heardAt: (at) => at }), `seed ${seed}`).toEqual(logOf(seed, {}));
});
