/** Pipelines as targets, on whole clusters in virtual time. */
import type { PipelineSpec } from "@tutti/pipelines";
import { RecordingTelemetry } from "@tutti/ports/telemetry";
import { type StepInput, type Tensors, inlineSteps } from "@tutti/ports/steps";
import { type Instant, millis, seconds } from "@tutti/units";
import { expect, test } from "vitest";
import { findAndRead, scalar } from "./find-and-read.ts";
import { refusalsOf } from "./refusals-told.ts";
import { VirtualCluster } from "./virtual-cluster.ts";
import type { Asked, VirtualClusterOptions } from "./virtual-cluster-options.ts";

const valueOf = (tensors: Tensors | undefined, name: string): number => Number(tensors?.[name]?.data[0]);

const STEPS = {
  models: ["first", "second"],
  before: ["./duo.ts#toFirst", "./duo.ts#toSecond"],
  finish: "./duo.ts#toAnswer",
} as const;
/**
 * A chain: the second stage gets as many requests as the last digit of the publisher's number. The answer is ten times
 * the number of results, plus the kept value.
 */
const DUO = findAndRead({ name: "duo", slo: "200ms", ...STEPS });
/** The same, and a branch beside the second stage. */
const FORK = findAndRead({
  ...{ name: "fork", slo: "300ms", ...STEPS },
  more: [{ name: "right", model: "first", after: ["find"], before: "./duo.ts#toRight" }],
});

interface Serving {
  readonly cluster: VirtualCluster;
  /** Times of the functions' calls. */
  readonly calls: { readonly name: string; readonly at: Instant }[];
}
function serving(
  options: VirtualClusterOptions & { specs?: readonly PipelineSpec[]; secondMs?: number } = {},
): Serving {
  const calls: { name: string; at: Instant }[] = [];
  const called = (name: string): void => void calls.push({ name, at: cluster.clock.now() });
  const steps = inlineSteps({
    "./duo.ts#toFirst": ({ input }: StepInput) => {
      called("toFirst");
      return { requests: scalar(valueOf(input, "x")), keep: { seven: 7 } };
    },
    "./duo.ts#toSecond": ({ stages, kept }: StepInput) => {
      called("toSecond");
      const value = valueOf(stages["find"]![0], "y");
      if (value >= 900) throw new Error(`${value} is too much`);
      expect(kept["find"]).toEqual({ seven: 7 });
      return Array.from({ length: value % 10 }, (_, i) => scalar(1000 + i));
    },
    "./duo.ts#toRight": () => scalar(5),
    "./duo.ts#toAnswer": ({ stages, kept }: StepInput) => {
      called("toAnswer");
      const all = [...(stages["read"] ?? []), ...(stages["right"] ?? [])];
      return scalar(10 * all.length + (kept["find"] as { seven: number }).seven, "y");
    },
  });
  const { specs = [DUO, FORK], secondMs = 5, ...rest } = options;
  const cluster = new VirtualCluster({ gpus: 2, ...rest, pipelines: { specs, steps, instancesMax: 50 } });
  cluster.addModel({ name: "first", alphaMs: 1, betaMs: 4, sloMs: 100 });
  cluster.addModel({ name: "second", alphaMs: 1, betaMs: secondMs, sloMs: 500 });
  cluster.run(seconds(2));
  return { cluster, calls };
}
const statuses = (asked: readonly Asked[]): string[] => asked.map((one) => one.outcomes.map((o) => o.status).join());
const figures = (asked: readonly Asked[]): number[] => asked.map((one) => one.outcomes[0]?.value ?? NaN);

test("a pipeline is asked like a model: fan-out of none, one and three, one answer each within the SLO", () => {
  const { cluster } = serving();
  const asked = [20, 21, 23].map((value) => cluster.ask("duo", { sloMs: 200, value }));
  cluster.run(millis(400));
  expect(statuses(asked)).toEqual(["ok", "ok", "ok"]);
  expect(figures(asked)).toEqual([7, 17, 37]);
  for (const one of asked) expect(one.outcomes[0]!.at).toBeLessThanOrEqual(one.deadline);
});

test("a pipeline's trace has no gap between its stages: each function has a span", () => {
  const traces = new RecordingTelemetry();
  const { cluster } = serving({ telemetry: () => traces });
  cluster.ask("duo", { sloMs: 200, value: 21 });
  cluster.run(millis(400));
  const [whole] = traces.spansNamed("infer duo");
  const parts = traces.spans.filter(({ options }) => options.parent?.spanId === whole!.context.spanId);
  parts.sort((a, b) => a.options.at - b.options.at || a.endedAt! - b.endedAt!);
  const names = ["prepare find", "stage find", "prepare read", "stage read", "finish"];
  expect(parts.map(({ name }) => name).sort()).toEqual(names.toSorted());
  let at = whole!.options.at;
  for (const name of names) {
    const part = parts.find((one) => one.name === name)!;
    expect([name, part.options.at - at]).toEqual([name, 0]);
    at = part.endedAt!;
  }
  expect(whole!.endedAt).toBe(at);
});

test("branches run side by side, and the answer waits for both", () => {
  const { cluster } = serving();
  const asked = [20, 23].map((value) => cluster.ask("fork", { sloMs: 300, value }));
  cluster.run(millis(500));
  expect(figures(asked)).toEqual([17, 47]);
});

test("each stage has until its share of the SLO: the first does not take the second's time, and slack is handed on", () => {
  const even = { ...DUO, split: "even" as const };
  const { cluster, calls } = serving({ specs: [even], policy: { kind: "deferred" }, gpus: 1 });
  const asked = cluster.ask("duo", { sloMs: 200, value: 21 });
  cluster.run(millis(400));
  const at = (name: string): number => (calls.find((one) => one.name === name)!.at - asked.at) / 1000;
  // A single deferred request runs as late as it may: the first stage until half of the time, the second until the end.
  expect(at("toSecond")).toBeGreaterThan(60);
  expect(at("toSecond")).toBeLessThanOrEqual(100);
  expect(at("toAnswer")).toBeGreaterThan(150);
  expect(at("toAnswer")).toBeLessThanOrEqual(200);
  expect(statuses([asked])).toEqual(["ok"]);
});

test("with the planned split a stage whose model takes ten times as long has more of the time", () => {
  const { cluster, calls } = serving({ specs: [DUO], policy: { kind: "deferred" }, gpus: 1, secondMs: 50 });
  const asked = cluster.ask("duo", { sloMs: 200, value: 21 });
  cluster.run(millis(400));
  const toSecond = calls.find((one) => one.name === "toSecond")!;
  expect((toSecond.at - asked.at) / 1000).toBeLessThan(75);
  expect(statuses([asked])).toEqual(["ok"]);
});

test("a refusal at the second stage refuses the whole at once and says which stage", () => {
  const { cluster } = serving({ specs: [DUO], secondMs: 195 });
  const asked = cluster.ask("duo", { sloMs: 200, value: 23 });
  cluster.run(millis(400));
  expect(statuses([asked])).toEqual(["TUTTI_DEADLINE_INFEASIBLE"]);
  expect(asked.outcomes[0]!.text).toMatch(/^stage read: "second" can't meet/);
  expect(asked.outcomes[0]!.at).toBeLessThan(asked.deadline);
});

test("operators are told both the refused request to a pipeline and the stage's that was refused, by one id", () => {
  const { cluster } = serving({ specs: [DUO], secondMs: 195 });
  cluster.ask("duo", { sloMs: 200, value: 21, id: "page-3" });
  cluster.run(millis(400));
  const [whole, stage] = refusalsOf(cluster, { request: "page-3" });
  expect(whole).toMatchObject({ model: "duo", slo: 200_000, refusal: { code: "TUTTI_DEADLINE_INFEASIBLE" } });
  expect(stage).toMatchObject({ model: "second", pipeline: "duo", refusal: { code: "TUTTI_DEADLINE_INFEASIBLE" } });
  expect(stage!.refusal!.feasible).toBeGreaterThan(195_000);
  expect(refusalsOf(cluster, { model: "duo" })).toHaveLength(2);
});

test("a function that fails refuses with its name, and the pipeline goes on serving", () => {
  const { cluster } = serving();
  const asked = [901, 21].map((value) => cluster.ask("duo", { sloMs: 200, value }));
  cluster.run(millis(400));
  expect(statuses(asked)).toEqual(["TUTTI_INTERNAL", "ok"]);
  expect(asked[0]!.outcomes[0]!.text).toBe(`stage read: ./duo.ts#toSecond of pipeline "duo" failed: 901 is too much`);
  const told = refusalsOf(cluster, { cause: "TUTTI_INTERNAL" });
  expect(told).toHaveLength(1);
  expect(JSON.stringify(told)).not.toContain("is too much");
});

test("a stage whose model is not there refuses the whole before anything runs, and names it", () => {
  const spec = { ...DUO, stages: [DUO.stages[0]!, { ...DUO.stages[1]!, model: "third" }] };
  const { cluster, calls } = serving({ specs: [spec] });
  const asked = cluster.ask("duo", { sloMs: 200, value: 21 });
  cluster.run(millis(100));
  expect(statuses([asked])).toEqual(["TUTTI_NOT_READY"]);
  expect(asked.outcomes[0]!.text).toMatch(/^stage read: its model "third" is not loaded/);
  expect(calls).toEqual([]);
});

test("a publisher takes back the whole, at whatever stage it is, and nothing of it is held any longer", () => {
  for (const wait of [5, 120]) {
    const { cluster } = serving({ policy: { kind: "deferred" }, gpus: 1 });
    const asked = cluster.ask("duo", { sloMs: 200, value: 23 });
    cluster.run(millis(wait));
    cluster.cancel(asked, "stranger");
    cluster.run(millis(2));
    expect(statuses([asked])).toEqual([""]);
    cluster.cancel(asked);
    cluster.run(millis(2));
    expect(statuses([asked])).toEqual(["TUTTI_CANCELLED"]);
    let drained = false;
    cluster.running.get("ingress")!.actor.drain(() => (drained = true));
    cluster.run(millis(500));
    expect(drained).toBe(true);
    expect(asked.outcomes).toHaveLength(1);
  }
});

test("an ingress that is drained answers what it has begun, to the last stage", () => {
  const { cluster } = serving();
  const asked = [21, 23].map((value) => cluster.ask("duo", { sloMs: 200, value }));
  cluster.run(millis(2));
  cluster.drain("ingress");
  cluster.run(millis(600));
  expect(statuses(asked)).toEqual(["ok", "ok"]);
});

test.each(["batcher-0", "executor-0"])(
  "%s is killed while pipelines run: each request has exactly one answer (T1)",
  (victim) => {
    const { cluster } = serving({ batchers: 2, executors: 2, gpus: 2 });
    const asked: Asked[] = [];
    for (let i = 0; i < 60; i++) {
      asked.push(cluster.ask(i % 2 === 0 ? "duo" : "fork", { sloMs: 300, value: 20 + (i % 4) }));
      cluster.run(millis(5));
      if (i === 30) cluster.kill(victim);
    }
    cluster.run(seconds(2));
    for (const one of asked) expect(one.outcomes).toHaveLength(1);
    expect(asked.filter((one) => one.outcomes[0]!.status === "ok").length).toBeGreaterThan(45);
  },
);

test("when nothing answers any more, the timer does: at the deadline, once, and it says what was not done (T1)", () => {
  const { cluster } = serving({ executors: 1, gpus: 1 });
  const asked = [21, 23].map((value) => cluster.ask("duo", { sloMs: 200, value }));
  cluster.run(millis(2));
  cluster.kill("batcher-0");
  cluster.kill("executor-0");
  cluster.run(seconds(1));
  for (const one of asked) {
    expect(one.outcomes).toHaveLength(1);
    expect(one.outcomes[0]!.status).not.toBe("ok");
    expect(one.outcomes[0]!.text).toMatch(/^stage find: |find was not done$/);
    expect(one.outcomes[0]!.at).toBeLessThanOrEqual(one.deadline + millis(20));
  }
});

test("a request to a pipeline counts as itself and those of its stages, and not as what they answered too", () => {
  const { cluster } = serving({ specs: [DUO], held: { requestsMax: 6 }, policy: { kind: "deferred" }, gpus: 1 });
  const asked = Array.from({ length: 3 }, () => cluster.ask("duo", { sloMs: 200, value: 21 }));
  cluster.run(millis(130));
  const refused = [cluster.ask("duo", { sloMs: 200, value: 21 })];
  cluster.run(millis(300));
  expect(statuses(asked)).toEqual(["ok", "ok", "ok"]);
  // Each has one under way at either stage.
  expect(statuses(refused)).toEqual(["TUTTI_OVERLOADED"]);
  expect(refused[0]!.outcomes[0]!.text).toContain("this ingress holds 6 requests and takes no more");
});

test("no more requests to pipelines are under way than the limit says; one more is refused as overload (T7)", () => {
  const { cluster } = serving({ policy: { kind: "deferred" } });
  const asked = Array.from({ length: 60 }, () => cluster.ask("duo", { sloMs: 200, value: 21 }));
  cluster.run(millis(10));
  const refused = asked.filter((one) => one.outcomes[0]?.status === "TUTTI_OVERLOADED");
  expect(refused).toHaveLength(10);
  expect(refused[0]!.outcomes[0]!.text).toContain("PIPELINE_INSTANCES_MAX");
  cluster.run(millis(500));
  for (const one of asked) expect(one.outcomes).toHaveLength(1);
  expect(statuses([cluster.ask("duo", { sloMs: 200, value: 21 })])).toEqual([""]);
  cluster.run(millis(400));
  expect(cluster.asked.at(-1)!.outcomes[0]!.status).toBe("ok");
});
