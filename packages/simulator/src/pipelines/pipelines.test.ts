import fc from "fast-check";
import { expect, test } from "vitest";
import { LatencyTable } from "@tutti/profile";
import { type Micros, micros, millis, seconds } from "@tutti/units";
import { type GoodputBound, boundOf } from "../bounds/bounds.ts";
import { goodput } from "../goodput.ts";
import { type RunListener, simulate, simulateDetailed } from "../run.ts";
import type { Scenario, ScenarioModel, ScenarioPipeline, ScenarioStage } from "../scenario/scenario.ts";
import type { SimRequest } from "../cluster/simulated-cluster.ts";
import { planPipeline } from "./pipeline-plan.ts";

const model = (name: string, alphaMs: number, betaMs: number, batchMax = 64): ScenarioModel => ({
  name,
  profile: LatencyTable.affine({ alpha: alphaMs * 1000, beta: betaMs * 1000, batchSizeMax: batchMax }),
  slo: millis(1000),
  classes: [],
  share: 0,
});
const stage = (name: string, at: number, after: string[] = [], fanOut = 1): ScenarioStage => ({
  name,
  model: at,
  after,
  fanOut,
  step: 0 as Micros,
});
const pipeline = (
  stages: readonly ScenarioStage[],
  sloMs: number,
  split: ScenarioPipeline["split"] = "planned",
): ScenarioPipeline => ({ name: "pipe", slo: millis(sloMs), share: 1, split, stages });

const scenarioOf = (
  models: readonly ScenarioModel[],
  pipelines: readonly ScenarioPipeline[],
  more: Partial<Scenario> = {},
): Scenario => ({
  seed: 1,
  duration: seconds(6),
  warmup: seconds(1),
  gpus: 4,
  policy: "default",
  gather: "target",
  rate: 100,
  arrivals: { process: "poisson" },
  network: { ctrl: 0 as Micros, data: 0 as Micros, respond: 0 as Micros, jitter: 0 },
  models,
  phases: [],
  pipelines,
  ...more,
});

const two = [model("detect", 4, 10), model("read", 1, 5)];
const detectThenRead = (fanOut: number, sloMs = 200, split?: "planned" | "even"): ScenarioPipeline =>
  pipeline([stage("detect", 0), stage("read", 1, ["detect"], fanOut)], sloMs, split);

/** Every request by its model, and how it ended. */
class Watch implements RunListener {
  readonly arrivedBy = [0, 0, 0, 0];
  readonly ended = new Map<number, string>();
  readonly deadlines: SimRequest[] = [];
  arrived(request: SimRequest): void {
    this.arrivedBy[request.model]!++;
    this.deadlines.push(request);
  }
  refused({ id }: SimRequest, cause: string): void {
    expect(this.ended.has(id)).toBe(false);
    this.ended.set(id, cause);
  }
  finished(
    { requests }: { readonly requests: readonly SimRequest[] },
    _b: number,
    _e: number,
    completed: boolean,
  ): void {
    if (!completed) return;
    for (const { id } of requests) {
      expect(this.ended.has(id)).toBe(false);
      this.ended.set(id, "ran");
    }
  }
}

test("a light load is served in full, each request with as many of the second stage as its fan-out says", () => {
  const watch = new Watch();
  const result = simulate(scenarioOf(two, [detectThenRead(2.5)]), { listener: watch });
  const [pipe] = result.pipelines!;
  expect(pipe).toMatchObject({ name: "pipe", badRate: 0 });
  expect(result.offeredRps).toBe(pipe!.offeredRps);
  expect(result.offeredRps).toBeGreaterThan(80);
  expect(watch.arrivedBy[1]! / watch.arrivedBy[0]!).toBeCloseTo(2.5, 0);
  expect([...watch.ended.values()].every((end) => end === "ran")).toBe(true);
  expect(pipe!.p50Ms!).toBeGreaterThan(14 + 6);
});

test("a filter that lets one in ten through leaves the others answered after the first stage", () => {
  const watch = new Watch();
  const { pipelines } = simulate(scenarioOf(two, [detectThenRead(0.1)]), { listener: watch });
  expect(pipelines![0]!.badRate).toBe(0);
  expect(watch.arrivedBy[1]! / watch.arrivedBy[0]!).toBeGreaterThan(0.05);
  expect(watch.arrivedBy[1]! / watch.arrivedBy[0]!).toBeLessThan(0.2);
});

test("deadlines of a stage count from the pipeline's arrival, so what the first one saves is the second one's", () => {
  const watch = new Watch();
  const scenario = scenarioOf(two, [detectThenRead(1)], { rate: 20 });
  simulate(scenario, { listener: watch });
  const { ends } = planPipeline(scenario.pipelines![0]!, two);
  const first = watch.deadlines.filter((request) => request.model === 0);
  const second = watch.deadlines.filter((request) => request.model === 1);
  for (const { arrivedAt, deadline } of first) expect(deadline - arrivedAt).toBe(ends.get("detect"));
  const wholes = new Set(first.map(({ arrivedAt }) => arrivedAt + ends.get("read")!));
  for (const { deadline } of second) expect(wholes.has(deadline as number)).toBe(true);
  expect(ends.get("read")).toBe(millis(200));
  // Saved time: they came before the first stage had to have ended.
  for (const { arrivedAt, deadline } of second)
    expect(deadline - arrivedAt).toBeGreaterThan(millis(200) - ends.get("detect")!);
});

test("a fork and a join have one answer, after all of the branches", () => {
  const models = [model("a", 1, 5), model("b", 1, 5), model("c", 1, 50), model("d", 1, 5)];
  const stages = [stage("a", 0), stage("b", 1, ["a"]), stage("c", 2, ["a"], 2), stage("d", 3, ["b", "c"])];
  const { pipelines } = simulate(scenarioOf(models, [pipeline(stages, 400)], { rate: 20 }));
  expect(pipelines![0]).toMatchObject({ badRate: 0 });
  expect(pipelines![0]!.p50Ms!).toBeGreaterThan(6 + 51 + 6);
});

test("overload refuses wholes: what a refusal leaves in queues is withdrawn, and the stage that refused is named", () => {
  const watch = new Watch();
  const scenario = scenarioOf(two, [detectThenRead(10)], { rate: 600 });
  const { pipelines, offeredRps, goodRps } = simulate(scenario, { listener: watch });
  const [pipe] = pipelines!;
  expect(pipe!.badRate).toBeGreaterThan(0.05);
  expect(goodRps).toBeLessThan(offeredRps);
  const refused = pipe!.refusedAt.reduce((sum, { share }) => sum + share, 0);
  expect(refused).toBeCloseTo(pipe!.badRate, 2);
  const causes = new Set(watch.ended.values());
  expect(causes).toContain("withdrawn");
  expect(watch.ended.size).toBe(watch.deadlines.length);
});

test("models asked directly and pipelines share accelerators, and totals count publishers' requests", () => {
  const models = [{ ...two[0]!, share: 0.5, slo: millis(100) }, two[1]!];
  const scenario = scenarioOf(models, [{ ...detectThenRead(2), share: 0.5 }], { rate: 200 });
  const { result, streams } = simulateDetailed(scenario);
  expect(streams.map((one) => one.model)).toEqual([0, 2]);
  const direct = result.models[0]!.offeredRps - result.pipelines![0]!.offeredRps;
  expect(result.offeredRps).toBeCloseTo(direct + result.pipelines![0]!.offeredRps, 6);
  expect(result.badRate).toBeLessThan(0.01);
});

test(
  "every request of every stage ends once, whatever the graph, the load, the network and the policy",
  { timeout: 60_000 },
  () => {
    const policies = ["default", "deferred", "eager", "nexus", "clockwork", "clipper", "triton", "shepherd"];
    const arbitrary = fc.record({
      seed: fc.nat(1000),
      policy: fc.constantFrom(...policies),
      rate: fc.integer({ min: 20, max: 900 }),
      fanOut: fc.constantFrom(0.1, 1, 2.3, 10),
      split: fc.constantFrom("planned" as const, "even" as const),
      respond: fc.constantFrom(0, 300),
      arrive: fc.constantFrom(0, 200),
      shape: fc.constantFrom("chain", "fork"),
      stepMs: fc.constantFrom(0, 3),
    });
    fc.assert(
      fc.property(arbitrary, ({ seed, policy, rate, fanOut, split, respond, arrive, shape, stepMs }) => {
        const models = [model("a", 2, 6), model("b", 1, 4), model("c", 1, 8), model("d", 1, 5)];
        const chain = [stage("a", 0), { ...stage("b", 1, ["a"], fanOut), step: millis(stepMs) }];
        const fork = [...chain, stage("c", 2, ["a"]), stage("d", 3, ["b", "c"])];
        const watch = new Watch();
        const scenario = scenarioOf(models, [pipeline(shape === "chain" ? chain : fork, 150, split)], {
          ...{ seed, policy, rate, duration: seconds(1), warmup: 0 as Micros },
          network: { ctrl: micros(50), data: micros(5), respond: micros(respond), jitter: 0, arrive: micros(arrive) },
        });
        const run = () => simulate(scenario, { listener: new Watch() });
        const { pipelines } = simulate(scenario, { listener: watch });
        expect(watch.ended.size).toBe(watch.deadlines.length);
        const { badRate, offeredRps, goodRps } = pipelines![0]!;
        expect(goodRps).toBeCloseTo(offeredRps * (1 - badRate), 6);
        expect(run().pipelines).toEqual(pipelines); // T6
      }),
      { numRuns: 30 },
    );
  },
);

test("goodput of a pipeline lies below its bound, and the planned split carries more than the even one where stages are unlike", async () => {
  const evaluate = (scenario: Scenario) => Promise.resolve(simulateDetailed(scenario));
  const rate = async (split: "planned" | "even"): Promise<[number, GoodputBound]> => {
    const scenario = scenarioOf([model("ssd", 8, 39), model("inception", 1, 5)], [detectThenRead(1, 300, split)]);
    const { goodputRps, bound } = await goodput(scenario, evaluate, { precision: 0.03, arrivalsMin: seconds(5) });
    expect(bound).toEqual(boundOf({ ...scenario, duration: seconds(6) }));
    expect(goodputRps).toBeLessThan(bound.clairvoyantRps);
    return [goodputRps, bound];
  };
  const [planned, bound] = await rate("planned");
  const [even] = await rate("even");
  expect(planned).toBeGreaterThan(1.05 * even);
  expect(planned).toBeGreaterThan(0.8 * bound.staggeredRps);
});
