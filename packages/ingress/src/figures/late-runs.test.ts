import { expect, test } from "vitest";
import type { ResultBatch } from "@tutti/protocol";
import { RecordingTelemetry } from "@tutti/ports/telemetry";
import { instant } from "@tutti/units";
import type { PendingRequest } from "../requests/pending-request.ts";
import { LATE_RUNS_MAX, LateRuns } from "./late-runs.ts";

const at = instant(1_800_000_000_000_000);
const results = (more: Partial<ResultBatch> = {}): ResultBatch =>
  ({
    batchId: 7,
    executor: 9,
    batchSize: 3,
    gpu: 0,
    startedAt: at,
    finishedAt: instant(at + 5),
    ...more,
  }) as ResultBatch;

function world(sampled = true) {
  const traces = new RecordingTelemetry({ sampled });
  const lateRuns = new LateRuns(traces.tracer);
  const span = traces.tracer.start("infer mlp", { kind: "consumer", at });
  const ended = (seq: number, batch = 7): void =>
    lateRuns.ended({ seq, span, batch, executor: 9 } as unknown as PendingRequest);
  return { lateRuns, ended, runs: () => traces.spansNamed("run, too late") };
}

test("so many runs are awaited and no more: the oldest is let go", () => {
  const { lateRuns, ended, runs } = world();
  for (let seq = 1; seq <= LATE_RUNS_MAX + 1; seq++) ended(seq);
  expect(lateRuns.size).toBe(LATE_RUNS_MAX);
  lateRuns.heard(1, results());
  expect(runs()).toEqual([]);
  lateRuns.heard(2, results());
  lateRuns.heard(2, results());
  expect(runs()).toHaveLength(1);
});

test("nothing is awaited of a request that is in no batch or not traced, and no other batch speaks for it", () => {
  const { lateRuns, ended, runs } = world();
  ended(1, 0);
  expect(lateRuns.size).toBe(0);
  ended(2);
  lateRuns.heard(2, results({ batchId: 8 }));
  lateRuns.heard(2, results({ executor: 8 }));
  expect(runs()).toEqual([]);
  const unsampled = world(false);
  unsampled.ended(3);
  expect(unsampled.lateRuns.size).toBe(0);
});
