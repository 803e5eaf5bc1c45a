/**
 * Families in virtual time: variants share batches and answer for themselves (docs/families.md; docs/algorithms.md,
 * C7).
 */
import { BUCKET, type FamilySpec, type ModelSpec, variantInput } from "@tutti/protocol";
import { type Micros, micros, millis, seconds } from "@tutti/units";
import { toJson } from "@tutti/wire";
import { expect, test } from "vitest";
import { type EchoAnswer, echoModel } from "../fixtures/actor-cluster/echo-model.ts";
import { VirtualCluster } from "./virtual-cluster.ts";
import type { Asked, VirtualClusterOptions } from "./virtual-cluster-options.ts";

const PREFIX = { alphaMs: 0.2, betaMs: 14 };
const SUFFIX = { alphaMs: 0.01, betaMs: 0.2 };
const SLO_MS = 40;

/** l(b) of the family when a batch has as many variants as it can (C7). */
const latencyOf =
  (count: number) =>
  (b: number): Micros =>
    millis(PREFIX.alphaMs * b + PREFIX.betaMs + SUFFIX.alphaMs * b + SUFFIX.betaMs * Math.min(b, count));

function familyOf(names: readonly string[], more: Partial<ModelSpec> = {}): ModelSpec {
  const slo = millis(SLO_MS);
  const plain = echoModel({ name: "heads", number: 900, slo, batchSizeMax: 32, latency: latencyOf(names.length) });
  const variants = names.map((name): FamilySpec["variants"][number] => ({
    ...{ name, version: "1", slo },
    outputs: [{ name: `y of ${name}`, type: "FP32", dims: ["batch", 1] }],
  }));
  const family = { variants, pace: { prefix: PREFIX, suffix: SUFFIX } };
  return { ...plain, inputs: [...plain.inputs, variantInput()], outputs: [], family, ...more };
}
const put = (cluster: VirtualCluster, spec: ModelSpec): void =>
  cluster.store.put(BUCKET.models, spec.name, toJson(spec), () => undefined);

const NAMES = Array.from({ length: 5 }, (_, i) => `head-${i}`);
function serving(options: VirtualClusterOptions = {}): VirtualCluster {
  const cluster = new VirtualCluster(options);
  put(cluster, familyOf(NAMES));
  cluster.run(seconds(2));
  return cluster;
}
const outputOf = (outcome: Partial<EchoAnswer> | undefined): string | undefined => outcome?.output;
/** T1 and T2: each request has one answer, computed from its own row in the name of its own model. */
function checkAnswers(asked: readonly Asked[], output: string): void {
  for (const one of asked) {
    expect(one.outcomes.length, `request ${one.value} asked at ${one.at}`).toBe(1);
    const [outcome] = one.outcomes;
    if (outcome?.status === "ok") expect([outcome.value, outputOf(outcome)]).toEqual([Math.fround(one.value), output]);
  }
}
const good = (asked: readonly Asked[]): number =>
  asked.filter(({ outcomes: [outcome], deadline }) => outcome?.status === "ok" && outcome.at <= deadline).length /
  asked.length;

/** Requests for all variants at once, in turn. */
function loadAll(cluster: VirtualCluster, names: readonly string[], rate: number, duration: Micros): Asked[][] {
  const asked: Asked[][] = names.map(() => []);
  const count = Math.floor((rate * duration) / 1e6);
  for (let i = 0; i < count; i++) {
    asked[i % names.length]!.push(cluster.ask(names[i % names.length]!, { sloMs: SLO_MS }));
    cluster.run(micros(Math.round(1e6 / rate)));
  }
  cluster.run(millis(200));
  return asked;
}

test("each variant of a family is asked under its own name and answers with its own output (T1, T2)", () => {
  const cluster = serving();
  for (const name of NAMES) {
    const asked = cluster.ask(name, { sloMs: SLO_MS });
    cluster.run(millis(100));
    expect(asked.outcomes).toMatchObject([{ status: "ok", output: `y of ${name}`, value: asked.value }]);
  }
});

test("five variants share two accelerators at a rate that they can't carry one by one, and nobody gets another's answer", () => {
  const rate = 1_000;
  const shared = serving({ gpus: 2 });
  const asked = loadAll(shared, NAMES, rate, seconds(2));
  asked.forEach((own, i) => checkAnswers(own, `y of ${NAMES[i]!}`));
  expect(Math.min(...asked.map(good))).toBeGreaterThan(0.97);

  const apart = new VirtualCluster({ gpus: 2 });
  for (const name of NAMES)
    apart.addModel({
      name,
      sloMs: SLO_MS,
      ...{ alphaMs: PREFIX.alphaMs + SUFFIX.alphaMs, betaMs: PREFIX.betaMs + SUFFIX.betaMs },
    });
  apart.run(seconds(2));
  const alone = loadAll(apart, NAMES, rate, seconds(2)).map(good);
  expect(alone.reduce((a, b) => a + b, 0) / alone.length).toBeLessThan(0.9);
});

test("a family is no model to ask: who does learns the name of one that is", () => {
  const cluster = serving();
  const asked = cluster.ask("heads");
  cluster.run(millis(100));
  const text = '"heads" is a family of models: ask for one of them, such as "head-0"';
  expect(asked.outcomes).toMatchObject([{ status: "TUTTI_NOT_FOUND", text }]);
});

test("models become a family and models again under load, and no request is refused or lost by it", () => {
  const cluster = new VirtualCluster({ gpus: 4 });
  const names = NAMES.slice(0, 2);
  for (const name of names) cluster.addModel({ name, sloMs: SLO_MS, alphaMs: 0.2, betaMs: 14 });
  cluster.run(seconds(2));
  const before = loadAll(cluster, names, 200, seconds(1)).flat();
  put(cluster, familyOf(names));
  const during = loadAll(cluster, names, 200, seconds(3)).flat();
  // The old models go only once the requests for them are answered.
  for (const name of names) cluster.store.delete(BUCKET.models, name, () => undefined);
  const after = loadAll(cluster, names, 200, seconds(2)).flat();
  for (const name of names) cluster.addModel({ name, sloMs: SLO_MS, alphaMs: 0.2, betaMs: 14 });
  cluster.store.delete(BUCKET.models, "heads", () => undefined);
  const all = [...before, ...during, ...after];
  for (const one of all) expect(one.outcomes.length).toBe(1);
  expect(all.filter(({ outcomes: [outcome] }) => outcome?.status !== "ok")).toEqual([]);
  expect(before.every(({ outcomes: [outcome] }) => outputOf(outcome) === undefined)).toBe(true);
  expect(after.every(({ outcomes: [outcome] }) => outputOf(outcome) !== undefined)).toBe(true);
});

test("a family grows into a larger one under load, and no request is refused or lost by it", () => {
  const cluster = new VirtualCluster({ gpus: 4 });
  const names = NAMES.slice(0, 2);
  put(cluster, familyOf(names));
  cluster.run(seconds(2));
  const before = loadAll(cluster, names, 125, seconds(1)).flat();
  put(cluster, familyOf(NAMES.slice(0, 3), { name: "more", number: 950 }));
  const during = loadAll(cluster, names, 125, seconds(3)).flat();
  cluster.store.delete(BUCKET.models, "heads", () => undefined);
  const after = loadAll(cluster, NAMES.slice(0, 3), 125, seconds(2)).flat();
  const all = [...before, ...during, ...after];
  for (const one of all) expect(one.outcomes.length).toBe(1);
  expect(all.filter(({ outcomes: [outcome] }) => outcome?.status !== "ok")).toEqual([]);
});

test("a batcher and an executor die while a family is served, and every request still has its one answer (T1)", () => {
  const cluster = serving({ gpus: 4, executors: 2, batchers: 2 });
  const asked = [cluster.load("head-0", { rate: 200, duration: millis(300), sloMs: 100 })];
  cluster.kill("executor-0");
  asked.push(cluster.load("head-3", { rate: 200, duration: millis(300), sloMs: 100 }));
  cluster.kill("batcher-0");
  asked.push(cluster.load("head-3", { rate: 200, duration: millis(500), sloMs: 100 }));
  cluster.run(seconds(1));
  checkAnswers(asked[0]!, "y of head-0");
  for (const own of asked.slice(1)) checkAnswers(own, "y of head-3");
  expect(good(asked[2]!)).toBeGreaterThan(0.8);
});

test("a family whose spec is damaged serves nobody and disturbs nobody (T8)", () => {
  const cluster = serving();
  const spec = familyOf(["x-0", "x-1"], { name: "broken", number: 901 });
  const family = { ...spec.family, variants: [{ ...spec.family!.variants[0]!, outputs: "all" }] };
  put(cluster, { ...spec, family } as unknown as ModelSpec);
  cluster.run(seconds(1));
  const [lost, kept] = [cluster.ask("x-0"), cluster.ask("head-0")];
  cluster.run(millis(100));
  expect(lost.outcomes).toMatchObject([{ status: "TUTTI_NOT_FOUND" }]);
  expect(kept.outcomes).toMatchObject([{ status: "ok" }]);
});
