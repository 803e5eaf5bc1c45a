/**
 * Tests M1 under faults. Messages between models, ranker and executors are late, lost, repeated and reordered; batches
 * are refused, executors die, and requests are withdrawn. The ModelThreads and the ranker are the production ones; the
 * bus and the executors are not.
 */
import { type ActorKey, type GpuId, type Instant, type Micros, Prng, type RequestSeq } from "@tutti/units";
import { expect, test } from "vitest";
import {
  type DispatchedBatch,
  type ModelEffects,
  type ModelEvent,
  type ModelThread,
  type RankEvent,
  type Request,
  createModelThread,
  createRankThread,
  nextRankWakeAt,
  nextWakeAt,
  offeredCandidate,
  step,
  stepRank,
} from "./index.ts";
import { randomModel } from "./testing/random-model.ts";

interface Faults {
  lossRate: number;
  lateRate: number;
  refusalRate: number;
  deaths: number;
  takeovers: number;
}

/** State of a request. */
type Fate = "queued" | "out" | "served" | "refused" | "withdrawn";

interface Executor {
  key: ActorKey;
  alive: boolean;
  busyUntil: number;
  /** (epoch, grantSeq) of the newest batch that was accepted or promised away: T5. */
  epoch: number;
  grantSeq: number;
}

const CTRL = 800;

class FaultyCluster {
  readonly prng: Prng;
  readonly faults: Faults;
  now = 1_000_000;
  readonly models: ModelThread[];
  readonly slos: Micros[];
  rank;
  epoch = 1;
  readonly executors: Executor[];
  readonly fates = new Map<number, Fate>();
  readonly log: string[] = [];
  served = 0;
  dispatches = 0;
  putBacks = 0;
  #due: { at: number; run: () => void }[] = [];
  #keys = 100;

  constructor(seed: number, faults: Faults) {
    this.prng = new Prng(seed);
    this.faults = faults;
    const configs = Array.from({ length: 1 + this.prng.nextInt(3) }, (_, m) => ({
      ...randomModel(this.prng, m),
      ctrl: CTRL as Micros,
      batchesInFlightMax: 1000,
    }));
    this.models = configs.map((config) => createModelThread(config));
    this.slos = configs.map((config) => config.slo);
    const gpus = 1 + this.prng.nextInt(4);
    this.rank = createRankThread({ epoch: 1, ctrl: CTRL as Micros, gpusMax: gpus });
    this.executors = Array.from({ length: gpus }, () => ({
      key: this.#newKey(),
      alive: true,
      busyUntil: 0,
      epoch: 1,
      grantSeq: 0,
    }));
    for (let gpu = 0; gpu < gpus; gpu++) this.#join(gpu);
  }

  after(delay: number, run: () => void): void {
    const at = this.now + delay;
    const later = this.#due.findLastIndex((entry) => entry.at > at); // sorted backwards: the next is the last
    this.#due.splice(later + 1, 0, { at, run });
  }
  /** Sends a message: late or lost as the faults say; otherwise it takes under a quarter of d_ctrl. */
  send(run: () => void): void {
    if (this.prng.nextFloat() < this.faults.lossRate) return;
    const isLate = this.prng.nextFloat() < this.faults.lateRate;
    this.after(this.prng.nextInt(isLate ? 6 * CTRL : CTRL / 4), run);
    if (this.prng.nextFloat() < this.faults.lossRate) this.after(this.prng.nextInt(CTRL), run); // repeated
  }
  /** Sends a message that is repaired until it arrives (sequences, heartbeats). */
  sendSurely(run: () => void): void {
    this.after(this.prng.nextInt(CTRL / 2), run);
  }

  run(until = Infinity): void {
    for (let events = 0; ; events++) {
      expect(events, "the cluster never comes to rest").toBeLessThan(200_000);
      const wakes = this.models.map((m) => nextWakeAt(m));
      const message = this.#due.at(-1)?.at ?? Infinity;
      const next = Math.min(message, nextRankWakeAt(this.rank), ...wakes);
      if (next === Infinity || next > until) return;
      this.now = Math.max(this.now, next);
      if (message <= this.now) this.#due.pop()!.run();
      else if (nextRankWakeAt(this.rank) <= this.now) this.toRank({ kind: "clock-reached", at: this.at });
      else
        this.models.forEach(
          (m, i) => nextWakeAt(m) <= this.now && this.toModel(i, { kind: "clock-reached", at: this.at }),
        );
    }
  }
  get at(): Instant {
    return this.now as Instant;
  }

  toModel(m: number, event: ModelEvent): void {
    step(this.models[m]!, { ...event, at: this.at }, this.#effects(m));
  }
  toRank(event: RankEvent): void {
    const { rank } = this;
    stepRank(
      rank,
      { ...event, at: this.at },
      {
        grant: (grant) => {
          this.log.push(`${this.now} grant ${grant.gpu}.${grant.grantSeq} to ${grant.thread}`);
          this.send(() => this.toModel(grant.thread / 64, { kind: "gpu-granted", at: this.at, grant }));
        },
        askGpu: (gpu, executor, grantSeq) => this.send(() => this.#ask(gpu, executor, grantSeq)),
      },
    );
  }

  #effects(m: number): ModelEffects {
    return {
      offer: (candidate) => {
        const copy = { ...candidate };
        this.send(() => this.toRank({ kind: "candidate-offered", at: this.at, candidate: copy }));
      },
      answerGrant: ({ thread, term, gpu, grantSeq, epoch }, used, freeAt, offerSeq, scarcity) => {
        const answer = {
          kind: "grant-answered" as const,
          at: this.at,
          thread,
          term,
          gpu,
          grantSeq,
          used,
          freeAt,
          offerSeq,
          scarcity,
        };
        this.send(() => epoch === this.rank.epoch && this.toRank(answer));
      },
      dispatch: (batch) => {
        this.dispatches++;
        for (const { seq, deadline } of batch.requests) {
          this.#move(seq, ["queued"], "out");
          this.#batchOf.set(seq, batch);
          expect(batch.startAt + batch.expectedRun).toBeLessThanOrEqual(deadline);
        }
        this.log.push(`${this.now} batch ${batch.batchId} [${batch.requests.map((r) => r.seq).join()}]`);
        this.after(this.prng.nextInt(CTRL / 4), () => this.#receive(m, batch));
      },
      refuse: (request, cause) => {
        this.#move(request.seq, ["queued"], "refused");
        this.log.push(`${this.now} refused ${request.seq} ${cause}`);
      },
    };
  }
  #move(seq: number, from: Fate[], to: Fate): void {
    expect(from, `request ${seq} goes from ${this.fates.get(seq)} to ${to}`).toContain(this.fates.get(seq));
    this.fates.set(seq, to);
  }

  /** An executor gets a batch (T4, T5). A dead one gets nothing, and its death is reported later. */
  #receive(m: number, batch: DispatchedBatch): void {
    const { grant } = batch;
    const executor = this.executors[grant.gpu]!;
    if (executor.key !== grant.executor || !executor.alive) return;
    const isOld =
      grant.epoch < executor.epoch || (grant.epoch === executor.epoch && grant.grantSeq <= executor.grantSeq);
    if (isOld || this.now > grant.validUntil + CTRL || this.prng.nextFloat() < this.faults.refusalRate) {
      this.sendSurely(() => {
        this.#comesBack(m, (b) => b === batch);
        this.toModel(m, { kind: "batch-refused", at: this.at, batchId: batch.batchId });
      });
      return;
    }
    Object.assign(executor, { epoch: grant.epoch, grantSeq: grant.grantSeq });
    const end = Math.max(batch.startAt, executor.busyUntil, this.now) + batch.expectedRun;
    executor.busyUntil = end;
    this.after(end - this.now, () => executor.alive && executor.key === grant.executor && this.#finish(m, batch, end));
  }
  #finish(m: number, { batchId, requests, grant }: DispatchedBatch, end: number): void {
    for (const { seq } of requests) if (this.fates.get(seq) === "out") this.#move(seq, ["out"], "served");
    this.served += requests.length;
    this.sendSurely(() => this.toModel(m, { kind: "batch-finished", at: this.at, batchId }));
    const { gpu, executor, grantSeq } = grant;
    this.send(
      () =>
        grant.epoch === this.rank.epoch &&
        this.toRank({ kind: "gpu-freed", at: this.at, gpu, executor, grantSeq, freeAt: end as Instant }),
    );
  }
  /** Marks the requests that the model must queue again when it hears that these batches will not run. */
  #comesBack(m: number, isGone: (batch: DispatchedBatch) => boolean): void {
    const { inFlightBatches } = this.models[m]!;
    for (const [seq, batch] of this.#batchOf) {
      if (this.fates.get(seq) !== "out" || batch.thread !== this.models[m]!.thread || !isGone(batch)) continue;
      if (!inFlightBatches.ofExecutor(batch.grant.executor).includes(batch.batchId)) continue;
      this.fates.set(seq, "queued");
      this.putBacks++;
    }
  }
  readonly #batchOf = new Map<number, DispatchedBatch>();

  #ask(gpu: GpuId, key: ActorKey, grantSeq: number): void {
    const executor = this.executors[gpu]!;
    if (executor.key !== key || !executor.alive) return;
    executor.grantSeq = Math.max(executor.grantSeq, grantSeq); // promises to accept nothing older
    const freeAt = Math.max(executor.busyUntil, this.now) as Instant;
    this.send(() => this.toRank({ kind: "gpu-freed", at: this.at, gpu, executor: key, grantSeq, freeAt }));
  }
  #newKey(): ActorKey {
    return this.#keys++ as ActorKey;
  }
  #join(gpu: number): void {
    const { key, busyUntil, grantSeq } = this.executors[gpu]!;
    this.toRank({
      kind: "gpu-joined",
      at: this.at,
      gpu: gpu as GpuId,
      executor: key,
      type: 0,
      freeAt: busyUntil as Instant,
      grantSeq,
    });
  }

  arrive(m: number, seq: number): void {
    const slo = this.slos[m]!;
    const deadline = (this.now + slo) as Instant;
    this.fates.set(seq, "queued");
    const request: Request = {
      ingress: 1 as ActorKey,
      seq: seq as RequestSeq,
      deadline,
      arrivedAt: this.at,
      slo,
      app: 0,
      size: 0,
    };
    this.toModel(m, { kind: "request-arrived", at: this.at, request });
    // Repair sends arrivals again. One that is no longer queued is recognised by its sequence before it gets here.
    const isRepeated = this.prng.nextFloat() < 0.05 && this.fates.get(seq) === "queued";
    if (isRepeated) this.toModel(m, { kind: "request-arrived", at: this.at, request: { ...request } });
    if (this.prng.nextFloat() < 0.05) this.after(this.prng.nextInt(slo), () => this.#withdraw(m, seq));
  }
  #withdraw(m: number, seq: number): void {
    const fate = this.fates.get(seq);
    if (fate === "queued" || fate === "out") this.fates.set(seq, "withdrawn");
    this.toModel(m, { kind: "request-withdrawn", at: this.at, ingress: 1 as ActorKey, seq: seq as RequestSeq });
  }

  /** Kills an executor with all that it holds. The others hear of it, and it comes back under a new key. */
  kill(gpu: number): void {
    const executor = this.executors[gpu]!;
    const { key } = executor;
    if (!executor.alive) return;
    executor.alive = false;
    this.after(CTRL * 2 + this.prng.nextInt(5000), () => {
      this.toRank({ kind: "gpu-lost", at: this.at, gpu: gpu as GpuId, executor: key });
      // Tell the models after every grant that is still on its way: both come from the ranker.
      this.after(7 * CTRL, () => this.models.forEach((_, m) => this.#executorLost(m, key)));
      this.after(this.prng.nextInt(20_000), () => {
        Object.assign(executor, { key: this.#newKey(), alive: true, busyUntil: 0, epoch: this.epoch, grantSeq: 0 });
        this.#join(gpu);
      });
    });
  }
  #executorLost(m: number, key: ActorKey): void {
    this.#comesBack(m, (batch) => batch.grant.executor === key);
    this.toModel(m, { kind: "executor-lost", at: this.at, executor: key });
  }

  /** Makes another ranker win the lease. It knows nothing, asks everyone, and its epoch fences the old one off. */
  takeOver(): void {
    const epoch = ++this.epoch;
    this.rank = createRankThread({ epoch, ctrl: CTRL as Micros, gpusMax: this.executors.length });
    this.executors.forEach((executor, gpu) => {
      if (!executor.alive) return;
      Object.assign(executor, { epoch, grantSeq: 0 });
      this.#join(gpu);
    });
    this.models.forEach((_, m) =>
      this.sendSurely(() => this.toModel(m, { kind: "ranker-changed", at: this.at, epoch })),
    );
  }
  heartbeat(): void {
    for (const model of this.models) {
      const candidate = { ...offeredCandidate(model) };
      if (candidate.batchSize > 0) this.toRank({ kind: "candidate-offered", at: this.at, candidate });
    }
  }
}

function runWithFaults(seed: number, faults: Faults): FaultyCluster {
  const cluster = new FaultyCluster(seed, faults);
  const { prng, models } = cluster;
  const gap = cluster.slos[0]! / (10 + prng.nextInt(30));
  const requests = 250;
  for (let i = 0; i < faults.deaths; i++)
    cluster.after(prng.nextInt(requests * gap), () => cluster.kill(prng.nextInt(cluster.executors.length)));
  for (let i = 0; i < faults.takeovers; i++) cluster.after(prng.nextInt(requests * gap), () => cluster.takeOver());
  for (let at = 5000; at < requests * gap; at += 5000) cluster.after(at, () => cluster.heartbeat());
  let at = 0;
  for (let seq = 1; seq <= requests; seq++) {
    at += Math.round(prng.nextExponential(1 / gap));
    const m = prng.nextInt(models.length);
    cluster.after(at, () => cluster.arrive(m, seq));
  }
  cluster.run();
  return cluster;
}

/** The work takes a few seconds of CPU time; a machine that is otherwise busy may take ten times as long. */
const LONG = { timeout: 120_000 };

const swarm = (seed: number): Faults => {
  const prng = new Prng(seed * 31);
  const some = (most: number) => (prng.nextInt(2) === 0 ? 0 : most * prng.nextFloat());
  return {
    lossRate: some(0.3),
    lateRate: some(0.3),
    refusalRate: some(0.3),
    deaths: prng.nextInt(4),
    takeovers: prng.nextInt(3),
  };
};

test(
  "every request ends exactly once, whatever is lost, late, repeated, refused, killed or taken over (M1)",
  LONG,
  () => {
    const sum = { served: 0, putBacks: 0, refused: 0, withdrawn: 0 };
    for (let seed = 1; seed <= 50; seed++) {
      const cluster = runWithFaults(seed, swarm(seed));
      for (const [seq, fate] of cluster.fates) {
        expect(["served", "refused", "withdrawn"], `request ${seq} of seed ${seed} ended as`).toContain(fate);
        if (fate !== "served") sum[fate as "refused" | "withdrawn"]++;
      }
      for (const model of cluster.models) expect([model.queue.size, nextWakeAt(model)]).toEqual([0, Infinity]);
      sum.served += cluster.served;
      sum.putBacks += cluster.putBacks;
    }
    for (const [what, count] of Object.entries(sum)) expect(count, `${what} is hardly exercised`).toBeGreaterThan(100);
  },
);

test("without faults most requests are served, though every message takes its time", () => {
  const quiet = { lossRate: 0, lateRate: 0, refusalRate: 0, deaths: 0, takeovers: 0 };
  let [served, withdrawn, total] = [0, 0, 0];
  for (let seed = 1; seed <= 20; seed++) {
    const { fates } = runWithFaults(seed, quiet);
    const count = (fate: Fate) => [...fates.values()].filter((f) => f === fate).length;
    served += count("served");
    withdrawn += count("withdrawn");
    total += fates.size;
  }
  expect(served / (total - withdrawn)).toBeGreaterThan(0.79);
});

test("equal seeds give an equal log, faults included (T6)", () => {
  for (const seed of [3, 4, 5])
    expect(runWithFaults(seed, swarm(seed)).log).toEqual(runWithFaults(seed, swarm(seed)).log);
});
