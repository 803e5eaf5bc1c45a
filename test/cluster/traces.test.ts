/** One trace shows a request's whole path (docs/observability.md), also for refused, lost and repeated ones. */
import { type RecordedSpan, RecordingTelemetry, type SpanContext } from "@tutti/ports/telemetry";
import { micros, millis, seconds } from "@tutti/units";
import { expect, test } from "vitest";
import { VirtualCluster } from "./virtual-cluster.ts";
import type { VirtualClusterOptions } from "./virtual-cluster-options.ts";

const MODEL = { name: "echo", alphaMs: 1, betaMs: 4, sloMs: 50 };
/** l(b) = 90 + 10·b ms: long enough to be killed in mid-run. */
const SLOW = { name: "slow", alphaMs: 10, betaMs: 90, sloMs: 500 };

function world(options: VirtualClusterOptions & { readonly sampled?: boolean } = {}) {
  const { sampled = true, ...rest } = options;
  // One recorder for all processes: its ids count up.
  const traces = new RecordingTelemetry({ sampled });
  const cluster = new VirtualCluster({ ...rest, telemetry: () => traces });
  cluster.addModel(MODEL);
  cluster.addModel(SLOW);
  cluster.run(seconds(2));
  traces.spans.length = 0;
  return { traces, cluster };
}
const partsOf = (traces: RecordingTelemetry, whole: RecordedSpan): RecordedSpan[] =>
  traces.spans.filter((span) => span.options.parent?.spanId === whole.context.spanId);
const idOf = ({ traceId, spanId }: SpanContext): string => `${traceId}/${spanId}`;
const eventsOf = (span: RecordedSpan | undefined): string[] => (span?.events ?? []).map(({ name }) => name);

test("the parts of a request's span fill it without a gap, from arrival to answer, and its run and its batch link to each other", () => {
  const { traces, cluster } = world();
  const asked = [1, 2, 3].map((value) => cluster.ask("echo", { sloMs: 50, value }));
  cluster.run(millis(60));
  expect(asked.map(({ outcomes }) => outcomes[0]?.status)).toEqual(["ok", "ok", "ok"]);

  const requests = traces.spansNamed("infer echo");
  expect(requests).toHaveLength(3);
  const [batch] = traces.spansNamed("batch echo");
  expect(batch?.attributes).toMatchObject({ "tutti.batch_size": 3, "tutti.model": "echo" });
  expect(batch?.options.links?.map(idOf).sort()).toEqual(requests.map(({ context }) => idOf(context)).sort());
  // Moments are told from the grant on, as lengths that a reader can compare with the spans.
  const { "tutti.window.latest_us": latest, "tutti.deadline_us": deadline } = batch!.attributes;
  expect(Number(latest)).toBeGreaterThanOrEqual(0);
  expect(Number(deadline)).toBeLessThanOrEqual(millis(50));
  expect(Number(deadline) - Number(latest)).toBe(batch!.attributes["tutti.expected_run_us"]);
  expect(partsOf(traces, batch!).map(({ name }) => name)).toEqual(["grant", "pull", "run", "push"]);
  expect(idOf(batch!.context).split("/")[0]).not.toBe(requests[0]!.context.traceId);

  for (const request of requests) {
    const parts = partsOf(traces, request);
    expect(parts.map(({ name }) => name)).toEqual(["wait", "grant", "pull", "run", "push", "answer"]);
    let at = request.options.at;
    for (const part of parts) {
      expect([part.name, part.options.at - at]).toEqual([part.name, 0]);
      at = part.endedAt!;
    }
    expect(request.endedAt).toBe(at);
    const run = parts.find(({ name }) => name === "run")!;
    expect(run.options.links?.map(idOf)).toEqual([idOf(batch!.context)]);
    expect(run.endedAt! - run.options.at).toBe(millis(7));
    expect(request.attributes).toMatchObject({ "tutti.outcome": "ok", "tutti.late": false, "tutti.batch_size": 3 });
    expect(eventsOf(request)).toEqual(["accepted"]);
  }
});

test("a batch that waits for the accelerator shows that wait in its own trace and in those of its requests", () => {
  const { traces, cluster } = world({ gpus: 1, executors: 1, policy: { kind: "eager" } });
  cluster.ask("slow", { sloMs: 500, value: 1 });
  cluster.run(millis(20));
  const second = cluster.ask("slow", { sloMs: 500, value: 2 });
  cluster.run(millis(400));
  expect(second.outcomes.map(({ status }) => status)).toEqual(["ok"]);
  const [request, batch] = ["infer slow", "batch slow"].map((name) => traces.spansNamed(name).at(-1)!);
  expect(partsOf(traces, request!).map(({ name }) => name)).toEqual([
    ...["wait", "grant", "pull", "wait for the accelerator", "run", "push", "answer"],
  ]);
  for (const whole of [request!, batch!]) {
    const parts = partsOf(traces, whole);
    for (const [i, part] of parts.entries())
      expect([part.name, part.options.at]).toEqual([part.name, parts[i - 1]?.endedAt ?? whole.options.at]);
  }
});

test("of requests that head sampling leaves out, those refused are recorded with the reason, and the others are not", () => {
  const { traces, cluster } = world({ sampled: false });
  cluster.ask("echo", { sloMs: 50, value: 1 });
  cluster.ask("echo", { sloMs: 2, value: 2 });
  cluster.ask("nobody", { sloMs: 50, value: 3 });
  cluster.run(millis(60));
  expect(traces.spans.filter(({ name, isRecorded }) => name === "infer echo" && isRecorded)).toHaveLength(1);
  const refused = traces.spans.filter(({ isRecorded }) => isRecorded);
  expect(
    refused.flatMap(({ name, events }) =>
      events.filter((event) => event.name === "refused").map(({ attributes }) => [name, attributes["code"]]),
    ),
  ).toEqual([
    ["infer echo", "TUTTI_DEADLINE_INFEASIBLE"],
    ["infer nobody", "TUTTI_NOT_FOUND"],
  ]);
  expect(refused[0]?.events[0]?.attributes["reason"]).toContain("2 ms");
  expect(refused[0]?.error).toContain("2 ms");
});

test("of requests that head sampling leaves out, a late one is recorded with all its parts and its batch", () => {
  let stretch = 1;
  const { traces, cluster } = world({ sampled: false, runTimes: () => stretch });
  stretch = 20;
  cluster.ask("echo", { sloMs: 50, value: 1 });
  cluster.run(seconds(1));
  const [request] = traces.spansNamed("infer echo");
  expect(request?.isRecorded).toBe(true);
  // The result came too late for the request; the batch is recorded, with its own outcome.
  expect(request?.error).toContain("no result within 50 ms");
  const [batch] = traces.spansNamed("batch echo");
  expect(batch?.isRecorded).toBe(true);
  expect(batch?.options.links?.map(idOf)).toEqual([idOf(request!.context)]);
  const run = partsOf(traces, request!).find(({ name }) => name === "run, too late");
  expect(run?.options.links?.map(idOf)).toEqual([idOf(batch!.context)]);
  expect(run?.isRecorded).toBe(true);
});

test("a request whose executor dies in mid-run says so, and has its second run in its trace", () => {
  let runsOn = -1;
  const { traces, cluster } = world({
    ...{ sampled: false, gpus: 2, executors: 2, policy: { kind: "eager" }, aloneShare: 0 },
    fault: (gpu) => void (runsOn = gpu),
  });
  const asked = cluster.ask("slow", { sloMs: 500, value: 7 });
  cluster.run(millis(20));
  cluster.kill(`executor-${runsOn}`);
  cluster.run(millis(600));
  expect(asked.outcomes.map(({ status }) => status)).toEqual(["ok"]);
  const [request] = traces.spansNamed("infer slow").filter(({ isRecorded }) => isRecorded);
  expect(eventsOf(request)).toEqual(["accepted", "run again"]);
  expect(request?.events[1]?.attributes["reason"]).toMatch(
    /^executor \S+ had pulled it, and died or left its batch undone$/,
  );
  expect(partsOf(traces, request!).map(({ name }) => name)).toContain("run");
});

test("a request whose batcher dies says that another one has its model now", () => {
  const { traces, cluster } = world({ sampled: false, batchers: 2 });
  const asked = ["batcher-0", "batcher-1"].map(() => cluster.ask("slow", { sloMs: 500, value: 1 }));
  cluster.run(millis(1));
  cluster.kill("batcher-0");
  cluster.run(millis(300));
  cluster.ask("slow", { sloMs: 500, value: 2 });
  cluster.kill("batcher-1");
  cluster.startBatcher("batcher-2");
  cluster.run(seconds(2));
  expect(asked.flatMap(({ outcomes }) => outcomes)).toHaveLength(2);
  const replaced = traces.spans.filter((span) => eventsOf(span).includes("batcher replaced"));
  expect(replaced.length).toBeGreaterThan(0);
  expect(replaced.every(({ isRecorded }) => isRecorded)).toBe(true);
});

test("a takeover of the ranker is a trace of its own that says why, whatever is sampled", () => {
  const { traces, cluster } = world({ sampled: false });
  cluster.kill("ranker-0");
  cluster.run(millis(500));
  const takeovers = traces.spansNamed("takeover");
  expect(takeovers).toHaveLength(1);
  expect(takeovers[0]).toMatchObject({ isRecorded: true, attributes: { "tutti.sub_cluster": "main" } });
  expect(takeovers[0]?.events[0]?.attributes["reason"]).toMatch(/^the leader (is gone|is lost|hangs)$/);
  expect(takeovers[0]!.endedAt! - takeovers[0]!.options.at).toBeLessThan(millis(50));
});

test("a publisher's trace goes on, and its decision counts for what ends well", () => {
  const { traces, cluster } = world({ sampled: false });
  const parent = { traceId: "a".repeat(32), spanId: "b".repeat(16) };
  cluster.ask("echo", { sloMs: 50, value: 1, traceparent: `00-${parent.traceId}-${parent.spanId}-01` });
  cluster.run(millis(60));
  const [request] = traces.spansNamed("infer echo");
  expect(request).toMatchObject({ isRecorded: true, options: { parent: { ...parent, sampled: true } } });
  expect(partsOf(traces, request!).every(({ context }) => context.traceId === parent.traceId)).toBe(true);
  expect(traces.spansNamed("batch echo")[0]?.options.links).toHaveLength(1);
  expect(micros(request!.endedAt! - request!.options.at)).toBeLessThan(millis(50));
});
