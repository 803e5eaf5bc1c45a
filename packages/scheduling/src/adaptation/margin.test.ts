import { LatencyTable } from "@tutti/profile";
import { type Micros, micros, millis, seconds, threadId } from "@tutti/units";
import { expect, test } from "vitest";
import { Cluster } from "../lockstep/cluster.ts";
import { Margin } from "./margin.ts";
import type { Request } from "../messages.ts";
import type { ModelThreadConfig } from "../model-thread/model-thread-state.ts";

const SLO = millis(25);
const CONFIG: ModelThreadConfig = {
  ...{ thread: threadId(0, 0), term: 1, epoch: 1, slo: SLO, patience: 1, gather: "target" },
  ...{ profile: LatencyTable.affine({ alpha: 1_053, beta: 5_072, batchSizeMax: 64 }) },
  ...{ guard: micros(0), ctrl: micros(0), perItem: micros(0), respond: micros(0) },
  ...{ queueMax: 1_000, batchesInFlightMax: 1_000, policy: { kind: "deferred" } },
};

test("a margin rises with each late answer, falls slowly with those in time, and stays within a quarter of the SLO (MA1)", () => {
  const margin = new Margin();
  margin.note(1_000, 0, SLO);
  expect(margin.us).toBe(0);
  margin.note(10, 10, SLO);
  expect(margin.us).toBe(1_000); // 10/256 of 25 ms, in steps of 100 µs
  margin.note(199, 0, SLO);
  expect(margin.us).toBe(900); // 199 in time undo one late
  for (let i = 0; i < 100; i++) margin.note(10, 10, SLO);
  expect(margin.us).toBe(6_300);
  expect(margin.late).toBe(1_010);
  for (let i = 0; i < 100; i++) margin.note(1_000, 0, SLO);
  expect(margin.us).toBe(0);
});

/**
 * Runs deferred batches of a model of which one run in ten takes `extra` longer than planned. @returns late answers,
 * refusals, and the margin at the end
 */
function serve(extra: Micros): { late: number; refused: number; all: number; margin: Micros } {
  let [late, refused, all, runs] = [0, 0, 0, 0];
  const cluster = new Cluster({
    gpus: 8,
    models: [CONFIG],
    runTime: ({ expectedRun }) => (expectedRun + (++runs % 10 === 0 ? extra : 0)) as Micros,
    listener: {
      finished: ({ requests }, _, end) => (late += requests.filter(({ deadline }) => end > deadline).length),
      refused: () => refused++,
    },
  });
  for (let now = 0, seq = 1; now < seconds(20); now += 500, seq++) {
    const request = { ingress: 1, seq, deadline: now + SLO, arrivedAt: now, slo: SLO, app: 0, size: 0 };
    cluster.arrive(0, request as unknown as Request);
    all++;
  }
  cluster.runUntilIdle();
  return { late, refused, all, margin: cluster.models[0]!.margin.us as Micros };
}

test("noise that makes one run in ten late is covered by the margin, so that at most one answer in a hundred is late", () => {
  const { late, refused, all, margin } = serve(millis(4));
  expect(margin).toBeGreaterThan(2_000);
  expect(late / all).toBeLessThan(0.01);
  expect(refused).toBe(0);
});

test("without noise there is no margin", () => {
  expect(serve(micros(0))).toMatchObject({ late: 0, refused: 0, margin: 0 });
});

test("a request that can just be met is offered whatever the margin is (MA1)", () => {
  const finished: number[] = [];
  const tight = new Cluster({ gpus: 1, models: [CONFIG], listener: { finished: (_, __, end) => finished.push(end) } });
  tight.models[0]!.margin.note(1_000, 1_000, SLO);
  const request = { ingress: 1, seq: 1, deadline: 6_125, arrivedAt: 0, slo: SLO, app: 0, size: 0 };
  tight.arrive(0, request as unknown as Request);
  tight.runUntilIdle();
  expect(tight.models[0]!.margin.us).toBeGreaterThan(6_000);
  expect(finished).toEqual([6_125]);
});
