/**
 * Operators ask about requests that were refused or answered late: whole actors in virtual time (docs/observability.md,
 * "One refused request").
 */
import { CONTENT, type RefusalsAsked, inferSubject } from "@tutti/protocol";
import { millis, seconds } from "@tutti/units";
import { expect, test } from "vitest";
import { refusalsOf } from "./refusals-told.ts";
import { VirtualCluster } from "./virtual-cluster.ts";
import type { VirtualClusterOptions } from "./virtual-cluster-options.ts";

function serving(options: VirtualClusterOptions = {}): VirtualCluster {
  const cluster = new VirtualCluster({ gpus: 2, policy: { kind: "eager" }, aloneShare: 0, ...options });
  cluster.addModel({ name: "m", alphaMs: 1, betaMs: 9, sloMs: 25, batchSizeMax: 4 });
  cluster.run(seconds(2));
  return cluster;
}

test("a request that its batcher refused is told with its ids, what it waited for, and what it would have needed", () => {
  const cluster = serving();
  const burst = Array.from({ length: 40 }, (_, i) => cluster.ask("m", { sloMs: 25, id: `r-${i}`, app: "shop" }));
  cluster.run(millis(100));
  const refused = burst.flatMap(({ outcomes: [end] }, i) => (end?.status === "ok" ? [] : [`r-${i}`]));
  expect(refused.length).toBeGreaterThan(10);
  expect(
    refusalsOf(cluster)
      .map(({ messageId }) => messageId)
      .sort(),
  ).toEqual(refused.sort());
  const [one] = refusalsOf(cluster, { request: refused[0]! });
  const index = Number(refused[0]!.slice(2));
  const [outcome] = burst[index]!.outcomes;
  expect(one).toMatchObject({ model: "m", app: "shop", slo: 25_000, messageId: refused[0] });
  expect(one!.refusal).toMatchObject({ by: "batcher", code: outcome!.status, text: outcome!.text });
  expect(one!.queue).toMatchObject({ waitedFor: "accelerator", inFlight: 2, accelerators: 2, idle: 0 });
  // l(1) is 10 ms; the rest is delays.
  expect(one!.queue!.alone).toBeGreaterThanOrEqual(10_000);
  expect(one!.queue!.alone).toBeLessThan(15_000);
  expect(one!.refusal!.feasible).toBeGreaterThan(25_000);
  expect(outcome!.at - burst[index]!.at).toBeGreaterThanOrEqual(one!.waited);
});

test("what the ingress refuses by itself is told as its own, with the least SLO where time was the cause", () => {
  const cluster = serving();
  cluster.ask("m", { sloMs: 2, id: "short" });
  cluster.ask("nobody", { id: "unknown" });
  cluster.run(millis(50));
  const [short] = refusalsOf(cluster, { request: "short" });
  expect(short).toMatchObject({ slo: 2_000, refusal: { by: "ingress", code: "TUTTI_DEADLINE_INFEASIBLE" } });
  expect(short!.refusal!.feasible).toBeGreaterThanOrEqual(10_000);
  const inSteps = cluster.ask("m", { sloMs: 2, costs: "2ms=1, 4ms=3", id: "steps" });
  cluster.run(millis(50));
  expect(inSteps.outcomes[0]!.text).toContain("can't meet 4 ms");
  expect(refusalsOf(cluster, { request: "steps" })).toMatchObject([{ slo: 4_000 }]);
  expect(refusalsOf(cluster, { model: "nobody" })).toMatchObject([
    { messageId: "unknown", refusal: { code: "TUTTI_NOT_FOUND" } },
  ]);
});

test("inputs that can't be read are in no answer to an operator, though their publishers are told what is wrong", () => {
  const cluster = serving();
  const secret = "s3cret";
  const tensor = { name: "x", datatype: "FP32", shape: [1, 1], data: [1] };
  const bodies: unknown[] = [
    ...[secret, [secret], { inputs: secret }, { inputs: [secret] }, { inputs: [tensor], id: { secret } }],
    ...[
      { data: [secret] },
      { data: secret },
      { data: [[secret]] },
      { datatype: secret },
      { shape: [secret] },
      { name: secret },
    ].map((fault) => ({ inputs: [{ ...tensor, ...fault }] })),
    ...[{ outputs: [secret] }, { outputs: secret }, { parameters: secret }].map((fault) => ({
      ...{ inputs: [tensor], ...fault },
    })),
  ];
  const publisher = cluster.network.connect({ name: "publisher" });
  const reply = publisher.newInbox();
  const answers: string[] = [];
  publisher.subscribe(reply, ({ payload }) => void answers.push(new TextDecoder().decode(payload)));
  const json = { "Content-Type": CONTENT.json };
  const texts = [...bodies.map((body) => JSON.stringify(body)), secret, `{"inputs": ${secret}`];
  for (const text of texts)
    publisher.publish(inferSubject("m", "shop"), new TextEncoder().encode(text), { reply, headers: json });
  cluster.run(millis(100));
  expect(answers.length).toBe(texts.length);
  expect(answers.filter((answer) => answer.includes(secret)).length).toBeGreaterThan(3);
  const told = refusalsOf(cluster, { app: "shop" });
  expect(told.map(({ refusal }) => refusal?.code)).toEqual(Array(texts.length).fill("TUTTI_INVALID_INPUT"));
  expect(JSON.stringify(told)).not.toContain(secret);
});

test("in a flood most refusals are the ingress's, by share, and push out neither the batcher's nor another application's", () => {
  const cluster = serving({ policy: { kind: "adaptive" } });
  for (let ms = 0; ms < 1_500; ms++) {
    for (let i = 0; i < 8; i++) cluster.ask("m", { sloMs: 25, app: "wild" });
    if (ms % 4 === 0) cluster.ask("m", { sloMs: 25, app: "quiet", id: `q-${ms}` });
    cluster.run(millis(1));
  }
  cluster.run(millis(200));
  const refusers = (question: Partial<RefusalsAsked>) =>
    new Set(refusalsOf(cluster, question).map(({ refusal }) => refusal!.by));
  // The burst that is kept begins before the ingress refuses by share, and the batcher goes on with a few.
  const newest = refusalsOf(cluster, { app: "wild", cause: "TUTTI_OVERLOADED" });
  expect(newest).toHaveLength(100);
  expect(newest.filter(({ refusal }) => refusal!.by === "ingress").length).toBeGreaterThan(90);
  expect(refusers({ app: "wild", cause: "TUTTI_DEADLINE_INFEASIBLE" })).toEqual(new Set(["batcher"]));
  expect(refusalsOf(cluster, { app: "quiet" }).length).toBeGreaterThan(0);
});

test("a late answer is told with its batch", () => {
  let stretch = 1;
  const cluster = serving({ runTimes: () => stretch });
  stretch = 2;
  const late = cluster.ask("m", { sloMs: 18, costs: "18ms=1, 60ms=3", id: "late" });
  cluster.run(millis(100));
  expect(late.outcomes[0]!.status).toBe("ok");
  expect(late.outcomes[0]!.at).toBeGreaterThan(late.deadline);
  const [told] = refusalsOf(cluster, { cause: "LATE" });
  expect(told).toMatchObject({ messageId: "late", slo: 18_000, batch: { size: 1 } });
  expect(told!.lateBy).toBe(told!.waited - 18_000);
  expect(told!.batch!.finishedAt - told!.batch!.startedAt).toBe(20_000);
});

test("a request whose time is over without a result was refused by its ingress", () => {
  const cluster = serving({ gpus: 1 });
  cluster.hangData("ingress");
  cluster.ask("m", { sloMs: 25, id: "lost" });
  cluster.run(millis(200));
  expect(refusalsOf(cluster)).toMatchObject([
    { messageId: "lost", refusal: { by: "ingress", code: "TUTTI_DEADLINE_EXCEEDED" } },
  ]);
});

test("requests that were answered in time or cancelled are not there", () => {
  const cluster = serving();
  cluster.ask("m", { sloMs: 50 });
  cluster.cancel(cluster.ask("m", { sloMs: 50 }));
  cluster.run(millis(100));
  expect(cluster.asked.map(({ outcomes }) => outcomes[0]?.status).sort()).toEqual(["TUTTI_CANCELLED", "ok"]);
  expect(refusalsOf(cluster)).toEqual([]);
});
