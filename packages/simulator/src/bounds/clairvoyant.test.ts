import fc from "fast-check";
import { Prng } from "@tutti/units";
import { expect, test } from "vitest";
import { type BatchCosts, type ClairvoyantStream, leastTime, pricedSchedule } from "./clairvoyant.ts";

/**
 * Up to seven requests in order of deadline (where SLOs differ, arrivals needn't be in order), and up to four batch
 * sizes.
 */
const instancesOf = (slo: fc.Arbitrary<number>) =>
  fc
    .record({
      requests: fc.array(fc.record({ at: fc.nat(30), slo }), { minLength: 1, maxLength: 7 }),
      steps: fc.array(fc.integer({ min: 0, max: 5 }), { minLength: 1, maxLength: 4 }),
      delay: fc.nat(3),
    })
    .map(({ requests, steps, delay }) => {
      const sorted = requests
        .map(({ at, slo }) => ({ at, deadline: at + slo }))
        .sort((a, b) => a.deadline - b.deadline);
      const stream: ClairvoyantStream = {
        arrivals: Float64Array.from(sorted, ({ at }) => at),
        deadlines: Float64Array.from(sorted, ({ deadline }) => deadline),
      };
      const raw = (b: number) => 2 + steps.slice(0, b).reduce((sum, step) => sum + step, 0);
      const run = Float64Array.from({ length: steps.length + 1 }, (_, b) => raw(b));
      const costs: BatchCosts = { run, finish: run.map((latency) => latency + delay) };
      return { stream, costs };
    });
const oneSlo = fc.integer({ min: 4, max: 25 }).chain((slo) => instancesOf(fc.constant(slo)));
const anySlo = instancesOf(fc.integer({ min: 4, max: 25 }));

test("at any price of a skip the schedule is the best of all that serve in order of deadline (BOUND-1, BOUND-2)", () => {
  fc.assert(
    fc.property(oneSlo, fc.nat(12), ({ stream, costs }, price) => {
      const { time, skipped } = pricedSchedule(stream, costs, price);
      const best = Math.min(...byTrial(stream, costs).map((least, skips) => least + price * skips));
      expect(time + price * skipped).toBeCloseTo(best, 9);
    }),
    { numRuns: 300 },
  );
});

test("the bound is at most the least time with so many skips (BOUND-3)", () => {
  fc.assert(
    fc.property(oneSlo, fc.nat(3), ({ stream, costs }, skippable) => {
      const least = Math.min(...byTrial(stream, costs).slice(0, skippable + 1));
      expect(leastTime(stream, costs, { skippable }).time).toBeLessThanOrEqual(least + 1e-9);
    }),
    { numRuns: 300 },
  );
});

test("where nothing may be skipped and all can be served, the bound is the least time, whatever the SLOs (BOUND-1)", () => {
  fc.assert(
    fc.property(anySlo, ({ stream, costs }) => {
      const [least = Infinity] = byTrial(stream, costs);
      fc.pre(least < Infinity);
      expect(leastTime(stream, costs, { skippable: 0 }).time).toBeCloseTo(least, 9);
    }),
    { numRuns: 300 },
  );
});

test("with many requests hardly anything lies between the bound and a schedule", () => {
  const arrivals = Float64Array.from({ length: 5000 }, (_, i) => i * 200 + ((i * 7919) % 1000));
  arrivals.sort();
  const stream = { arrivals, deadlines: arrivals.map((at) => at + 25_000) };
  const run = Float64Array.from({ length: 65 }, (_, b) => 5072 + 1053 * b);
  const costs = { run, finish: run };
  const { time, price } = leastTime(stream, costs, { skippable: 50 });
  // A little dearer, and a schedule skips no more than is allowed: what it takes is an upper bound.
  const schedule = pricedSchedule(stream, costs, price * 1.02);
  expect(schedule.skipped).toBeLessThanOrEqual(50);
  expect(schedule.time).toBeGreaterThanOrEqual(time);
  expect(schedule.time / time).toBeLessThan(1.01);
});

test("serving out of order saves less than 0.1 % of random arrivals' time: the order costs the bound nothing", () => {
  const prng = new Prng(7);
  let inOrder = 0;
  let inAnyOrder = 0;
  for (const [alpha, beta, slo] of [
    [1053, 5072, 25_000],
    [5090, 18_368, 70_000],
    [7353, 222, 59_000],
    [54, 10_546, 21_000],
  ] as const) {
    const run = Float64Array.from({ length: 10 }, (_, b) => alpha * b + beta);
    for (let i = 0; i < 100; i++) {
      let at = 0;
      const gap = slo * (0.03 + 0.3 * prng.nextFloat());
      const arrivals = Float64Array.from({ length: 9 }, () => (at += prng.nextExponential(1 / gap)));
      const stream = { arrivals, deadlines: arrivals.map((arrival) => arrival + slo) };
      inOrder += pricedSchedule(stream, { run, finish: run }, 1e9).time;
      inAnyOrder += leastInAnyOrder(stream, run);
    }
  }
  expect(inAnyOrder).toBeLessThanOrEqual(inOrder + 1e-3);
  expect(inOrder / inAnyOrder).toBeLessThan(1.001);
});

/** Over all partitions into batches, consecutive or not, without skips; a set of requests is a bit mask. */
function leastInAnyOrder({ arrivals, deadlines }: ClairvoyantStream, run: Float64Array): number {
  const sets = 1 << arrivals.length;
  const alone = new Float64Array(sets).fill(Infinity);
  for (let set = 1; set < sets; set++) {
    const members = Array.from(arrivals.keys()).filter((i) => (set >> i) & 1);
    const time = run[members.length] ?? Infinity;
    if (arrivals[members.at(-1)!]! + time <= deadlines[members[0]!]!) alone[set] = time;
  }
  const least = new Float64Array(sets).fill(Infinity);
  least[0] = 0;
  for (let set = 1; set < sets; set++) {
    const first = set & -set;
    for (let batch = set; batch > 0; batch = (batch - 1) & set) {
      if ((batch & first) !== 0) least[set] = Math.min(least[set]!, alone[batch]! + least[set ^ batch]!);
    }
  }
  return least[sets - 1]!;
}

/**
 * Least time by number of skips, over every way to skip requests, inside batches too, and to cut what remains into
 * batches.
 */
function byTrial({ arrivals, deadlines }: ClairvoyantStream, { run, finish }: BatchCosts): number[] {
  const count = arrivals.length;
  const least = new Array<number>(count + 1).fill(Infinity);
  const extend = (from: number, batch: readonly number[], skips: number, time: number): void => {
    const closed = batch.length === 0 ? time : time + costOf(batch);
    if (closed === Infinity) return;
    if (from === count) {
      least[skips] = Math.min(least[skips]!, closed);
      return;
    }
    extend(from + 1, batch, skips + 1, time);
    extend(from + 1, [...batch, from], skips, time);
    if (batch.length > 0) extend(from + 1, [from], skips, closed);
  };
  const costOf = (batch: readonly number[]): number => {
    if (batch.length >= run.length) return Infinity;
    const last = Math.max(...batch.map((i) => arrivals[i]!));
    return last + finish[batch.length]! <= deadlines[batch[0]!]! ? run[batch.length]! : Infinity;
  };
  extend(0, [], 0, 0);
  return least;
}
