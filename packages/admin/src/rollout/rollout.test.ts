import type { ListedModel } from "@tutti/client/registries";
import { type Route, type RouteState, type StatsReported, withPercent } from "@tutti/protocol";
import { type Instant, actorKey, instant, micros, threadId } from "@tutti/units";
import { expect, test } from "vitest";
import { CommandError } from "../failure.ts";
import { ClusterView } from "../operator/cluster-view.ts";
import { type RolloutCommandOptions, orderOf } from "./rollout-options.ts";
import { rolloutOf } from "./rollout-report.ts";
import { renderRollout, routeLines, shadowNote } from "./rollout-text.ts";

const DEFAULTS: RolloutCommandOptions = { maxBad: "1%", wait: "2.5" };
const order = (options: Partial<RolloutCommandOptions>, model: string | undefined = "mlp"): unknown => {
  try {
    return orderOf(model, { ...DEFAULTS, ...options });
  } catch (error) {
    if (error instanceof CommandError && error.exitCode === 2) return error.message;
    throw error;
  }
};

test("options become one order, percentages with or without their sign", () => {
  expect(order({ to: "2", percent: "10" })).toEqual({ kind: "share", version: "2", percent: 10 });
  expect(order({ to: "2", percent: "0.5%", over: "60s", maxBad: "2 %", maxMismatch: "0.1" })).toEqual({
    ...{ kind: "share", version: "2", percent: 0.5 },
    ramp: { over: 60_000_000, badMax: 0.02, mismatchMax: 0.001 },
  });
  // Differences turn nothing back unless that is asked for.
  expect(order({ to: "2", percent: "50", over: "60s" })).toMatchObject({ ramp: { badMax: 0.01, mismatchMax: 1 } });
  expect(order({ default: "2" })).toEqual({ kind: "default", version: "2" });
  expect(order({ shadow: "2" })).toEqual({ kind: "shadow", version: "2", percent: 100 });
  expect(order({ shadow: "2", percent: "5", tolerance: "1e-3" })).toEqual({
    ...{ kind: "shadow", version: "2", percent: 5, tolerance: 1e-3 },
  });
  expect([
    order({}),
    order({ back: true }),
    order({ clear: true }),
    order({ endShadow: true }),
    order({}, undefined),
  ]).toEqual(["show", "back", "clear", "end-shadow", "show"].map((kind) => ({ kind })));
});

test("an order that makes no sense is refused by its flag", () => {
  expect(order({ to: "2" })).toContain("--to 2 needs --percent");
  expect(order({ percent: "5" })).toContain("--percent needs --to or --shadow");
  expect(order({ over: "60s" })).toContain("--over needs --to");
  expect(order({ to: "2", percent: "5", maxMismatch: "1%" })).toContain("--max-mismatch needs --over");
  expect(order({ tolerance: "1" })).toContain("--tolerance needs --shadow");
  expect(order({ back: true, clear: true })).toContain("--back and --clear: one at a time");
  expect(order({ to: "2", percent: "10" }, "mlp/2")).toContain("name the model");
  expect(orderOf(undefined, DEFAULTS)).toEqual({ kind: "show" });
  for (const percent of ["-1", "101", "x", "", "NaN"])
    expect(order({ to: "2", percent }), percent).toContain("a percentage");
  for (const over of ["0s", "soon", ""]) expect(order({ to: "2", percent: "5", over }), over).toContain("--over");
  for (const tolerance of ["-1", "x", "", "Infinity"])
    expect(order({ shadow: "2", tolerance }), tolerance).toContain("--tolerance");
});

const listed = (name: string, number: number, version: string, state = "ready", reason = ""): ListedModel =>
  ({
    spec: { name, number, version, buckets: [{}] },
    status: { name, number, version, state, reason, profiles: [[{ batchSize: 1, latency: micros(1_200) }]] },
  }) as unknown as ListedModel;
const MODELS = [listed("mlp", 3, "1"), listed("mlp/2", 4, "2"), listed("other", 5, "1")];
const state = (more: Partial<RouteState>): RouteState => ({
  ...{ at: instant(1.7e15), by: "operator", why: "10 % to version 2", default: "1", slices: withPercent([], "2", 10)! },
  ...more,
});
const route = (...states: RouteState[]): Route => ({ name: "mlp", states });

function heard(): ClusterView {
  let now = 0;
  const view = new ClusterView({ now: () => now, wall: () => 1e9 + now * 1_000 });
  for (const step of [0, 1]) {
    now = step * 1_000;
    const at = (1e9 + now * 1_000) as Instant;
    const actor = (
      key: number,
      role: "ingress" | "executor",
      perThread: NonNullable<StatsReported["perThread"]>,
    ): void => {
      view.hearBeat({ key: actorKey(key), role, host: "h", pid: 1, sentAt: at, startedAt: at, leaving: false });
      view.hearStats({ key: actorKey(key), role, at, figures: {}, perThread });
    };
    actor(1, "ingress", [
      {
        thread: threadId(3, 0),
        name: "mlp",
        figures: { offered: 90 * step, ok: 90 * step, late: 0, refused: 0, p99Us: 4_200 },
      },
      {
        thread: threadId(4, 0),
        name: "mlp/2",
        figures: { offered: 10 * step, ok: 8 * step, late: 1 * step, refused: 2 * step },
      },
    ]);
    const shadow = {
      shadowCompared: 200,
      shadowRan: 200,
      shadowDiffer: 3,
      shadowDifferenceMost: 0.5,
      shadowRunUs: 400_000,
      shadowLeft: 7,
    };
    for (const key of [2, 3]) actor(key, "executor", [{ thread: threadId(4, 0), name: "mlp/2", figures: shadow }]);
  }
  return view;
}

test("each version's share, rates and latencies, and what the shadow found at all executors together", () => {
  const shadowed = route(state({ shadow: { version: "2", percent: 100 } }));
  const report = rolloutOf("mlp", MODELS, shadowed, heard());
  expect(report.versions).toMatchObject([
    { version: "1", isDefault: true, percent: 90, offered: 90, good: 90, badRate: 0, p99Us: 4_200, aloneUs: 1_200 },
    { version: "2", isDefault: false, percent: 10, offered: 10, good: 7, badRate: 0.3 },
  ]);
  expect(report.shadow).toEqual({
    ...{
      version: "2",
      percent: 100,
      compared: 400,
      differ: 6,
      mismatchRate: 0.015,
      differenceMost: 0.5,
      left: 14,
      aloneUs: 2_000,
    },
  });
  const text = renderRollout(report);
  expect(text).toMatch(/mlp\/2 +10 % +ready +10 +7 +30 % +- +1\.2 ms/);
  expect(text).toContain("400 compared, 6 differ (1.5 %, by 0.500 at most), 2 ms alone; 14 left out");
  expect(text).toContain("by operator: 10 % to version 2");
});

test("without a route the first version has everything, and nothing is advised", () => {
  const report = rolloutOf("mlp", MODELS, undefined, heard());
  expect(report.versions.map(({ percent }) => percent)).toEqual([100, 0]);
  expect([report.advice, report.history, report.default]).toEqual([[], [], "1"]);
});

test("a version that can't have its share is told in the status and as advice, and so is one that has everything", () => {
  const broken = [MODELS[0]!, listed("mlp/2", 4, "2", "quarantined", "it ended its executor 3 times")];
  const report = rolloutOf("mlp", broken, route(state({})), heard());
  expect(report.advice).toEqual([
    "version 2 is quarantined (it ended its executor 3 times): its 10 % go to version 1; `tutti rollout mlp --back` takes its share away",
  ]);
  expect(renderRollout(report)).toContain("Advice: version 2 is quarantined");
  expect(routeLines([route(state({}))], broken)).toEqual([
    "mlp: 90 % to version 1, 10 % to version 2",
    "mlp: version 2 is quarantined, so its 10 % go to version 1",
  ]);
  expect(rolloutOf("mlp", [MODELS[0]!], route(state({})), heard()).advice).toEqual([
    "version 2 has a share and is not loaded: its share goes to version 1",
  ]);
  const all = route(state({ slices: withPercent([], "2", 100)! }));
  expect(rolloutOf("mlp", MODELS, all, heard()).advice).toEqual([
    "version 2 has everything, and version 1 stands by; `tutti rollout mlp --default 2` ends that",
  ]);
});

test("what the planner took back is in the status, with its reason", () => {
  const back = route(
    state({}),
    state({ by: "planner", slices: [], why: "version 2 was rolled back at 5 %: 3 of 7 were late" }),
  );
  expect(routeLines([back], MODELS)).toEqual([
    "mlp: 100 % to version 1",
    "mlp: version 2 was rolled back at 5 %: 3 of 7 were late",
  ]);
  const ramp = {
    ...{ version: "2", startedAt: instant(1), steppedAt: instant(1), over: micros(60e6), steps: [10, 100], step: 0 },
    ...{ badMax: 0.01, mismatchMax: 0 },
  };
  expect(routeLines([route(state({ ramp, shadow: { version: "2", percent: 5 } }))], MODELS)).toEqual([
    "mlp: 90 % to version 1, 10 % to version 2; growing to 100 %; version 2 shadows 5 %",
  ]);
  const linesOf = (mismatchMax: number): string =>
    renderRollout(rolloutOf("mlp", MODELS, route(state({ ramp: { ...ramp, mismatchMax } })), heard()));
  expect(linesOf(0)).toContain(
    "Version 2 grows from 10 % to 100 % within 60 s; back at more than 1 % bad or 0 % different.",
  );
  expect(linesOf(1)).toContain("back at more than 1 % bad.");
  const told = { ...ramp, mismatchMax: 1 };
  expect(shadowNote({ ramp: told, shadow: { version: "2", percent: 5 } })).toMatch(
    /^version 2 is the shadow too: .+\n$/,
  );
  expect(shadowNote({ ramp, shadow: { version: "2", percent: 5 } })).toBe("");
  expect(shadowNote({ ramp: told, shadow: { version: "3", percent: 5 } })).toBe("");
});
