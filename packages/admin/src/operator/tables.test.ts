import type { ListedModel } from "@tutti/client/registries";
import type { AgentAnswered, Heartbeat, Role, StatsReported } from "@tutti/protocol";
import { type GpuId, type Instant, actorKey, actorToken, threadId } from "@tutti/units";
import { beforeEach, expect, test } from "vitest";
import { actorRows, renderActors } from "./actor-table.ts";
import { ClusterView, lackOf } from "./cluster-view.ts";
import { renderClusterStatus, statusOf } from "./status-table.ts";
import { renderTop, topOf } from "./top-table.ts";

/** A cluster with messages written by the test; time is in milliseconds from 1,000 s on. */
let now: number;
let view: ClusterView;
beforeEach(() => {
  now = 0;
  view = new ClusterView({ now: () => now, wall: () => 1e9 + now * 1_000 });
});

const at = (ms: number): Instant => (1e9 + ms * 1_000) as Instant;
const beat = (key: number, role: Role, more: Partial<Heartbeat> = {}): void =>
  view.hearBeat({
    key: actorKey(key),
    role,
    host: "h",
    pid: 100 + key,
    sentAt: at(now),
    startedAt: at(-60_000),
    leaving: false,
    ...more,
  });
const report = (key: number, role: Role, more: Partial<StatsReported>): void =>
  view.hearStats({ key: actorKey(key), role, at: at(now), figures: {}, ...more });
const gpu = (id: number, serving = true) => ({
  gpu: id as GpuId,
  freeAt: at(0),
  epoch: 1,
  grantSeq: 0,
  subCluster: "main",
  serving,
  type: "emulated",
});
const MODELS = [
  { spec: { name: "mlp", number: 3, buckets: [{}] }, status: { state: "ready", reason: "" } },
] as unknown as ListedModel[];
const THREAD = threadId(3, 0);
const KEPT = { reserveUs: 2_100, beyondPerMillion: 4_000 };

function hearAll(): void {
  for (const [step, ms] of [0, 1_000, 2_000].entries()) {
    now = ms;
    const perThread = [
      {
        thread: THREAD,
        name: "mlp",
        figures: {
          offered: 100 * step,
          ok: 90 * step,
          late: 10 * step,
          refused: 10 * step,
          "refused.TUTTI_OVERLOADED": 10 * step,
          p99Us: 4_200,
        },
      },
    ];
    beat(1, "ingress");
    report(1, "ingress", {
      figures: { held: 7, cpuUs: 250_000 * step, rssBytes: 5e7, messagesIn: 1_000 * step, messagesOut: 0 },
      perThread,
    });
    beat(2, "batcher");
    const batcher = {
      thread: THREAD,
      name: "mlp",
      figures: { items: 90 * step, batches: 30 * step, queued: 4, ...KEPT },
    };
    const turns = { minuteTurnP50Us: 150, minuteTurnP999Us: 900, minuteTurnMaxUs: 2_500, minuteGcShare: 0.12 };
    report(2, "batcher", {
      figures: { threads: 1, cpuUs: 500_000 * step, rssBytes: 4e6, ...turns },
      perThread: [batcher],
    });
    beat(3, "ranker", { epoch: 12 });
    report(3, "ranker", {});
    beat(4, "executor", { gpus: [gpu(0), gpu(1, false)] });
    const loads = [0, 1].map((id) => ({
      gpu: id as GpuId,
      figures: { busyUs: id === 0 ? 750_000 * step : 0, batches: 30 * step, items: 90 * step, accepted: 1 },
    }));
    report(4, "executor", { perGpu: loads });
  }
}

test("status: rates by model with causes, mean batch, p99 and queue; accelerators; who leads", () => {
  hearAll();
  const { models, accelerators, rankers, turns } = statusOf(view, MODELS);
  expect(models).toEqual([
    {
      name: "mlp",
      state: "ready",
      reason: "",
      offered: 100,
      good: 80,
      late: 10,
      refused: { OVERLOADED: 10 },
      queue: 4,
      batchMean: 3,
      p99Us: 4_200,
      reserveUs: 2_100,
      beyondReserve: 0.004,
    },
  ]);
  expect(accelerators).toMatchObject([
    { gpu: 0, busy: 0.75, serving: true },
    { gpu: 1, busy: 0, serving: false },
  ]);
  expect(rankers).toEqual([{ actor: actorToken(actorKey(3)), host: "h", subCluster: "main", leads: true, epoch: 12 }]);
  const text = renderClusterStatus({
    models,
    accelerators,
    rankers,
    turns,
    ...{ variants: [], pipelines: [] },
    rollouts: ["mlp: 90 % to version 1, 10 % to version 2"],
  });
  expect(text).toMatch(/mlp +ready +100 +80 +10 +4 +3\.0 +4\.2 ms +2\.1 ms \(0\.4 % end later\) +OVERLOADED 10/);
  expect(text).toContain("3 on h leads, epoch 12. There is no spare.");
  expect(text).toContain("mlp: 90 % to version 1, 10 % to version 2");
  expect(text).toContain(
    "event loop of batcher 2, last minute: p50 0.1 ms, p99.9 0.9 ms, longest 2.5 ms, 12 % garbage collection",
  );
});

test("status: a model that is ready and answers nothing is called stalled, with what is done about it", () => {
  hearAll();
  now = 3_000;
  beat(2, "batcher");
  const thread = (stalled: number) => ({ thread: THREAD, name: "mlp", figures: { stalled } });
  report(2, "batcher", { figures: { threads: 1 }, perThread: [thread(1)] });
  const text = renderClusterStatus(statusOf(view, MODELS));
  expect(text).toMatch(/mlp +stalled/);
  expect(text).toContain("mlp: it answered none of its requests");
  expect(actorRows(view, []).find(({ role }) => role === "batcher")?.health).toEqual(["a model answers nothing"]);
  report(2, "batcher", { figures: { threads: 1 }, perThread: [thread(0)] });
  expect(renderClusterStatus(statusOf(view, MODELS))).toMatch(/mlp +ready/);
});

test("top: actors by processor time, accelerators by busy share", () => {
  hearAll();
  const top = topOf(view);
  expect(top.actors.map(({ role, cpu }) => [role, cpu]).slice(0, 2)).toEqual([
    ["batcher", 0.5],
    ["ingress", 0.25],
  ]);
  expect(top.actors[1]).toMatchObject({ rssBytes: 5e7, messagesPerSecond: 1_000 });
  expect(top.accelerators.map(({ gpu: id }) => id)).toEqual([0, 1]);
  expect(renderTop(top)).toMatch(/batcher +h +102 +50 % +4 MB/);
});

test("top: a process's figures stand once, with its other actors below, whatever their order", () => {
  const ofProcess = { cpuUs: 0, rssBytes: 1e8, turnP99Us: 2_000, turnMaxUs: 3_000, messagesIn: 0, messagesOut: 0 };
  for (const step of [0, 1]) {
    now = 1_000 * step;
    for (const key of [5, 7, 8]) beat(key, "ranker", { pid: 9 });
    report(5, "batcher", { figures: { threads: 1 } });
    report(7, "ingress", { figures: { ...ofProcess, cpuUs: 100_000 * step } });
    report(8, "ranker", {});
    beat(6, "executor");
    report(6, "executor", { figures: { ...ofProcess, cpuUs: 50_000 * step } });
  }
  const { actors } = topOf(view);
  expect(actors.map(({ actor, cpu, rssBytes }) => [actor, cpu, rssBytes])).toEqual([
    [actorToken(actorKey(7)), 0.1, 1e8],
    [actorToken(actorKey(5)), undefined, undefined],
    [actorToken(actorKey(8)), undefined, undefined],
    [actorToken(actorKey(6)), 0.05, 1e8],
  ]);
  const lines = renderTop({ actors, accelerators: [] }).split("\n");
  expect(lines[1]).toMatch(/ 9 +10 % +100 MB +2\.0 ms +3\.0 ms +0 +-$/);
  expect(lines[2]).toMatch(/ h +9 *$/);
});

const agent = (...processes: AgentAnswered["processes"]): AgentAnswered => ({
  ask: 1,
  agent: actorKey(9),
  host: "h",
  pid: 1,
  processes,
});

test("actors: who is there with what it holds, and whose process is down", () => {
  hearAll();
  const kept = {
    name: "ingress",
    role: "ingress",
    pid: 101,
    actor: actorToken(actorKey(1)),
    phase: "ready",
    restarts: 2,
  } as const;
  const drained = { name: "executor-1", role: "executor", pid: 0, actor: "", phase: "parked", restarts: 0 } as const;
  const rows = actorRows(view, [agent(kept, drained)]);
  expect(rows.map(({ role, restarts, queue, health }) => [role, restarts, queue, health.join()])).toEqual([
    ["ingress", 2, 7, "ok"],
    ["batcher", undefined, 4, "ok"],
    ["ranker", undefined, 0, "ok"],
    ["executor", undefined, 2, "not serving"],
    ["executor", 0, 0, "drained"],
  ]);
  expect(renderActors(rows)).toMatch(/3 +ranker +- +h +103 +62 s +12 +leads +- +0 +ok/);
});

test("where there are several sub-clusters, each ranker, executor and accelerator is told with its own", () => {
  hearAll();
  expect(renderActors(actorRows(view, []))).not.toContain("in main");
  beat(5, "ranker", { epoch: 14, subCluster: "s1" });
  beat(6, "ranker", { epoch: 0, subCluster: "s1" });
  beat(7, "executor", { gpus: [{ ...gpu(2), subCluster: "s1" }] });
  const actors = renderActors(actorRows(view, []));
  expect(actors).toMatch(/leads in main[^]*leads in s1[^]*spare in s1/);
  expect(actors).toMatch(/gpu 0 1 emulated in main[^]*gpu 2 emulated in s1/);
  const status = renderClusterStatus(statusOf(view, MODELS));
  expect(status).toContain("Rankers of main: 3 on h leads, epoch 12. There is no spare.");
  expect(status).toContain("Rankers of s1: 5 on h leads, epoch 14. Spares: 6 on h.");
  expect(status).toMatch(/serves in s1/);
});

test("health: silence, a skewed clock, a late event loop, malformed messages", () => {
  for (const ms of [0, 100, 200]) {
    now = ms;
    for (const key of [1, 2, 3]) beat(key, "batcher");
    beat(4, "batcher", { sentAt: at(ms + 300) }); // its clock is ahead
  }
  report(2, "batcher", { figures: { frameFaults: 1 } });
  now = 1_200;
  for (const key of [1, 2, 4]) beat(key, "batcher", key === 4 ? { sentAt: at(1_500) } : {});
  report(1, "batcher", { figures: { turnMaxUs: 240_000 } });
  report(2, "batcher", { figures: { frameFaults: 2 } });
  const health = (): string[] => actorRows(view, []).map((row) => row.health.join());
  expect(health()).toEqual([
    "event loop 240 ms late",
    "malformed messages",
    "late heartbeat",
    "clock skewed by 300 ms",
  ]);
  now = 5_000;
  expect(health()[2]).toContain("silent for 5 s");
});

test("what lacks is named: a leader, an actor, an accelerator, a ModelThread", () => {
  hearAll();
  const whole = view.wholeness();
  expect(whole).toEqual({
    actors: { ingress: 1, batcher: 1, ranker: 1, executor: 1 },
    leaders: 1,
    serving: [0],
    threads: 1,
  });
  expect(lackOf(whole, whole)).toBeUndefined();
  expect(lackOf(whole, { ...whole, leaders: 0 })).toBe("nobody leads the sub-cluster");
  expect(lackOf(whole, { ...whole, actors: { ...whole.actors, ingress: 0 } })).toMatch(
    /0 of 1 actors of the role ingress/,
  );
  expect(lackOf(whole, { ...whole, serving: [] })).toBe("accelerator 0 does not serve yet");
  expect(lackOf(whole, { ...whole, threads: 0 })).toMatch(/0 of 1 ModelThreads/);
  beat(3, "ranker", { leaving: true });
  expect(lackOf(whole, view.wholeness())).toBe("nobody leads the sub-cluster");
});

test("actors beyond the bound are not kept, and silent ones are forgotten (T7)", () => {
  for (let key = 1; key <= 5_000; key++) beat(key, "executor");
  expect(view.actors().length).toBe(4_096);
  now = 11_000;
  expect(view.actors()).toEqual([]);
});

test("a family's variants, a pipeline and its stages have rows of their own, per second and by cause", () => {
  const parts = (step: number) => [
    { kind: "variant", of: "heads", name: "head-a", figures: { offered: 60 * step, ok: 60 * step, late: 10 * step } },
    { kind: "pipeline", of: "ocr", name: "ocr", figures: { offered: 10 * step, ok: 8 * step, late: 0 } },
    { kind: "stage", of: "ocr", name: "detect", figures: { offered: 10 * step, ok: 10 * step, late: 0 } },
    {
      ...{ kind: "stage", of: "ocr", name: "recognise" },
      figures: { offered: 50 * step, ok: 48 * step, late: 0, refused: 2 * step, "refused.TUTTI_OVERLOADED": 2 * step },
    },
    { kind: "stage", of: "\u001b[2J", name: "x", figures: { offered: 1 } }, // no name: not shown
  ];
  for (const [step, ms] of [0, 1_000, 2_000].entries()) {
    now = ms;
    beat(1, "ingress");
    report(1, "ingress", { perPart: parts(step) as unknown as NonNullable<StatsReported["perPart"]> });
  }
  const status = statusOf(view, MODELS);
  expect(status.variants).toEqual([{ family: "heads", name: "head-a", offered: 60, good: 50, late: 10, refused: {} }]);
  expect(status.pipelines).toMatchObject([
    {
      ...{ name: "ocr", offered: 10, good: 8, refused: {} },
      stages: [{ name: "detect" }, { name: "recognise", offered: 50, good: 48, refused: { OVERLOADED: 2 } }],
    },
  ]);
  const text = renderClusterStatus(status);
  expect(text).toMatch(/heads +head-a +60 +50/);
  expect(text).toMatch(/^ +recognise +50 +48 +2 +OVERLOADED 2$/m);
  expect(text).not.toContain("\u001b");
});
