import { type StatsReported, StatsReported as Stats, ScalingAdvised, TuttiError, subjectsOf } from "@tutti/protocol";
import { actorKey, gpuId, instant, seconds, threadId } from "@tutti/units";
import fc from "fast-check";
import { afterEach, beforeEach, expect, test } from "vitest";
import { GatewayScene } from "../testing/gateway-scene.ts";
import { samplesOf, valueOf } from "../testing/exposition.ts";
import { ClusterFigures } from "./cluster-figures.ts";
import { LABEL_APPS_MAX, LABEL_COMBINATIONS_MAX, LabelBudget, OTHER, sloClass } from "./label-budget.ts";

let scene: GatewayScene;
beforeEach(async () => {
  scene = await GatewayScene.open();
});
afterEach(() => scene.close());

const scrape = async (): Promise<ReturnType<typeof samplesOf>> => {
  const response = await fetch(`${scene.addresses.metrics}/metrics`);
  expect(response.headers.get("content-type")).toContain("text/plain");
  return samplesOf(await response.text());
};
const infer = (headers: Record<string, string> = {}): Promise<Response> =>
  fetch(`${scene.addresses.http}/v2/models/twice/infer`, {
    method: "POST",
    body: JSON.stringify({ inputs: [{ name: "x", datatype: "FP32", shape: [1, 4], data: [1, 2, 3, 4] }] }),
    headers,
  });

test("requests through the gateway are counted by model, application, SLO class and outcome, with their times", async () => {
  await infer({ "tutti-app": "camera", "tutti-slo": "5s" });
  await infer({ "tutti-app": "camera", "tutti-slo": "5s" });
  scene.react = () => new TuttiError("TUTTI_OVERLOADED", "too much");
  await infer({ "tutti-app": "camera", "tutti-slo": "20ms" });
  const samples = await scrape();
  const camera = { model: "twice", app: "camera" };
  expect(valueOf(samples, "tutti_gateway_requests_total", { ...camera, slo_class: "5s", outcome: "ok" })).toBe(2);
  expect(valueOf(samples, "tutti_gateway_good_total", { ...camera, slo_class: "5s" })).toBe(2);
  expect(
    valueOf(samples, "tutti_gateway_requests_total", { ...camera, slo_class: "25ms", outcome: "TUTTI_OVERLOADED" }),
  ).toBe(1);
  expect(valueOf(samples, "tutti_gateway_request_duration_seconds_count", { ...camera, slo_class: "5s" })).toBe(2);
  expect(valueOf(samples, "tutti_gateway_queue_seconds_bucket", { model: "twice", le: "0.0025" })).toBe(2);
  expect(valueOf(samples, "tutti_gateway_queue_seconds_bucket", { model: "twice", le: "0.001" })).toBe(0);
  expect(valueOf(samples, "tutti_gateway_queue_seconds_bucket", { model: "twice", le: "+Inf" })).toBe(2);
  expect(valueOf(samples, "tutti_gateway_batch_size_sum", { model: "twice" })).toBe(6);
  expect(valueOf(samples, "tutti_gateway_in_flight", {})).toBe(0);
});

test("what actors report becomes Triton's names and ours, from zero on", async () => {
  const { number } = (await scene.registry.get("twice"))!;
  const thread = threadId(number, 0);
  const figures = {
    offered: 10,
    ok: 7,
    late: 1,
    latencyUs: 70_000,
    p99Us: 20_000,
    "refused.TUTTI_OVERLOADED": 2,
    "refused.TUTTI_CANCELLED": 1,
  };
  let [ok, batches, busyUs] = [7, 3, 5e5];
  const countedFor = seconds(3_600);
  scene.populate();
  const ingress = scene.join("ingress", {}, () => ({
    countedFor,
    figures: { guardUs: 120, minuteTurnP50Us: 80, minuteTurnMaxUs: 2_400, minuteGcShare: 0.25 },
    perThread: [{ thread, name: "twice", figures: { ...figures, ok, offered: ok + 3, queueUs: 100 * ok } }],
  }));
  const batcher = scene.join("batcher", {}, () => ({
    countedFor,
    perThread: [{ thread, name: "twice@W=3", figures: { batches, items: 2 * batches, queued: 4, inFlight: 1 } }],
  }));
  const compute = (): Record<string, number> => ({
    ...{ computed: 2 * batches, computePullUs: 10 * batches, computeRunUs: 300 * batches, computePushUs: batches },
  });
  const executor = scene.join("executor", {}, () => ({
    countedFor,
    perThread: [{ thread, name: "twice", figures: compute() }],
    perGpu: [{ gpu: gpuId(3), figures: { busyUs, batches, items: 6, refused: 0 } }],
  }));
  const report = (): void => [ingress, batcher, executor].forEach((runtime) => runtime.report());
  report();
  let samples = await scrape();
  while (samples.every(({ name }) => name !== "tutti_requests_total")) {
    // Until the gateway has heard them, it does not count the totals that they begin with.
    report();
    [ok, batches, busyUs] = [ok + 5, batches + 2, busyUs + 25e4];
    report();
    samples = await scrape();
  }
  const rises = Math.round(valueOf(samples, "tutti_good_total", { model: "twice" })! / 5);
  expect(rises).toBeGreaterThanOrEqual(1);
  const labels = { model: "twice", version: "1" };
  expect(valueOf(samples, "nv_inference_request_success", labels)).toBe(5 * rises);
  expect(valueOf(samples, "nv_inference_exec_count", labels)).toBe(2 * rises);
  expect(valueOf(samples, "nv_inference_count", labels)).toBe(5 * rises);
  expect(valueOf(samples, "nv_inference_compute_input_duration_us", labels)).toBe(20 * rises);
  expect(valueOf(samples, "nv_inference_compute_infer_duration_us", labels)).toBe(600 * rises);
  expect(valueOf(samples, "nv_inference_compute_output_duration_us", labels)).toBe(2 * rises);
  const told = (await (await fetch(`${scene.addresses.http}/v2/models/twice/stats`)).json()) as {
    model_stats: { inference_stats: Record<string, unknown> }[];
  };
  const infers = { count: 4 * rises, ns: 600_000 * rises };
  const { compute_infer: computed, queue, success } = told.model_stats[0]!.inference_stats;
  expect(computed).toEqual(infers);
  const risen = (success as { readonly count: number }).count;
  expect(queue).toEqual({ count: risen, ns: 100_000 * risen });
  expect(risen).toBeGreaterThan(0);
  expect(valueOf(samples, "nv_inference_queue_duration_us", labels)).toBe(100 * risen);
  expect(valueOf(samples, "nv_inference_pending_request_count", labels)).toBe(4);
  expect(valueOf(samples, "tutti_queue_length", { model: "twice" })).toBe(4);
  expect(valueOf(samples, "tutti_answer_p99_seconds", { model: "twice" })).toBeCloseTo(0.02);
  expect(valueOf(samples, "tutti_accelerator_busy_seconds_total", { gpu: "3" })).toBeCloseTo(0.25 * rises);
  expect(valueOf(samples, "tutti_timer_lateness_seconds", { role: "ingress" })).toBeCloseTo(12e-5);
  expect(valueOf(samples, "tutti_event_loop_turn_seconds", { role: "ingress", percentile: "50" })).toBeCloseTo(8e-5);
  expect(valueOf(samples, "tutti_event_loop_turn_seconds", { role: "ingress", percentile: "100" })).toBeCloseTo(24e-4);
  expect(valueOf(samples, "tutti_event_loop_gc_ratio", { role: "ingress" })).toBe(0.25);
  expect(valueOf(samples, "tutti_ranker_epoch", { sub_cluster: "main" })).toBe(3);
  expect(valueOf(samples, "tutti_takeovers_total", { sub_cluster: "main" })).toBe(0);
  expect(valueOf(samples, "tutti_accelerators", { state: "serving" })).toBe(1);
  expect(valueOf(samples, "tutti_models", { state: "ready" })).toBe(1);
  scene.join("ranker", { epoch: 4 });
  while (valueOf(samples, "tutti_takeovers_total", { sub_cluster: "main" }) !== 1) samples = await scrape();
});

test("what runners report of jobs is told once, by models that are loaded and one name for all others", async () => {
  const report = (rate: number) => () => ({
    figures: {
      ...{ "rate:twice": rate, "queued:twice": 90, "queued:gone": 4, "queued:lost": 3 },
      ...{ "dead:gone:NOT_FOUND": 2, "dead:lost:NOT_FOUND": 5, "dead:twice:INTERNAL": 1 },
    },
  });
  const runners = [scene.join("jobs", {}, report(1)), scene.join("jobs", {}, report(2))];
  let samples = await scrape();
  while (valueOf(samples, "tutti_job_rate", { model: "twice" }) !== 3) {
    for (const runner of runners) runner.report();
    samples = await scrape();
  }
  expect(valueOf(samples, "tutti_job_backlog", { model: "twice" })).toBe(90);
  expect(valueOf(samples, "tutti_job_backlog", { model: OTHER })).toBe(7);
  expect(valueOf(samples, "tutti_dead_jobs", { model: OTHER, cause: "TUTTI_NOT_FOUND" })).toBe(7);
  expect(valueOf(samples, "tutti_dead_jobs", { model: "twice", cause: "TUTTI_INTERNAL" })).toBe(1);
});

test("advice is told while it holds, and is absent, not zero, where there is none", async () => {
  expect(valueOf(await scrape(), "tutti_advice_accelerators", {})).toBeUndefined();
  scene.tell(subjectsOf("main").advice, ScalingAdvised, {
    at: scene.now(),
    advice: 2,
    gpus: 3,
    badRate: 0.25,
    idleShare: 0,
  });
  let samples = await scrape();
  while (valueOf(samples, "tutti_advice_accelerators", {}) === undefined) samples = await scrape();
  expect(valueOf(samples, "tutti_advice_accelerators", {})).toBe(5);
  expect(valueOf(samples, "tutti_advice_bad_ratio", {})).toBe(0.25);
  expect((await fetch(`${scene.addresses.metrics}/scaling`)).status).toBe(200);
});

test("the metrics' port answers nothing else", async () => {
  expect((await fetch(`${scene.addresses.metrics}/v2/models/twice`)).status).toBe(404);
  expect((await fetch(`${scene.addresses.metrics}/metrics`, { method: "POST" })).status).toBe(405);
  expect((await fetch(`${scene.addresses.metrics}/v2/health/live`)).status).toBe(200);
});

test("names from outside make no more series than there may be (T7)", () => {
  const budget = new LabelBudget();
  const seen = new Set<string>();
  for (let i = 0; i < 5_000; i++) seen.add(JSON.stringify(budget.labelsOf("m", `a-${i}`, 0.02)));
  expect(seen.size).toBe(LABEL_APPS_MAX + 1);
  expect([...seen].at(-1)).toContain(`"app":"${OTHER}"`);
  const many = new Set<string>();
  for (let i = 0; i < 5_000; i++) many.add(JSON.stringify(budget.labelsOf(`m-${i}`, "a-1", i)));
  expect(seen.size + many.size).toBeLessThanOrEqual(LABEL_COMBINATIONS_MAX + 1);
  expect(budget.labelsOf("m", "a-1", 0.02)).toBe(budget.labelsOf("m", "a-1", 0.021));
  expect([0.01, 0.011, 0.5, 5, 6].map(sloClass)).toEqual(["10ms", "25ms", "500ms", "5s", "longer"]);
});

const at = (s: number) => instant(s * 1e6);
const ingressStats = (key: number, ok: number, countedFor = seconds(0)): StatsReported => ({
  key: actorKey(key),
  role: "ingress",
  at: at(1),
  countedFor,
  figures: {},
  perThread: [{ thread: threadId(1, 0), name: "m", figures: { ok, offered: ok } }],
});

test("totals only rise, whoever comes, goes, or begins anew, and never by what was counted before", () => {
  fc.assert(
    fc.property(
      fc.array(fc.tuple(fc.integer({ min: 1, max: 3 }), fc.integer({ min: 0, max: 9 })), { maxLength: 40 }),
      (steps) => {
        const figures = new ClusterFigures(at(0));
        // The oracle: an actor that counted long before has its total as its zero, whenever it is heard first.
        const [heard, counted] = [new Map<number, number>(), { ok: 0 }];
        for (const key of [1, 2]) {
          figures.hear(ingressStats(key, 100, seconds(60)), at(key === 1 ? 1 : 9));
          heard.set(key, 100);
        }
        for (const [key, more] of steps) {
          const total = (heard.get(key) ?? 0) + more;
          counted.ok += more;
          heard.set(key, total);
          expect(figures.hear(ingressStats(key, total), at(10))).toBe(true);
          expect(figures.models.get("m")?.ok).toBe(counted.ok);
        }
      },
    ),
  );
});

test("reports of a release that doesn't say for how long it counted begin at their first, while the gateway is new", () => {
  const figures = new ClusterFigures(at(0));
  const hear = (key: number, ok: number, s: number): boolean => {
    const { countedFor: _, ...former } = ingressStats(key, ok);
    return figures.hear(former, at(s));
  };
  hear(1, 100, 1);
  expect(figures.models.get("m")).toBeUndefined();
  hear(1, 103, 2);
  expect(figures.models.get("m")?.ok).toBe(3);
  hear(2, 5, 9);
  expect(figures.models.get("m")?.ok).toBe(8);
});

test("a malformed report is dropped, and no label is made of it (T8)", () => {
  const figures = new ClusterFigures(at(0));
  const good = ingressStats(1, 5);
  const bad: unknown[] = [
    { ...good, figures: { a: NaN } },
    { ...good, figures: undefined },
    { ...good, perThread: [{ ...good.perThread![0], name: 'x"} 1\nevil' }] },
    { ...good, perThread: [{ ...good.perThread![0], name: 7 }] },
    { ...good, perPart: [{ kind: "stage", of: "p", name: 7, figures: {} }] },
    { ...good, perPart: [{ kind: "other", of: "p", name: "s", figures: {} }] },
    { ...good, perPart: [{ kind: "stage", of: "p", name: "s", figures: { ok: "1" } }] },
    undefined,
    Stats,
  ];
  for (const value of bad) expect(figures.hear(value as StatsReported, at(10))).toBe(false);
  fc.assert(fc.property(fc.anything(), (value) => !figures.hear(value as StatsReported, at(10))));
  const odd = { ...good, perThread: [{ ...good.perThread![0]!, figures: { "refused.NONSENSE": 3, ok: 1 } }] };
  expect(figures.hear(odd, at(10))).toBe(true);
  expect([...figures.models.get("m")!.refused]).toEqual([]);
  expect([...figures.living(at(10))]).toHaveLength(1);
  expect([...figures.living(instant(at(10) + seconds(6)))]).toEqual([]);
});

test("variants, pipelines and stages are added up over ingresses and their restarts; odd names make no label", async () => {
  const figures = new ClusterFigures(at(0));
  const part = (kind: "variant" | "stage", of: string, name: string, offered: number, refused = 0) => ({
    ...{ kind, of, name },
    figures: { offered, ok: offered - refused, late: 0, refused, "refused.TUTTI_OVERLOADED": refused },
  });
  const hear = (key: number, ms: number, ...perPart: ReturnType<typeof part>[]): boolean =>
    figures.hear({ ...ingressStats(key, 0), perPart }, at(ms));
  hear(1, 3_000, part("variant", "heads", "head-a", 5), part("stage", "ocr", "read", 10, 1));
  hear(2, 3_000, part("variant", "heads", "head-a", 7), part("stage", "ocr", 'x"} 1', 3));
  hear(1, 4_000, part("variant", "heads", "head-a", 9), part("stage", "ocr", "read", 14, 3));
  hear(2, 4_000, part("variant", "heads", "head-a", 2)); // it counts from zero again
  expect(figures.parts.ofKind("variant")).toMatchObject([{ of: "heads", name: "head-a", offered: 18, ok: 18 }]);
  expect(figures.parts.ofKind("stage")).toMatchObject([{ name: "read", offered: 14, ok: 11 }]);
  expect([...figures.parts.ofKind("stage")[0]!.refused]).toEqual([["TUTTI_OVERLOADED", 3]]);
  figures.forget("heads");
  expect(figures.parts.ofKind("variant")).toEqual([]);
});
