/**
 * Accelerators leave and join while requests come (CLUSTER-3), on the cluster of cluster.ts. Workloads and changes are
 * drawn from seeds.
 */
import { type ActorKey, type Instant, Prng, type RequestSeq } from "@tutti/units";
import { expect, test } from "vitest";
import { Cluster } from "./index.ts";
import { randomModel } from "./testing/random-model.ts";

function runSeed(seed: number): { served: number; drained: number; rejoined: number } {
  const prng = new Prng(seed);
  const gpus = 1 + prng.nextInt(6);
  const models = Array.from({ length: 1 + prng.nextInt(4) }, (_, m) => randomModel(prng, m));
  const isThere = Array.from({ length: gpus }, () => true);
  const busyUntil = new Map<number, number>();
  const ends = new Map<number, number>();
  const count = { served: 0, drained: 0, rejoined: 0 };
  const ended = (seq: number): void => void ends.set(seq, (ends.get(seq) ?? 0) + 1);
  const cluster = new Cluster({
    gpus,
    models,
    listener: {
      dispatched: ({ grant }) =>
        expect(isThere[grant.gpu], `accelerator ${grant.gpu} of seed ${seed} is gone`).toBe(true),
      refused: (request) => ended(request.seq),
      finished: ({ grant, requests }, begin, end) => {
        expect(begin, "two batches at a time").toBeGreaterThanOrEqual(busyUntil.get(grant.gpu) ?? -Infinity);
        busyUntil.set(grant.gpu, end);
        if (!isThere[grant.gpu]) count.drained++;
        count.served += requests.length;
        for (const request of requests) ended(request.seq);
      },
    },
  });
  let at = 0;
  for (let seq = 1; seq <= 400; seq++) {
    at += Math.round(prng.nextExponential(800 / gpus));
    if (prng.nextInt(8) === 0) {
      const gpu = prng.nextInt(gpus);
      // Changes come after everything else of their moment, as a planner's do.
      cluster.runUntil(at as Instant);
      if (isThere[gpu]) cluster.leave(gpu, at as Instant);
      else {
        cluster.join(gpu, at as Instant);
        count.rejoined++;
      }
      isThere[gpu] = !isThere[gpu];
    }
    const model = prng.nextInt(models.length);
    const { slo } = models[model]!;
    const own = {
      ingress: 1 as ActorKey,
      seq: seq as RequestSeq,
      arrivedAt: at as Instant,
      slo,
      app: 0,
      size: 0,
      units: 0,
    };
    cluster.arrive(model, { ...own, deadline: (at + slo) as Instant });
  }
  cluster.runUntilIdle();
  expect([...ends.values()].filter((times) => times !== 1)).toEqual([]);
  expect(ends.size).toBe(400);
  return count;
}

test("no accelerator that left is given a batch, those it had end, and every request ends once (CLUSTER-3)", () => {
  const total = { served: 0, drained: 0, rejoined: 0 };
  for (let seed = 1; seed <= 100; seed++) {
    const { served, drained, rejoined } = runSeed(seed);
    total.served += served;
    total.drained += drained;
    total.rejoined += rejoined;
  }
  // Otherwise the test tried nothing.
  expect(total.served).toBeGreaterThan(4_000);
  expect(total.drained).toBeGreaterThan(100);
  expect(total.rejoined).toBeGreaterThan(500);
});
