/**
 * A8's flat-top and load-proportional tests of the whole loop: real schedulers, real arrivals, and a changing number of
 * accelerators.
 */
import { type Instant, type Micros, micros, millis, seconds } from "@tutti/units";
import { expect, test } from "vitest";
import { leastBusy } from "../bounds/bounds.ts";
import type { PlannerWindow } from "../results/result.ts";
import { type RunListener, simulate } from "../run.ts";
import type { Phase, PlannerOptions, Scenario } from "../scenario/scenario.ts";
import type { SimBatch } from "../cluster/simulated-cluster.ts";
import { model, smallScenario } from "../testing/small-scenario.ts";

const PLANNER: PlannerOptions = {
  ...{ epoch: seconds(1), startup: millis(200), gpusMin: 1, gpusStart: 4, rule: "work" },
};

function planned(changes: Partial<Scenario> = {}, planner: Partial<PlannerOptions> = {}): Scenario {
  return smallScenario({
    ...{ policy: "default", gpus: 16, duration: seconds(10), warmup: 0 as Micros },
    planner: { ...PLANNER, ...planner },
    ...changes,
  });
}
const windowsOf = (scenario: Scenario): readonly PlannerWindow[] => simulate(scenario).planner!.windows;
const phase = (from: number, factor: number): Phase => ({ from: seconds(from), factor });

test("a flat load is carried within two epochs from below and from above, and then nothing changes any more (A8)", () => {
  for (const gpusStart of [1, 16]) {
    const windows = windowsOf(planned({ duration: seconds(12) }, { gpusStart }));
    const settled = windows.slice(gpusStart === 1 ? 2 : 3);
    for (const { badRate, gpus, advice } of settled) {
      expect(badRate).toBeLessThan(0.01);
      expect([8, 9, 10]).toContain(gpus);
      expect(Math.abs(advice)).toBeLessThanOrEqual(1);
    }
    expect(new Set(settled.slice(2).map(({ gpus }) => gpus)).size).toBe(1);
  }
});

test("beyond what there is, good requests stay at what all accelerators carry, and the advice says what is missing (flat top)", () => {
  const most = simulate(smallScenario({ policy: "default", gpus: 6, rate: 3900, duration: seconds(4) })).goodRps;
  for (const rate of [6000, 9000]) {
    const windows = windowsOf(planned({ gpus: 6, rate, duration: seconds(6) })).slice(2);
    for (const { goodRps, gpus, advice } of windows) {
      expect(goodRps).toBeGreaterThan(0.95 * most);
      expect(gpus).toBe(6);
      // A8: r ≈ (o − p)/o of the offered rate.
      expect(advice).toBeGreaterThan(0.7 * 6 * (rate / most - 1));
    }
  }
});

test("accelerators are in proportion to the load, whatever the load (load-proportional)", () => {
  const used = [10_000, 20_000, 40_000].map((rate) => {
    const scenario = planned({ rate, gpus: 80, duration: seconds(6) }, { gpusStart: Math.round(rate / 500) });
    const windows = windowsOf(scenario).slice(3);
    const mean = windows.reduce((sum, { gpus }) => sum + gpus, 0) / windows.length;
    expect(Math.max(...windows.map(({ badRate }) => badRate))).toBeLessThan(0.01);
    // Accelerators are whole, so one more may be in use.
    expect(mean).toBeLessThan(1.15 * leastBusy({ ...scenario, duration: seconds(2) }) + 1);
    return mean;
  });
  expect(used[1]! / used[0]!).toBeCloseTo(2, 0);
  expect(used[2]! / used[1]!).toBeCloseTo(2, 0);
});

test("a step up hurts for less than an epoch, one down is followed after two, and no request is lost on the way", () => {
  const scenario = planned(
    { duration: seconds(16), phases: [phase(0, 1), phase(5, 2), phase(10, 0.5)] },
    { gpusStart: 10 },
  );
  const windows = windowsOf(scenario);
  const bad = windows.filter(({ badRate }) => badRate > 0.01).map(({ fromS }) => fromS);
  expect(bad).toEqual([5]);
  expect(windows[6]!.gpus).toBeGreaterThan(14);
  expect(windows[13]!.gpus).toBeLessThan(7);
});

test("A8's advice alone takes epochs for what measured work does in one", () => {
  const steps = { duration: seconds(12), phases: [phase(0, 1), phase(4, 2)] };
  const suffering = (rule: PlannerOptions["rule"]): number =>
    windowsOf(planned(steps, { gpusStart: 10, rule })).filter(({ fromS, badRate }) => fromS > 4 && badRate > 0.01)
      .length;
  expect(suffering("work")).toBe(0);
  expect(suffering("advice")).toBeGreaterThan(0);
});

/** Records the runs of all accelerators. */
class Observer implements RunListener {
  readonly runs: { readonly gpu: number; readonly begin: number; readonly end: number }[] = [];
  refused(): void {}
  finished({ gpu }: SimBatch, begin: Instant, end: Instant): void {
    this.runs.push({ gpu, begin, end });
  }
  busyWithin(from: number, until: number): number {
    return this.runs.reduce((sum, run) => sum + Math.max(0, Math.min(run.end, until) - Math.max(run.begin, from)), 0);
  }
}

test("busy time of a window is that of the batches in it, and no accelerator is busy that isn't paid for", () => {
  const observer = new Observer();
  const phases = [phase(0, 1), phase(3, 0.3), phase(6, 1.5)];
  const { planner } = simulate(planned({ phases, models: [model("a", 0.5), model("b", 0.5)] }, { gpusStart: 12 }), {
    listener: observer,
  });
  for (const { fromS, untilS, busy, gpus } of planner!.windows) {
    const [from, until] = [fromS * 1e6, untilS * 1e6];
    expect(busy * (until - from)).toBeCloseTo(observer.busyWithin(from, until), 0);
    expect(busy).toBeLessThanOrEqual(gpus + 1e-9);
  }
  expect(planner!.windows).toHaveLength(10);
});

test("accelerators that are asked for serve when they have started, and not before", () => {
  const startup = millis(700);
  const observer = new Observer();
  simulate(planned({ rate: 5000, duration: seconds(3) }, { gpusStart: 2, startup }), { listener: observer });
  const first = Math.min(...observer.runs.filter(({ gpu }) => gpu >= 2).map(({ begin }) => begin));
  // A look is a tenth of an epoch.
  expect(first).toBeGreaterThanOrEqual(100_000 + startup);
  expect(first).toBeLessThan(100_000 + startup + 30_000);
});

test("a run without a planner says nothing of one, and a policy that can't follow one says which can", () => {
  expect(simulate(smallScenario())).not.toHaveProperty("planner");
  expect(() => simulate(planned({ policy: "nexus" }))).toThrow("use one of Tutti's own");
});

test("equal scenarios have equal loops", () => {
  const scenario = planned({ duration: micros(4_000_000) });
  expect(simulate(scenario)).toEqual(simulate({ ...scenario }));
});
