/**
 * Jobs in a running cluster (docs/algorithms.md, A13): they get time that no request needs, none is lost, and nothing
 * that is decided for requests counts them.
 */
import { StatsReported, subjectsOf } from "@tutti/protocol";
import { type Micros, Prng, gpuId, millis, seconds } from "@tutti/units";
import { FrameReader } from "@tutti/wire";
import { expect, test } from "vitest";
import { JobRunner, LOOK_EVERY, shareTime } from "./job-load.ts";
import { VirtualCluster } from "./virtual-cluster.ts";
import type { Asked, VirtualClusterOptions } from "./virtual-cluster-options.ts";

/** l(b) = 4 + b ms. */
const MODEL = { name: "mlp", alphaMs: 1, betaMs: 4, sloMs: 100 } as const;
const JOB_MS = 600_000;

function served(options: VirtualClusterOptions = {}, ...models: Parameters<VirtualCluster["addModel"]>[0][]) {
  const cluster = new VirtualCluster(options);
  for (const model of [MODEL, ...models]) cluster.addModel(model);
  cluster.run(seconds(2));
  return cluster;
}
const jobs = (cluster: VirtualCluster, count: number, model: string = MODEL.name): Asked[] =>
  Array.from({ length: count }, () => cluster.ask(model, { isJob: true, sloMs: JOB_MS }));

/** Answers by status; `wrong`: with the outputs of another. */
function outcomes(asked: readonly Asked[]): Record<string, number> {
  const counts: Record<string, number> = {};
  for (const { outcomes: all, value } of asked) {
    const text = all.map((one) => (one.status === "ok" && one.value !== value ? "wrong" : one.status)).join();
    counts[text] = (counts[text] ?? 0) + 1;
  }
  return counts;
}

/** The last figures of each thread that actors of a role report, of requests and of jobs. */
function figuresOf(cluster: VirtualCluster, role: "ingress" | "batcher" | "executor") {
  const last: { stats: Partial<StatsReported> } = { stats: {} };
  const reader = new FrameReader().on(StatsReported, (stats) => void (last.stats = stats));
  const listener = cluster.network.connect({ name: `listener-${role}` });
  listener.subscribe(subjectsOf("main").stats(role), ({ payload }) => void reader.read(payload));
  return {
    requests: () => last.stats.perThread?.find(({ name }) => name === MODEL.name)?.figures,
    jobs: () => last.stats.perJobThread?.find(({ name }) => name === MODEL.name)?.figures,
    all: () => last.stats.figures,
    gpus: () => last.stats.perGpu ?? [],
  };
}

test("jobs of an idle cluster run in batches as large as requests allow, each with its own answer", () => {
  const sizes: number[] = [];
  const cluster = served({ gpus: 2, fault: (_gpu, _runs, { batchSize }) => void sizes.push(batchSize) });
  sizes.length = 0;
  const asked = jobs(cluster, 200);
  cluster.run(seconds(1));
  expect(outcomes(asked)).toEqual({ ok: 200 });
  // A quarter of 100 ms − l(1) − delays of some milliseconds: l(18) = 22 ms, and the first batch leaves at once.
  expect(Math.max(...sizes)).toBeGreaterThanOrEqual(17);
  expect(Math.max(...sizes)).toBeLessThanOrEqual(19);
  expect(sizes.length).toBeLessThan(200 / 12);
  expect(cluster.faults).toEqual([]);
});

test("a request beside waiting jobs is in time, and waits for one batch of jobs at most", () => {
  const cluster = served({ gpus: 1, policy: { kind: "eager" } });
  jobs(cluster, 1_000);
  cluster.run(millis(100));
  const asked = cluster.load(MODEL.name, { rate: 20, duration: seconds(2), sloMs: 100 });
  cluster.run(millis(200));
  expect(outcomes(asked)).toEqual({ ok: asked.length });
  const longest = Math.max(...asked.map(({ at, outcomes: [first] }) => first!.at - at));
  expect(longest).toBeLessThan(millis(23 + 23 + 10)); // the jobs' run, its own batch, the ways
});

test("figures of requests count no job, and those of jobs no request", () => {
  const cluster = served({ gpus: 2 });
  const [ingress, batcher, executor] = (["ingress", "batcher", "executor"] as const).map((role) =>
    figuresOf(cluster, role),
  );
  const asked = jobs(cluster, 100);
  const refused = jobs(cluster, 3, "nobody");
  const requests = cluster.load(MODEL.name, { rate: 100, duration: seconds(1), sloMs: 100 });
  cluster.run(seconds(2));
  expect(outcomes(refused)).toEqual({ TUTTI_NOT_FOUND: 3 });
  expect(outcomes([...asked, ...requests])).toEqual({ ok: 100 + requests.length });
  expect(ingress!.requests()).toMatchObject({ offered: requests.length, ok: requests.length, refused: 0 });
  expect(ingress!.jobs()).toMatchObject({ offered: 100, ok: 100, refused: 0 });
  expect(ingress!.all()).toMatchObject({ requests: requests.length, ok: requests.length, jobs: 103, jobsOk: 100 });
  expect(batcher!.requests()).toMatchObject({ arrivals: expect.any(Number) as number, items: requests.length });
  expect(batcher!.jobs()).toMatchObject({ arrivals: 100, items: 100, queued: 0, inFlight: 0 });
  expect(executor!.requests()!["computed"]).toBeGreaterThanOrEqual(requests.length);
  const [busyUs, jobsUs] = ["busyUs", "jobsUs"].map((name) =>
    executor!.gpus().reduce((sum, { figures }) => sum + figures[name]!, 0),
  );
  expect(jobsUs).toBeGreaterThan(millis(100));
  expect(busyUs! - jobsUs!).toBeGreaterThan(millis(100));
});

test("a job that takes longer than requests beside it can wait is refused, as long as it is so", () => {
  const cluster = served({ gpus: 2 }, { name: "long", alphaMs: 10, betaMs: 30, sloMs: 400 });
  const [early] = jobs(cluster, 1, "long");
  cluster.run(millis(100));
  expect(outcomes([early!])).toEqual({ TUTTI_DEADLINE_INFEASIBLE: 1 });
  expect(early!.outcomes[0]!.text).toMatch(/longer than requests beside it can wait/);
  expect(early!.outcomes[0]!.retryAfterMs).toBeGreaterThan(0);
  cluster.store.delete("tutti_models", MODEL.name, () => undefined);
  cluster.run(seconds(2));
  const [late] = jobs(cluster, 1, "long");
  cluster.run(millis(200));
  expect(outcomes([late!])).toEqual({ ok: 1 });
});

test("a job whose time is over is refused, and may be sent again", () => {
  const cluster = served({ gpus: 1 });
  cluster.kill("executor-0");
  cluster.run(seconds(1));
  const asked = cluster.ask(MODEL.name, { isJob: true, sloMs: 3_000 });
  cluster.run(seconds(2));
  expect(asked.outcomes).toEqual([]);
  cluster.run(seconds(2));
  expect(outcomes([asked])).toEqual({ TUTTI_DEADLINE_INFEASIBLE: 1 });
  expect(asked.outcomes[0]!.text).toMatch(/left no accelerator time for this job/);
});

test.each([
  { load: 30, rate: 130, least: 0.95 },
  { load: 60, rate: 260, least: 0.95 },
  { load: 80, rate: 340, least: 0.92 },
])("at $load % load jobs use what requests leave of the time, and requests lose nothing", ({ rate, least }) => {
  const model = { name: "resnet", alphaMs: 4, betaMs: 16, sloMs: 400 };
  const cluster = { gpus: 2, policy: { kind: "adaptive" } } as const;
  const [without, beside] = [0, 128].map((jobs) => shareTime({ model, cluster, rate, jobs, duration: seconds(5) }));
  expect(without!.used).toBeLessThan(0.9);
  expect(beside!.used).toBeGreaterThan(least);
  expect(beside!.bad - without!.bad).toBeLessThan(0.001);
  expect(without!.jobs).toBe(0);
});

test.each([1, 2])(
  "no job is lost, whatever dies, and each request has one answer at most (T1, T2): seed %i",
  (seed) => {
    const prng = new Prng(seed);
    const cluster = served({ gpus: 2, executors: 2, batchers: 2, rankers: 2, seed });
    cluster.startIngress("ingress-1");
    cluster.run(seconds(1));
    const roles = {
      executor: {
        names: ["executor-0", "executor-1"],
        start: (name: string) => cluster.startExecutor(name, [gpuId(Number(name.at(-1)))]),
      },
      batcher: { names: ["batcher-0", "batcher-1"], start: (name: string) => cluster.startBatcher(name) },
      ranker: { names: ["ranker-0", "ranker-1"], start: (name: string) => cluster.startRanker(name) },
      ingress: { names: ["ingress", "ingress-1"], start: (name: string) => cluster.startIngress(name) },
    };
    const runner = new JobRunner({ cluster, model: MODEL.name, jobMs: 2_000 });
    const requests: Asked[] = [];
    const during = (time: Micros, inFlight: number): void => {
      for (let passed = 0; passed < time; passed += LOOK_EVERY) {
        runner.look(inFlight);
        requests.push(...cluster.load(MODEL.name, { rate: 50, duration: LOOK_EVERY, sloMs: 100 }));
      }
    };
    for (const role of [...Object.values(roles), ...Object.values(roles), ...Object.values(roles)]) {
      const name = role.names[prng.nextInt(2)]!;
      cluster.kill(name);
      during(millis(50 + prng.nextInt(250)), 100);
      role.start(name);
      during(millis(500), 100);
    }
    for (let left = 0; left < 80 && runner.waiting > 0; left++) during(millis(50), 0);
    expect([runner.waiting, runner.wrong]).toEqual([0, 0]);
    expect(runner.answered).toBe(runner.sent);
    expect(runner.sent).toBeGreaterThan(1_000);
    const seen = outcomes(requests);
    expect(Object.keys(seen).filter((text) => text.includes(",") || text === "wrong")).toEqual([]);
    expect(seen["ok"]! / requests.length).toBeGreaterThan(0.8);
    expect(cluster.faults).toEqual([]);
  },
  120_000,
);

test("an ingress that is drained gives its jobs back at once, and a batcher's successor has them all", () => {
  const cluster = served({ gpus: 1, batchers: 2 });
  cluster.kill("executor-0");
  cluster.run(seconds(1));
  const asked = jobs(cluster, 50);
  cluster.run(millis(200));
  for (const name of ["batcher-0", "batcher-1"]) {
    cluster.kill(name);
    cluster.run(seconds(1));
    cluster.startBatcher(name);
    cluster.run(seconds(1));
  }
  cluster.startExecutor("executor-0", [gpuId(0)]);
  cluster.run(seconds(2));
  expect(outcomes(asked)).toEqual({ ok: 50 });
  cluster.kill("executor-0");
  cluster.run(seconds(1));
  const held = jobs(cluster, 3);
  cluster.run(millis(100));
  cluster.drain("ingress");
  cluster.run(millis(100));
  expect(outcomes(held)).toEqual({ TUTTI_UNAVAILABLE: 3 });
  expect(held[0]!.outcomes[0]!.retryAfterMs).toBeGreaterThan(0);
});
