import {
  BUCKET,
  type Heartbeat as Beat,
  ExecutorLost,
  GpuGranted,
  GpuJoined,
  Heartbeat,
  IngressIntroduced,
  type MessageType,
  type ModelSpec,
  ModelReported,
  ProfileMeasured,
  ProfileWanted,
  LeadExpected,
  RankerAnnounced,
  leaseKeys,
  subjectsOf,
} from "@tutti/protocol";
import { type ActorKey, type Instant, actorKey, after, gpuId, micros, millis, seconds, threadId } from "@tutti/units";
import { FrameWriter, fromJson, toJson } from "@tutti/wire";
import { expect, test } from "vitest";
import { VirtualCluster } from "./virtual-cluster.ts";
import type { Asked, VirtualClusterOptions } from "./virtual-cluster-options.ts";

const FAST = { name: "fast", alphaMs: 1, betaMs: 4, sloMs: 50 };

function serving(options: VirtualClusterOptions = {}, ...models: string[]): VirtualCluster {
  const cluster = new VirtualCluster(options);
  for (const name of models.length === 0 ? ["fast"] : models) cluster.addModel({ ...FAST, name });
  cluster.run(seconds(2));
  return cluster;
}
const statuses = (asked: readonly Asked[]): string[] => asked.map((one) => one.outcomes.map((o) => o.status).join());
const notOk = (asked: readonly Asked[]): string[] => statuses(asked).filter((status) => status !== "ok");

function leaseOf(cluster: VirtualCluster, model: number): { batcher: ActorKey; revision: number } {
  let lease: { batcher: ActorKey; revision: number } | undefined;
  cluster.store.get(BUCKET.leases, leaseKeys.model(model), (entry) => {
    if (entry === "absent" || "failure" in entry) return;
    lease = { ...(fromJson(entry.value) as { batcher: ActorKey }), revision: entry.revision };
  });
  cluster.run(millis(1));
  return lease!;
}

test("two batchers number their batches alike, and an executor keeps them apart (T1)", () => {
  const names = Array.from({ length: 8 }, (_, i) => `model-${i}`);
  const cluster = serving({ gpus: 8, batchers: 2 }, ...names);
  const asked = names.map((name) => cluster.ask(name, { sloMs: 50 }));
  cluster.run(millis(200));
  expect(new Set(names.map((_, i) => leaseOf(cluster, i + 1).batcher)).size).toBe(2);
  expect(notOk(asked)).toEqual([]);
});

test("a model whose version changes is served again at once, however often it was offered before", () => {
  const cluster = serving({ gpus: 2 });
  cluster.load("fast", { rate: 500, duration: seconds(1), sloMs: 50 });
  cluster.store.get(BUCKET.models, "fast", (entry) => {
    if (entry === "absent" || "failure" in entry) throw new Error("no model");
    const spec = fromJson(entry.value) as ModelSpec;
    cluster.store.put(BUCKET.models, "fast", toJson({ ...spec, version: "2" }), () => undefined);
  });
  cluster.run(seconds(3));
  const after = cluster.load("fast", { rate: 100, duration: millis(500), sloMs: 50 });
  cluster.run(millis(200));
  expect(notOk(after)).toEqual([]);
});

for (const role of ["executor-0", "batcher-0", "ranker-0", "ingress"]) {
  test(`stopping ${role} while another one can take over loses and refuses nothing (T9)`, () => {
    const cluster = new VirtualCluster({ gpus: 8, executors: 2, batchers: 2, rankers: 2 });
    cluster.startIngress("ingress-1");
    for (const name of ["a", "b", "c"]) cluster.addModel({ ...FAST, name });
    cluster.run(seconds(2));
    const before = ["a", "b", "c"].flatMap((name) =>
      cluster.load(name, { rate: 400, duration: millis(200), sloMs: 200 }),
    );
    cluster.drain(role);
    const after = ["a", "b", "c"].flatMap((name) =>
      cluster.load(name, { rate: 400, duration: millis(200), sloMs: 200 }),
    );
    cluster.run(seconds(1));
    expect(notOk([...before, ...after])).toEqual([]);
  });
}

test("an ingress that hangs costs only its own rows: who shares a batch with them is in time (T8)", () => {
  const cluster = new VirtualCluster({ gpus: 4 });
  cluster.startIngress("ingress-1");
  cluster.addModel(FAST);
  cluster.run(seconds(2));
  cluster.hangData("ingress-1");
  const asked = cluster.load("fast", { rate: 1_000, duration: millis(300), sloMs: 50 });
  cluster.run(millis(300));
  const late = asked.filter((one) => one.outcomes[0]?.status !== "ok");
  // The queue group gives each ingress a half.
  expect(late.length / asked.length).toBeGreaterThan(0.4);
  expect(late.length / asked.length).toBeLessThan(0.6);
});

test("an ingress that stands still has those of its requests run again that have time left, though their batch ran without them (T9)", () => {
  const cluster = serving({ gpus: 2 });
  cluster.stallData("ingress", millis(60));
  // Both in one batch: it starts when the earlier deadline demands it.
  const [short, long] = [cluster.ask("fast", { sloMs: 30 }), cluster.ask("fast", { sloMs: 400 })];
  cluster.run(millis(500));
  expect([short, long].map(({ outcomes }) => outcomes.map(({ status }) => status).join())).toEqual([
    "TUTTI_DEADLINE_EXCEEDED",
    "ok",
  ]);
});

test("an ingress that was falsely given up is believed again with its next heartbeat (T2)", () => {
  let silent = false;
  const cluster = serving({ gpus: 2, loses: (subject) => silent && subject.includes(".beat.ingress") });
  cluster.run(millis(500));
  silent = true;
  cluster.run(millis(150));
  silent = false;
  cluster.run(millis(30));
  const asked = cluster.load("fast", { rate: 200, duration: millis(200), sloMs: 50 });
  cluster.run(millis(200));
  expect(notOk(asked)).toEqual([]);
});

test("heartbeats tell when an accelerator is free when its own report was lost", () => {
  let deaf = "";
  const cluster = new VirtualCluster({
    gpus: 1,
    rankers: 1,
    policy: { kind: "eager" },
    runTimes: () => 0.05,
    loses: (subject) => deaf !== "" && subject.endsWith(deaf),
  });
  cluster.addModel({ name: "slow", alphaMs: 1, betaMs: 199, sloMs: 900 });
  cluster.run(seconds(2));
  const first = cluster.ask("slow", { sloMs: 900 });
  cluster.run(millis(6));
  deaf = `.to.${cluster.running.get("ranker-0")!.actor.key.toString(36)}`;
  cluster.run(millis(14));
  deaf = "";
  expect(statuses([first])).toEqual(["ok"]);
  cluster.run(millis(40));
  const second = cluster.ask("slow", { sloMs: 900 });
  cluster.run(millis(400));
  expect(second.outcomes[0]!.at - second.at).toBeLessThan(millis(50));
});

test("a batch that runs longer than planned is not run a second time", () => {
  let slowness = 1;
  let runs = 0;
  const cluster = serving({
    gpus: 1,
    policy: { kind: "eager" },
    runTimes: () => slowness,
    fault: () => void runs++,
  });
  slowness = 80;
  runs = 0;
  const asked = cluster.ask("fast", { sloMs: 3_000 });
  cluster.run(seconds(4));
  expect(statuses([asked])).toEqual(["ok"]);
  expect(runs).toBe(1);
});

test("a batch for an executor that was gone before goes back when it is overdue, without questions to nobody", () => {
  let deaf = "";
  const loses = (subject: string): boolean => deaf !== "" && subject.endsWith(deaf);
  const cluster = serving({ gpus: 1, rankers: 1, policy: { kind: "eager" }, loses });
  const { key: leader } = cluster.running.get("ranker-0")!.actor;
  const batcher = cluster.running.get("batcher-0")!.actor.key;
  let epoch = 0;
  cluster.store.get(BUCKET.leases, leaseKeys.ranker("main"), (entry) => {
    if (entry !== "absent" && "revision" in entry) epoch = entry.revision;
  });
  cluster.run(millis(1));
  deaf = `.to.${leader.toString(36)}`;
  const asked = cluster.ask("fast", { sloMs: 2_000 });
  cluster.run(millis(1));
  const now = cluster.clock.now();
  const writer = new FrameWriter(leader);
  writer.add(GpuGranted, {
    ...{ thread: threadId(1, 0), gpu: gpuId(0), term: leaseOf(cluster, 1).revision, offerSeq: 1e6 },
    ...{
      executor: actorKey(77),
      epoch,
      grantSeq: 1e6,
      freeAt: now,
      sentAt: now,
      validUntil: after(now, millis(4)),
      scarcity: 0,
    },
  });
  const to = subjectsOf("main").actor(batcher);
  cluster.network.connect({ name: "leader" }).publish(to, writer.take().slice());
  const goodbye = new FrameWriter(actorKey(77));
  goodbye.add(Heartbeat, {
    ...{ key: actorKey(77), role: "executor", host: "h", pid: 1, sentAt: now, startedAt: now, leaving: true },
  });
  cluster.network.connect({ name: "gone" }).publish(to, goodbye.take().slice());
  cluster.run(millis(3));
  deaf = "";
  cluster.run(seconds(2));
  expect(statuses([asked])).toEqual(["ok"]);
  expect(asked.outcomes[0]!.at - asked.at).toBeGreaterThan(millis(50));
  expect(asked.outcomes[0]!.at - asked.at).toBeLessThan(millis(120));
});

test("packed messages of any shape stop nobody and poison nothing (T8)", () => {
  const cluster = serving({ gpus: 2, executors: 2 });
  const stranger = cluster.network.connect({ name: "stranger" });
  const { beat, actor, role } = subjectsOf("main");
  const junk: unknown[] = [undefined, null, NaN, -1, 1.5, "x", {}, [], 2 ** 60, new Uint8Array(3)];
  const keys: ActorKey[] = [...cluster.running.values()].map((one) => one.actor.key);
  const publish = (subject: string, type: MessageType<unknown>, value: unknown): void => {
    const writer = new FrameWriter(actorKey(77));
    writer.add(type, value);
    stranger.publish(subject, writer.take().slice());
  };
  const beats: Partial<Beat> = { key: actorKey(77), host: "h", pid: 1, sentAt: 1 as Instant, startedAt: 1 as Instant };
  for (const bad of junk) {
    for (const kind of ["ingress", "batcher", "ranker", "executor"] as const) {
      const good = { ...beats, role: kind, leaving: false };
      for (const field of ["key", "role", "sentAt", "epoch", "address", "arrivals", "offers", "gpus"])
        publish(beat(kind), Heartbeat, { ...good, [field]: bad });
      publish(beat(kind), Heartbeat, {
        ...good,
        offers: [{ thread: 64, batchSize: 1, term: 1e9, offerSeq: 1, execAt: bad, latest: bad, delay: bad }],
        gpus: [{ gpu: bad, freeAt: bad, epoch: bad, grantSeq: bad, serving: true, type: "emulated" }, bad],
        arrivals: [{ thread: bad, term: bad, arrivalSeq: bad }, bad],
      });
      const packed: [unknown, object][] = [
        [RankerAnnounced, { key: bad, epoch: bad, subCluster: bad }],
        [LeadExpected, { key: bad, epoch: bad, subCluster: bad }],
        [GpuJoined, { executor: actorKey(77), epoch: bad, gpus: bad }],
        [GpuJoined, { executor: actorKey(77), epoch: bad, gpus: [bad] }],
        [ExecutorLost, { executor: bad, gpus: bad, epoch: bad }],
        [IngressIntroduced, { ingress: actorKey(77), secret: bad, respond: bad }],
        [ModelReported, { executor: bad, gpus: bad, model: "fast", number: 1, version: "1", state: bad }],
        [ProfileMeasured, { executor: bad, gpu: 0, model: "fast", number: 1, bucket: bad, samples: bad }],
        [ProfileWanted, { profiler: bad, gpu: 0, model: "fast", number: 1, bucket: bad, batchSizes: bad, runs: bad }],
        [ProfileWanted, { gpu: 0, model: "fast", number: 1, bucket: 0, batchSizes: [bad], runs: bad, budget: bad }],
      ];
      for (const [type, value] of packed) {
        publish(role(kind), type as MessageType<unknown>, value);
        for (const key of keys) publish(actor(key), type as MessageType<unknown>, value);
      }
    }
  }
  cluster.run(seconds(2));
  const asked = cluster.load("fast", { rate: 200, duration: millis(500), sloMs: 50 });
  cluster.run(seconds(1));
  expect(notOk(asked)).toEqual([]);
  cluster.kill("ranker-0");
  cluster.run(millis(200));
  const after = cluster.load("fast", { rate: 200, duration: millis(500), sloMs: 50 });
  cluster.run(seconds(1));
  expect(notOk(after)).toEqual([]);
});

test("results without the token of the pull are not believed, whatever else they know (T2)", () => {
  const cluster = serving({ gpus: 1 });
  const executor = cluster.running.get("executor-0")!.actor.key;
  const batcher = cluster.running.get("batcher-0")!.actor.key;
  const asked = cluster.ask("fast", { sloMs: 50 });
  for (let i = 0; i < 1_000 && asked.outcomes.length === 0; i++) {
    cluster.run(micros(100));
    // Ids are guessed: warm-up requests come before the request, so its numbers are unknown.
    for (let batchId = 1; batchId <= 60; batchId++)
      cluster.dataOf("ingress").onResults({
        executor,
        gpu: 0,
        thread: 64,
        batchId,
        batcher,
        token: new Uint8Array(16),
        batchSize: 1,
        startedAt: cluster.clock.now(),
        finishedAt: cluster.clock.now(),
        run: millis(1),
        items: Array.from({ length: 60 }, (_, seq) => ({ seq: seq + 1, outputs: undefined, code: 1, text: "forged" })),
      });
  }
  cluster.run(millis(100));
  expect(statuses([asked])).toEqual(["ok"]);
});

test("a request that nobody answers is refused before its client gives up, however slow answers were lately (T1)", () => {
  const cluster = new VirtualCluster({ gpus: 1, respondFloor: millis(400) });
  cluster.addModel({ name: "m", alphaMs: 1, betaMs: 4, sloMs: 900 });
  cluster.run(seconds(2));
  const asked = cluster.ask("m", { sloMs: 900 });
  cluster.kill("batcher-0");
  cluster.run(seconds(2));
  expect(asked.outcomes.map(({ status }) => status)).toEqual(["TUTTI_DEADLINE_EXCEEDED"]);
  expect(asked.outcomes[0]!.at - asked.deadline).toBeLessThan(millis(60));
});
