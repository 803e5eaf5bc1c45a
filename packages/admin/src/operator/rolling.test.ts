import type { ProcessOrder } from "@tutti/protocol";
import { actorKey } from "@tutti/units";
import { beforeEach, expect, test } from "vitest";
import { CommandError } from "../failure.ts";
import { type RollingEnd, type RollingPorts, type Step, roll } from "./rolling.ts";
import type { Target } from "./targets.ts";

const target = (name: string): Target => {
  const [role] = name.split("-") as [Target["role"]];
  return { name, role, pid: 1, actor: "", phase: "ready", restarts: 0, agent: actorKey(1), host: "h" };
};
const TARGETS = ["ranker-1", "ranker-0", "batcher-0"].map(target);

/** A cluster on the test's clock: an order takes 100 ms, and the cluster is whole again `healMs` later. */
class FakeCluster implements RollingPorts {
  time = 0;
  readonly told: string[] = [];
  healMs = 200;
  #brokenUntil = 0;
  broken: string | undefined;
  alone = true;

  order = (to: Target, order: ProcessOrder): Promise<void> => {
    if (to.name === this.broken) return Promise.reject(new CommandError("dies at every start"));
    this.told.push(`${this.time} ${order} ${to.name}`);
    this.time += 100;
    this.#brokenUntil = this.time + this.healMs;
    return Promise.resolve();
  };
  lack = (): string | undefined => (this.time < this.#brokenUntil ? "nobody leads" : undefined);
  assertAlone = (): void => {
    if (!this.alone) throw new CommandError("another operator has taken over");
  };
  now = (): number => this.time;
  wait = (ms: number): Promise<void> => {
    this.time += ms;
    return Promise.resolve();
  };
}

let cluster: FakeCluster;
let steps: Step[];
beforeEach(() => {
  cluster = new FakeCluster();
  steps = [];
});
const run = (options: { order?: ProcessOrder; isStopped?: () => boolean } = {}): Promise<RollingEnd> =>
  roll(TARGETS, cluster, {
    order: "restart",
    settleMs: 1_000,
    isStopped: () => false,
    onStep: (step) => steps.push(step),
    ...options,
  });

test("each begins only when the one before is done and the cluster is whole again", async () => {
  expect(await run()).toMatchObject({ done: TARGETS, left: [], failure: undefined });
  expect(cluster.told).toEqual(["0 restart ranker-1", "300 restart ranker-0", "600 restart batcher-0"]);
  expect(steps.map(({ kind, number, text }) => `${number} ${kind} ${text}`).slice(0, 3)).toEqual([
    "1 begins restart h/ranker-1 (ranker)",
    "1 goes-on waits: nobody leads",
    "1 done 0.3 s",
  ]);
});

test("it stops at the first that fails, and says which are left", async () => {
  cluster.broken = "ranker-0";
  const { done, left, failure } = await run();
  expect([done.length, left.map(({ name }) => name)]).toEqual([1, ["ranker-0", "batcher-0"]]);
  expect(failure).toBe("h/ranker-0: dies at every start");
  expect(cluster.told).toHaveLength(1);
});

test("a cluster that does not become whole again is left alone, with what lacks", async () => {
  cluster.healMs = 5_000;
  const { left, failure } = await run();
  expect(left).toHaveLength(3); // the first is not done either
  expect(failure).toBe("h/ranker-1: is ready, but nobody leads, 1 s later; nothing more is restarted");
});

test("an operator who has had enough, or who lost the lock to another, restarts nothing more", async () => {
  const stopped = await run({ isStopped: () => cluster.told.length === 1 });
  expect([stopped.done.length, stopped.failure]).toEqual([1, "stopped by the operator"]);
  cluster.alone = false;
  expect(await run()).toMatchObject({ done: [], failure: "h/ranker-1: another operator has taken over" });
});

test("draining waits for no replacement", async () => {
  cluster.healMs = 1e9;
  expect((await run({ order: "drain" })).failure).toBeUndefined();
});
