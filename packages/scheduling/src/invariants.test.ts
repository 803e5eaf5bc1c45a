/** docs/algorithms.md, A11, on a cluster without message delays: models, policies and loads drawn from seeds. */
import { type ActorKey, type Instant, type Micros, NEVER, Prng, type RequestSeq } from "@tutti/units";
import { expect, test } from "vitest";
import { Cluster, type DispatchedBatch, nextRankWakeAt, nextWakeAt } from "./index.ts";
import { randomModel } from "./testing/random-model.ts";

interface Recorded {
  log: string[];
  served: number;
  requests: number;
}

/** Runs one random workload and checks everything that can be checked while it runs. */
function runSeed(seed: number): Recorded {
  const prng = new Prng(seed);
  const models = Array.from({ length: 1 + prng.nextInt(5) }, (_, m) => randomModel(prng, m));
  const gpus = 1 + prng.nextInt(5);
  const overload = 0.2 + 2 * prng.nextFloat();
  const log: string[] = [];
  const outcomes = new Map<number, string>();
  const planEnds = new Map<number, number>();
  let served = 0;
  const end = (seq: number, outcome: string) => {
    expect(outcomes.get(seq), `request ${seq} of seed ${seed} ends twice`).toBe("pending");
    outcomes.set(seq, outcome);
  };
  const checkPlan = (batch: DispatchedBatch, at: Instant) => {
    const { requests, startAt, frontrun, latest, expectedRun, grant, thread } = batch;
    const model = models[thread / 64]!;
    const isDeferred = model.policy.kind === "deferred" && model.patience === 1;
    if (isDeferred) expect(startAt).toBeGreaterThanOrEqual(frontrun);
    expect(frontrun === -Infinity).toBe(requests.length === model.profile.batchSizeMax);
    expect(startAt).toBeLessThanOrEqual(latest);
    expect(startAt).toBeGreaterThanOrEqual(at + model.ctrl + model.perItem * requests.length);
    for (const request of requests) expect(startAt + expectedRun).toBeLessThanOrEqual(request.deadline);
    const deadlines = requests.map((r) => r.deadline);
    expect(deadlines).toEqual(deadlines.toSorted((a, b) => a - b));
    expect(cluster.models[thread / 64]!.queue.headDeadline()).toBeGreaterThanOrEqual(deadlines.at(-1)!);
    expect(startAt, `overlap on accelerator ${grant.gpu}`).toBeGreaterThanOrEqual(planEnds.get(grant.gpu) ?? -Infinity);
    planEnds.set(grant.gpu, startAt + expectedRun);
  };
  const cluster = new Cluster({
    models,
    gpus,
    listener: {
      dispatched: (batch, at) => {
        checkPlan(batch, at);
        log.push(
          `${at} ${batch.batchId} gpu ${batch.grant.gpu} start ${batch.startAt} [${batch.requests.map((r) => r.seq).join()}]`,
        );
      },
      refused: (request, cause, at) => {
        end(request.seq, cause);
        log.push(`${at} refused ${request.seq} ${cause}`);
      },
      finished: ({ requests }, _begin, endAt) => {
        for (const request of requests) {
          end(request.seq, "served");
          expect(endAt).toBeLessThanOrEqual(request.deadline);
        }
        served += requests.length;
      },
    },
  });
  const capacity = models.map(
    (m) => (gpus * m.profile.batchSizeMax) / m.profile.latency(m.profile.batchSizeMax) / models.length,
  );
  let now = 1e6;
  for (let seq = 1; seq <= 600; seq++) {
    const m = prng.nextInt(models.length);
    // Moments on a coarse grid, so that many events are simultaneous.
    now += prng.nextExponential(overload * capacity[m]! * models.length);
    const arrivedAt = (Math.round(now / 250) * 250) as Instant;
    // mixed SLOs, A7
    const slo = Math.round(models[m]!.slo * (prng.nextInt(4) === 0 ? 0.5 + prng.nextFloat() : 1)) as Micros;
    const deadline = (arrivedAt + slo - models[m]!.respond) as Instant;
    outcomes.set(seq, "pending");
    cluster.arrive(m, {
      ingress: (1 + prng.nextInt(3)) as ActorKey,
      seq: seq as RequestSeq,
      deadline,
      arrivedAt,
      slo,
      app: 0,
      size: 0,
    });
    const { rank } = cluster;
    for (const [, index] of rank.slotOf) {
      const slot = rank.slots[index]!;
      if (rank.waiting.has(index)) expect(slot.execAt - slot.delay).toBeLessThanOrEqual(cluster.now);
    }
  }
  cluster.runUntilIdle();
  expect([...outcomes.values()].filter((outcome) => outcome === "pending")).toEqual([]);
  expect(nextRankWakeAt(cluster.rank)).toBe(NEVER);
  for (const model of cluster.models)
    expect([nextWakeAt(model), model.queue.size, model.inFlightBatches.size]).toEqual([NEVER, 0, 0]);
  return { log, served, requests: outcomes.size };
}

test("plans start in their window, never overlap, meet their deadlines, and every request ends once (A11, M1, M4)", () => {
  let [served, requests] = [0, 0];
  for (let seed = 1; seed <= 60; seed++) {
    const run = runSeed(seed);
    served += run.served;
    requests += run.requests;
  }
  expect(served / requests).toBeGreaterThan(0.3); // not everything was refused
  expect(served / requests).toBeLessThan(0.95);
});

test("replaying a trace gives an identical log (T6)", () => {
  for (let seed = 1000; seed < 1010; seed++) expect(runSeed(seed).log).toEqual(runSeed(seed).log);
});
