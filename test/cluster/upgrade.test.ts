/** A rolling upgrade and the way back: two releases' codecs in one cluster, in virtual time (docs/upgrades.md). */
import { type Micros, Prng, gpuId, millis, seconds } from "@tutti/units";
import { expect, test } from "vitest";
import type { Difference } from "./other-release.ts";
import type { Asked } from "./virtual-cluster-options.ts";
import { VirtualCluster } from "./virtual-cluster.ts";

const START = millis(300);
const SETTLE = millis(700);
const MODELS = ["a", "b", "c"];
/** Half of what one executor of two accelerators carries: l(8) = 60 ms. */
const RATE = 133;
const NAMES = ["profiler", "ranker-0", "ranker-1", "batcher-0", "executor-0", "executor-1", "ingress"];

/** Processes whose name has a mark are of the other release. */
class UpgradingCluster extends VirtualCluster {
  readonly answered: Asked[] = [];
  /** Present names of the processes. */
  #names: readonly string[] = NAMES;
  readonly #shuffling: Prng;

  constructor(seed: number, other: Difference) {
    super({
      ...{ seed, gpus: 4, executors: 2, batchers: 1, policy: { kind: "adaptive" } },
      otherRelease: (name) => (name.endsWith("'") ? other : undefined),
    });
    this.#shuffling = new Prng(seed);
    for (const name of MODELS) this.addModel({ name, alphaMs: 5, betaMs: 20, sloMs: 500, batchSizeMax: 8 });
    this.run(seconds(3));
  }

  serve(duration: Micros): void {
    const slice = millis(20);
    for (let at = 0, i = 0; at < duration; at += slice, i++)
      this.answered.push(...this.load(MODELS[i % MODELS.length]!, { rate: RATE, duration: slice, sloMs: 500 }));
  }

  /** Replaces every process, in an order that the seed decides. */
  replaceAll(mark: "'" | "-back"): void {
    const order = [...this.#names];
    for (let i = order.length - 1; i > 0; i--) {
      const j = this.#shuffling.nextInt(i + 1);
      [order[i], order[j]] = [order[j]!, order[i]!];
    }
    for (const name of order) this.#replace(name, `${name.replace(/'$/, "")}${mark}`);
    this.#names = order.map((name) => `${name.replace(/'$/, "")}${mark}`);
    this.serve(seconds(1));
    this.run(seconds(2));
  }

  #replace(name: string, next: string): void {
    const start = (): void => {
      if (name.startsWith("ranker")) this.startRanker(next);
      else if (name.startsWith("batcher")) this.startBatcher(next);
      else if (name.startsWith("profiler")) this.startProfiler(next);
      else if (name.startsWith("ingress")) this.startIngress(next);
      else this.startExecutor(next, name.includes("-0") ? [gpuId(0), gpuId(1)] : [gpuId(2), gpuId(3)]);
    };
    const isFirst = !/^(executor|profiler)/.test(name);
    if (isFirst) start();
    if (isFirst) this.serve(START);
    this.drain(name);
    this.serve(START);
    if (!isFirst) start();
    this.serve(SETTLE);
  }
}

const outcomes = (asked: readonly Asked[]): Record<string, number> => {
  const counts: Record<string, number> = {};
  for (const {
    outcomes: [one, ...more],
    value,
  } of asked) {
    const isWrong = one === undefined || more.length > 0 || (one.status === "ok" && one.value !== Math.fround(value));
    const outcome = isWrong ? "lost, doubled or wrong" : one.status;
    counts[outcome] = (counts[outcome] ?? 0) + 1;
  }
  return counts;
};

test.each([7_000, 7_001, 7_002, 7_003, 7_004, 7_005])(
  "an upgrade to the next release and back, in any order, refuses and loses nothing (seed %i)",
  (seed) => {
    const cluster = new UpgradingCluster(seed, "grown");
    cluster.replaceAll("'");
    cluster.replaceAll("-back");
    expect(cluster.answered.length).toBeGreaterThan(1_500);
    expect(outcomes(cluster.answered)).toEqual({ ok: cluster.answered.length });
    expect(cluster.faults).toEqual([]);
  },
);

test.each([7_010, 7_011, 7_012, 7_013])(
  "beside a release whose leases it can't read, today's loses no request, and serves all again once it is alone (seed %i)",
  (seed) => {
    const cluster = new UpgradingCluster(seed, "reformed");
    cluster.replaceAll("'");
    cluster.replaceAll("-back");
    const { ok = 0, "lost, doubled or wrong": lost, ...refused } = outcomes(cluster.answered);
    expect([lost, cluster.faults]).toEqual([undefined, []]);
    expect(ok / cluster.answered.length, JSON.stringify(refused)).toBeGreaterThan(0.9);
    const first = cluster.answered.length;
    cluster.serve(seconds(1));
    cluster.run(seconds(1));
    expect(outcomes(cluster.answered.slice(first))).toEqual({ ok: cluster.answered.length - first });
  },
);
