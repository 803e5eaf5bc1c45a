import { type ModelSpec } from "@tutti/protocol";
import { type ThreadId, instant, micros, threadId } from "@tutti/units";
import { expect, test } from "vitest";
import { ComputeStats, type ComputedRun } from "./compute-stats.ts";
import { executorFigures } from "./executor-figures.ts";

const run = (thread: ThreadId, rows: number, pullUs: number): ComputedRun => ({
  ...{ batch: { thread }, rows, receivedAt: instant(1_000), readyAt: instant(1_000 + pullUs) },
  model: { spec: { name: "m", buckets: [{}] } as unknown as ModelSpec },
});

test("times are summed by request: a batch of three spends its run three times, as Triton counts it", () => {
  const computeStats = new ComputeStats();
  computeStats.note(run(threadId(1, 0), 3, 200), micros(1_000), 50);
  computeStats.note(run(threadId(1, 0), 1, 100), micros(400), 10);
  const figures = { computed: 4, computePullUs: 700, computeRunUs: 3_400, computePushUs: 160 };
  expect(computeStats.perThread()).toEqual([{ thread: threadId(1, 0), name: "m", figures }]);
});

test("a batch without rows, or one that failed, is no computed request", () => {
  const computeStats = new ComputeStats();
  computeStats.note(run(threadId(1, 0), 0, 5), micros(9), 1);
  computeStats.note(run(threadId(1, 0), 2, 5), micros(0), 1);
  expect(computeStats.perThread()).toEqual([]);
});

test("of more threads than are told apart the one that ran longest ago is forgotten", () => {
  const computeStats = new ComputeStats(2);
  for (const number of [1, 2, 1, 3]) computeStats.note(run(threadId(number, 0), 1, 0), micros(1), 0);
  expect(computeStats.perThread().map(({ thread, figures }) => [thread, figures["computed"]])).toEqual([
    [threadId(1, 0), 2],
    [threadId(3, 0), 1],
  ]);
});

test("a thread that is a shadow too stands once in a report, with the figures of both", () => {
  const [thread, other] = [threadId(1, 0), threadId(2, 0)];
  const rows = [
    { thread, name: "m", figures: { computed: 1 } },
    { thread: other, name: "n", figures: { computed: 2 } },
    { thread, name: "m", figures: { shadowRan: 5 } },
  ];
  expect(executorFigures([], 0, 0, {}, rows).perThread).toEqual([
    { thread, name: "m", figures: { computed: 1, shadowRan: 5 } },
    { thread: other, name: "n", figures: { computed: 2 } },
  ]);
});
