/** A rolling restart as an operator's command does it: every process in turn, under load, in virtual time. */
import { type Micros, gpuId, millis, seconds } from "@tutti/units";
import { expect, test } from "vitest";
import { VirtualCluster } from "./virtual-cluster.ts";
import type { Asked } from "./virtual-cluster-options.ts";

/** Time from the start of a process until it is ready, and from there until the next one's turn. */
const START = millis(300);
const SETTLE = millis(700);
const MODELS = ["a", "b", "c"];
/** Requests per second of one executor with two accelerators: l(8) = 60 ms. */
const REMAINS = 266;

class RollingCluster extends VirtualCluster {
  readonly answered: Asked[] = [];
  readonly #rate: number;

  constructor(seed: number, rate: number) {
    super({ seed, gpus: 4, executors: 2, batchers: 1, policy: { kind: "adaptive" } });
    this.#rate = rate;
    for (const name of MODELS) this.addModel({ name, alphaMs: 5, betaMs: 20, sloMs: 500, batchSizeMax: 8 });
    this.run(seconds(3));
  }

  /** Poisson load on each model in turn. */
  serve(duration: Micros): void {
    const slice = millis(20);
    for (let at = 0, i = 0; at < duration; at += slice, i++)
      this.answered.push(...this.load(MODELS[i % MODELS.length]!, { rate: this.#rate, duration: slice, sloMs: 500 }));
  }

  /** Restarts in the order of packages/admin/src/operator: takers of requests last, the leader after its standby. */
  restartAll(): void {
    this.#stopFirst("profiler", () => this.startProfiler("profiler'"));
    for (const name of ["ranker-1", "ranker-0"]) this.#spareFirst(name, () => this.startRanker(`${name}'`));
    this.#spareFirst("batcher-0", () => this.startBatcher("batcher-0'"));
    for (const [i, name] of ["executor-0", "executor-1"].entries())
      this.#stopFirst(name, () => this.startExecutor(`${name}'`, [gpuId(2 * i), gpuId(2 * i + 1)]));
    this.#spareFirst("ingress", () => this.startIngress("ingress'"));
    this.run(seconds(2));
  }

  #spareFirst(name: string, start: () => void): void {
    start();
    this.serve(START);
    this.drain(name);
    this.serve(SETTLE);
  }

  #stopFirst(name: string, start: () => void): void {
    this.drain(name);
    this.serve(START);
    start();
    this.serve(SETTLE);
  }
}

/** Requests without exactly one answer, or with another's. */
const confused = (asked: readonly Asked[]): readonly Asked[] =>
  asked.filter(({ outcomes: [outcome, ...more], value }) => {
    if (outcome === undefined || more.length > 0) return true;
    return outcome.status === "ok" && outcome.value !== Math.fround(value);
  });
const refused = (asked: readonly Asked[]): readonly Asked[] =>
  asked.filter(({ outcomes }) => outcomes[0]?.status !== "ok");

test.each([1, 2, 3])(
  "restarting everybody in turn at half of the capacity that remains refuses and loses nothing (T9, seed %i)",
  (seed) => {
    const cluster = new RollingCluster(seed, REMAINS / 2);
    cluster.restartAll();
    expect(cluster.answered.length).toBeGreaterThan(700);
    expect(refused(cluster.answered)).toEqual([]);
    expect(confused(cluster.answered)).toEqual([]);
  },
);

test("at 0.8 of the capacity that remains it refuses at most one in a hundred, and loses and confuses nothing (T9)", () => {
  const cluster = new RollingCluster(4, 0.8 * REMAINS);
  cluster.restartAll();
  expect(confused(cluster.answered)).toEqual([]);
  expect(refused(cluster.answered).length / cluster.answered.length).toBeLessThan(0.01);
});

test("beyond all capacity a rolling restart still loses and confuses nothing (T9)", () => {
  const cluster = new RollingCluster(5, 4 * REMAINS);
  cluster.restartAll();
  expect(confused(cluster.answered)).toEqual([]);
});
