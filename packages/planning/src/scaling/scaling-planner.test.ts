import { Prng } from "@tutti/units";
import { expect, test } from "vitest";
import { ScalingPlanner, dispersionOf, needOf } from "../index.ts";

test("the need is the work that comes and the square root of what it varies within an SLO", () => {
  // 5 requests per ms of 1.4 ms: 7 executors; within 25 ms 125 requests come, give or take 11, which take 15.65 ms:
  // 0.626 executors.
  const { work, room } = needOf([{ rate: 5, work: 1.4, slo: 25 }], 2);
  expect(work).toBeCloseTo(7, 12);
  expect(room).toBeCloseTo(2 * ((1.4 * Math.sqrt(125)) / 25), 12);
  // Ten such models swing √10 times as much, not ten times; arrivals that swing four times as much take twice the room.
  const ten = needOf(
    Array.from({ length: 10 }, () => ({ rate: 5, work: 1.4, slo: 25 })),
    2,
  );
  expect([ten.work, ten.room]).toEqual([expect.closeTo(70, 9), expect.closeTo(room * Math.sqrt(10), 9)]);
  expect(needOf([{ rate: 5, work: 1.4, slo: 25, dispersion: 4 }], 2).room).toBeCloseTo(2 * room, 12);
});

test("counts of Poisson arrivals have dispersion 1, those in groups of nine 9, and neither a trend nor a step changes that", () => {
  const prng = new Prng(3);
  const poisson = (mean: number): number => {
    let [count, left] = [0, prng.nextExponential(1)];
    for (; left < mean; left += prng.nextExponential(1)) count++;
    return count;
  };
  const counts = (of: (i: number) => number): number[] => Array.from({ length: 4000 }, (_, i) => of(i));
  expect(dispersionOf(counts(() => poisson(50)))).toBeCloseTo(1, 0);
  expect(dispersionOf(counts((i) => poisson(50 + i / 40)))).toBeCloseTo(1, 0);
  expect(dispersionOf(counts((i) => poisson(i < 2000 ? 50 : 150)))).toBeLessThan(1.2);
  const grouped = dispersionOf(counts(() => 9 * poisson(50)));
  expect(grouped).toBeGreaterThan(8);
  expect(grouped).toBeLessThan(10);
  expect(dispersionOf([0, 0, 0, 0])).toBe(1);
  expect(dispersionOf([7])).toBe(1);
});

/** A cluster whose capacity is its executors' time, in looks of 100 ms. */
class Idealised {
  readonly planner: ScalingPlanner;
  executors: number;
  offered = 0;
  constructor(start: number, rule: "work" | "advice" = "work", executorsMax = 1000) {
    this.planner = new ScalingPlanner({ models: [{ slo: 50, work: 1 }], executorsMax, rule });
    this.executors = start;
  }
  /** @returns whether a rate left its band */
  look(rate: number): boolean {
    const arrivals = [100 * rate];
    const served = [Math.min(arrivals[0]!, 100 * this.executors)];
    return this.planner.look({ millis: 100, arrivals, served, busy: served }, this.executors);
  }
  step(rate: number, isSteady = true) {
    const bad = Math.max(0, Math.round(1000 * rate) - 1000 * this.executors);
    const idleShare = Math.max(0, 1 - rate / this.executors);
    const step = this.planner.step({
      executors: this.executors,
      bad,
      total: Math.round(1000 * rate),
      idleShare,
      isSteady,
    });
    this.executors = step.executors;
    return step;
  }
}

test("a rate that leaves its band is answered within a look, with what it needs and no more (SP1)", () => {
  const cluster = new Idealised(12);
  for (let i = 0; i < 10; i++) expect(cluster.look(10)).toBe(false);
  expect(cluster.step(10).executors).toBe(12);
  expect(cluster.look(30)).toBe(true);
  const { executors, need } = cluster.step(30, false);
  expect(need.work).toBeCloseTo(30, 9);
  expect(executors).toBe(Math.ceil(30 + 0.5 * Math.sqrt(30 / 50)));
  // By chance alone so many come: nothing is sure.
  expect(new Idealised(10).look(10.3)).toBe(false);
  expect(new Idealised(10).look(12)).toBe(true);
});

test("what is bad while executors start asks for nothing, for its remedy is on the way (SP2)", () => {
  const cluster = new Idealised(10, "advice");
  cluster.look(20);
  expect(cluster.step(20, false).executors).toBe(10);
  expect(cluster.step(20, true).executors).toBe(20);
});

test("a workload that suffers although its work's need is met gets more, keeps it, and gives it back slowly (SP3)", () => {
  const planner = new ScalingPlanner({ models: [{ slo: 50, work: 1 }], executorsMax: 1000 });
  const epoch = (executors: number, bad: number) => {
    const rate = [1000];
    for (let i = 0; i < 10; i++) planner.look({ millis: 100, arrivals: rate, served: rate, busy: rate }, executors);
    return planner.step({ executors, bad, total: 10_000, idleShare: Math.max(0, 1 - 10 / executors), isSteady: true });
  };
  expect(epoch(11, 1000).executors).toBe(13);
  const after = Array.from({ length: 4 }, () => epoch(13, 0).executors);
  expect(Math.min(...after)).toBeGreaterThan(11);
  let executors = 13;
  for (let i = 0; i < 40; i++) executors = epoch(executors, 0).executors;
  expect(executors).toBe(11);
});

test("advice alone finds the same capacity, from above and from below, and later", () => {
  for (const start of [5, 40]) {
    const epochs = (rule: "work" | "advice"): number => {
      const cluster = new Idealised(start, rule);
      for (let i = 1; i <= 40; i++) {
        for (let look = 0; look < 10; look++) cluster.look(20);
        cluster.step(20);
        if (cluster.executors >= 20 && cluster.executors <= 21) return i;
      }
      return Infinity;
    };
    expect(epochs("work")).toBeLessThanOrEqual(epochs("advice"));
    expect(epochs("advice")).toBeLessThan(10);
  }
});

test("never fewer than the least, never more than there are, and the advice says how many are missing", () => {
  const few = new Idealised(10, "work", 16);
  for (let i = 0; i < 10; i++) few.look(30);
  const step = few.step(30);
  expect([step.executors, step.fewest]).toEqual([16, 31]);
  const planner = new ScalingPlanner({ models: [{ slo: 50, work: 1 }], executorsMin: 4, executorsMax: 16 });
  const nothing = { millis: 100, arrivals: [0], served: [0], busy: [0] };
  let executors = 16;
  for (let i = 0; i < 6; i++) {
    planner.look(nothing, executors);
    executors = planner.step({ executors, bad: 0, total: 0, idleShare: 1, isSteady: true }).executors;
  }
  expect(executors).toBe(4);
});
