/**
 * A model that could be served and answers nothing is noticed, reported and restarted. One that can't be served is not.
 */
import { GpuGranted, type StatsReported } from "@tutti/protocol";
import { type GpuId, after, gpuId, millis, seconds, threadId } from "@tutti/units";
import { expect, test } from "vitest";
import { type Said, asOf, frameOf, saidIn } from "./message-mutation.ts";
import { VirtualCluster } from "./virtual-cluster.ts";
import type { VirtualClusterOptions } from "./virtual-cluster-options.ts";

const MODEL = { name: "m", alphaMs: 1, betaMs: 3, sloMs: 50 };
const THREAD = threadId(1, 0);

/** A cluster that serves, the last grant that was given in it, and what its batcher reports. */
function serving(options: VirtualClusterOptions = {}) {
  const cluster = new VirtualCluster({ executors: 2, gpus: 2, ...options });
  cluster.addModel(MODEL);
  const reports: { readonly stalled: number; readonly renewals: number }[] = [];
  const grants: Said[] = [];
  cluster.network.connect({ name: "tap" }).subscribe(">", ({ subject, payload }) => {
    for (const said of saidIn(subject, payload, cluster.clock.now())) {
      if (said.type.name === GpuGranted.name) grants.push(said);
      if (!subject.endsWith("stats.batcher") || said.type.name !== "stats-reported") continue;
      const { figures, perThread = [] } = said.value as StatsReported;
      const own = perThread.find(({ thread }) => thread === THREAD);
      reports.push({ stalled: own?.figures["stalled"] ?? 0, renewals: figures["renewals"] ?? 0 });
    }
  });
  cluster.run(seconds(1));
  cluster.load("m", { rate: 100, duration: millis(500), sloMs: 50 });
  return { cluster, reports, grants };
}

/**
 * Sends the thread grants whose numbers are far ahead of the ranker's own, and valid for nearly as long as is
 * plausible.
 */
function mislead(cluster: VirtualCluster, grants: readonly Said[], gpus: readonly GpuId[]): void {
  const now = cluster.clock.now();
  const enemy = cluster.network.connect({ name: "enemy" });
  const own = grants.findLast(({ value }) => (value as GpuGranted).thread === THREAD);
  const grant = asOf(now, own!);
  const { grantSeq } = grant.value as GpuGranted;
  for (const gpu of gpus) {
    const value = { ...grant.value, gpu, grantSeq: grantSeq + 1_000_000, validUntil: after(now, millis(3_900)) };
    enemy.publish(grant.subject, frameOf({ ...grant, value })!);
  }
  cluster.run(millis(20));
}

test("a thread that believes grants with false numbers accepts no others, is reported as stalled, and answers again under a new term", () => {
  const { cluster, reports, grants } = serving();
  mislead(cluster, grants, [gpuId(0), gpuId(1)]);
  const asked = cluster.load("m", { rate: 50, duration: seconds(5), sloMs: 50 });
  cluster.run(millis(500));
  const outcomes = asked.map(({ outcomes: [first] }) => first?.status);
  expect(outcomes.slice(0, 40)).not.toContain("ok");
  expect(new Set(outcomes.slice(-100))).toEqual(new Set(["ok"]));
  expect(reports.some(({ stalled }) => stalled === 1)).toBe(true);
  cluster.run(seconds(15));
  expect(reports.at(-1)).toEqual({ stalled: 0, renewals: 1 });
});

test("a stall is found though another model's runs take the accelerator for more than a second in between", () => {
  const { cluster, reports, grants } = serving({ executors: 1, gpus: 1 });
  cluster.addModel({ name: "long", alphaMs: 1, betaMs: 1_100, sloMs: 4_000 });
  cluster.run(seconds(3));
  for (let i = 0; i < 5; i++) cluster.later(millis(2_000 * i), () => void cluster.ask("long", { sloMs: 4_000 }));
  cluster.run(millis(1_200));
  cluster.load("m", { rate: 100, duration: millis(500), sloMs: 50 });
  mislead(cluster, grants, [gpuId(0)]);
  expect(reports.at(-1)?.renewals).toBe(0);
  cluster.load("m", { rate: 50, duration: seconds(5), sloMs: 50 });
  expect(reports.at(-1)?.renewals).toBe(1);
});

test("requests that can't be met, no executor, and overload start nothing anew", () => {
  const { cluster, reports } = serving();
  for (let i = 0; i < 200; i++) {
    cluster.ask("m", { sloMs: 3 });
    cluster.run(millis(20));
  }
  cluster.load("m", { rate: 4_000, duration: seconds(3), sloMs: 50 });
  for (const name of ["executor-0", "executor-1"]) cluster.kill(name);
  cluster.load("m", { rate: 50, duration: seconds(4), sloMs: 50 });
  cluster.run(millis(1_500));
  expect(reports.length).toBeGreaterThan(10);
  expect(new Set(reports.map(({ renewals }) => renewals))).toEqual(new Set([0]));
});

test.each([0, 50, 100, 150, 200, 250])(
  "requests from before the accelerator came are no stall of it, when it has just come (%i ms after the detector has looked)",
  (later) => {
    const slow = { name: "slow", alphaMs: 1, betaMs: 400, sloMs: 1_500 };
    const { cluster, reports } = serving({ executors: 1, gpus: 1 });
    cluster.addModel(slow);
    cluster.run(seconds(2));
    cluster.load("slow", { rate: 10, duration: seconds(2), sloMs: 1_500 });
    cluster.kill("executor-0");
    cluster.later(millis(4_000 + later), () => cluster.startExecutor("executor-0", [gpuId(0)]));
    const asked = cluster.load("slow", { rate: 10, duration: seconds(9), sloMs: 1_500 });
    cluster.run(seconds(2));
    expect(asked.at(-1)?.outcomes[0]?.status).toBe("ok");
    expect(new Set(reports.map(({ renewals }) => renewals))).toEqual(new Set([0]));
  },
);
