import { DeadlineQueue } from "@tutti/collections";
import { LatencyTable } from "@tutti/profile";
import type { ActorKey, Instant, Micros, RequestSeq } from "@tutti/units";
import fc from "fast-check";
import { expect, test } from "vitest";
import { type Request, chooseBatch } from "../index.ts";
import { BatchTargets } from "./batch-targets.ts";

/** docs/algorithms.md, A2, as printed: no bisection, no queue. */
function naiveGetBatch(
  deadlines: number[],
  target: number,
  bMax: number,
  finish: (b: number) => number,
): { drops: number; size: number } {
  const n = deadlines.length;
  let i = 0;
  let w = 0;
  while (i < n) {
    w = Math.min(target, n - i, bMax);
    if (finish(w) <= deadlines[i]!) break;
    i++;
  }
  let b = i === n ? 0 : w;
  while (i < n && i + b < n && b < bMax && finish(b + 1) <= deadlines[i]!) b++;
  return { drops: i, size: b };
}

const increments = fc.array(fc.nat(9), { minLength: 1, maxLength: 12 });
const deadlines = fc.array(fc.nat(80), { maxLength: 24 });

test("GetBatch drops and takes what the printed algorithm does, on any rising profile (A2, CHOICE-1 to CHOICE-3)", () => {
  const numbers = fc.record({
    target: fc.integer({ min: 1, max: 14 }),
    perItem: fc.nat(3),
    base: fc.nat(20),
    free: fc.nat(40),
  });
  fc.assert(
    fc.property(
      increments,
      deadlines,
      numbers,
      fc.boolean(),
      (steps, unsorted, { target, perItem, base, free }, isFree) => {
        let latency = 1;
        const points = steps.map((step, i) => ({ batchSize: i + 1, latency: (latency += step) as Micros }));
        const profile = LatencyTable.fromPoints(points);
        const gpuFree = isFree ? -Infinity : free;
        const zero = 0 as Micros;
        const queue = new DeadlineQueue<Request>(100);
        for (const [i, deadline] of unsorted.entries()) {
          const [ingress, seq] = [1 as ActorKey, i as RequestSeq];
          queue.add({
            ingress,
            seq,
            deadline: deadline as Instant,
            arrivedAt: 0 as Instant,
            slo: 1 as Micros,
            app: 0,
            size: 0,
          });
        }
        const sorted = unsorted.toSorted((a, b) => a - b);
        const finish = (b: number) => Math.max(base + perItem * b, gpuFree) + profile.latency(b);
        const expected = naiveGetBatch(sorted, target, profile.batchSizeMax, finish);
        const targets = new BatchTargets(target, { profile, ctrl: zero, perItem: zero, respond: zero });
        const refused: { deadline: number; cause: string; feasible: number }[] = [];
        const size = chooseBatch(
          {
            queue,
            latencies: profile.byBatchSize,
            batchSizeMax: profile.batchSizeMax,
            perItem: perItem as Micros,
            respond: zero,
            targets,
            keptHead: undefined,
            reserve: { us: 0 },
            isOverloaded: false,
            skipped: 0,
          },
          base as Instant,
          gpuFree as Instant,
          { refuse: ({ deadline }, cause, feasible) => refused.push({ deadline, cause, feasible }) },
        );
        expect([refused.length, size]).toEqual([expected.drops, expected.size]);
        expect(refused.map((r) => r.deadline)).toEqual(sorted.slice(0, expected.drops));
        expect(queue.take(queue.size).map((r) => r.deadline)).toEqual(sorted.slice(expected.drops));
        for (const { deadline, cause, feasible } of refused) {
          expect(cause).toBe(finish(1) > deadline ? "infeasible" : "overloaded"); // T3
          expect(feasible).toBeGreaterThan(deadline);
        }
      },
    ),
    { numRuns: 500 },
  );
});

/** The choice under lasting overload, as docs/algorithms.md, A2, states it: no bisection. */
function naiveLongestRun(
  deadlines: number[],
  bMax: number,
  finish: (b: number) => number,
  latency: (b: number) => number,
) {
  const left = deadlines.filter((deadline) => finish(1) <= deadline);
  const sizes = left.slice(0, bMax).map((_, i) => i + 1);
  const ofHead = sizes.filter((b) => finish(b) <= left[0]!).at(-1) ?? 0;
  const longest = sizes.filter((b) => finish(b) <= left[left.length - b]!).at(-1) ?? 0;
  const size = longest / latency(longest) > ofHead / latency(ofHead) ? longest : ofHead;
  const skipped = size === ofHead ? 0 : left.findIndex((deadline) => finish(size) <= deadline);
  return { drops: deadlines.length - left.length, size, skipped };
}

const overloadedQueue = (sorted: readonly number[], profile: LatencyTable) => {
  const queue = new DeadlineQueue<Request>(100);
  for (const [i, deadline] of sorted.entries()) {
    const [ingress, seq] = [1 as ActorKey, i as RequestSeq];
    const rest = { arrivedAt: 0 as Instant, slo: 1 as Micros, app: 0, size: 0 };
    queue.add({ ingress, seq, deadline: deadline as Instant, ...rest });
  }
  const zero = 0 as Micros;
  const targets = new BatchTargets(4, { profile, ctrl: zero, perItem: zero, respond: zero });
  const { byBatchSize: latencies, batchSizeMax } = profile;
  const options = {
    latencies,
    batchSizeMax,
    perItem: zero,
    respond: zero,
    targets,
    keptHead: undefined,
    reserve: { us: 0 },
  };
  return { queue, ...options, isOverloaded: true, skipped: 0 };
};

test("under lasting overload the run that serves most per time is chosen, and heads too late for it stay (A2)", () => {
  fc.assert(
    fc.property(increments, deadlines, fc.nat(20), (steps, unsorted, free) => {
      let last = 1;
      const points = steps.map((step, i) => ({ batchSize: i + 1, latency: (last += step) as Micros }));
      const profile = LatencyTable.fromPoints(points);
      const sorted = unsorted.toSorted((a, b) => a - b);
      const latency = (b: number) => (b === 0 ? 1 : profile.latency(b));
      const expected = naiveLongestRun(sorted, profile.batchSizeMax, (b) => free + latency(b), latency);
      const from = overloadedQueue(sorted, profile);
      const refused: number[] = [];
      const size = chooseBatch(from, 0 as Instant, free as Instant, { refuse: (r) => refused.push(r.deadline) });
      expect({ drops: refused.length, size, skipped: from.skipped }).toEqual(expected);
    }),
    { numRuns: 1000 },
  );
});

test("worked: of l(b) = 2b + 5 and deadlines 8, 10, 12, 12 two run, the head waits for a batch of one (A2)", () => {
  const points = [1, 2, 3, 4].map((batchSize) => ({ batchSize, latency: (2 * batchSize + 5) as Micros }));
  const from = overloadedQueue([8, 10, 12, 12], LatencyTable.fromPoints(points));
  const none = { refuse: () => expect.unreachable() };
  expect([chooseBatch(from, 0 as Instant, -Infinity as Instant, none), from.skipped]).toEqual([2, 1]);
  expect(from.queue.takeAt(1, 2).map(({ deadline }) => deadline)).toEqual([10, 12]);
  expect([from.queue.headDeadline(), from.queue.size]).toEqual([8, 2]);
  const calm = { ...overloadedQueue([8, 10, 12, 12], LatencyTable.fromPoints(points)), isOverloaded: false };
  const refused: number[] = [];
  const calmly = { refuse: ({ deadline }: Request) => void refused.push(deadline) };
  expect([chooseBatch(calm, 0 as Instant, -Infinity as Instant, calmly), refused]).toEqual([2, [8, 10]]);
});

test("a batch keeps the reserve in hand, and a head that can't is served alone as long as it can be (RES-1)", () => {
  const profile = LatencyTable.affine({ alpha: 2, beta: 5, batchSizeMax: 4 }); // 7, 9, 11, 13
  const zero = 0 as Micros;
  const targets = new BatchTargets(1, { profile, ctrl: zero, perItem: zero, respond: zero });
  const choose = (deadline: number, us: number): number => {
    const queue = overloadedQueue([deadline, deadline, deadline], profile);
    const from = { ...queue, targets, isOverloaded: false, reserve: { us } };
    return chooseBatch(from, 0 as Instant, -Infinity as Instant, { refuse: () => undefined });
  };
  expect([choose(11, 0), choose(11, 2), choose(11, 4)]).toEqual([3, 2, 1]);
  expect([choose(7, 5), choose(8, 5), choose(6, 5)]).toEqual([1, 1, 0]);
});

test("whoever has more time is kept where one with less is, whatever is kept in hand (RES-1)", () => {
  const numbers = fc.record({
    target: fc.integer({ min: 1, max: 8 }),
    us: fc.nat(20),
    more: fc.nat(20),
    n: fc.integer({ min: 1, max: 8 }),
  });
  fc.assert(
    fc.property(increments, fc.nat(80), numbers, (steps, deadline, { target, us, more, n }) => {
      let last = 1;
      const profile = LatencyTable.fromPoints(
        steps.map((step, i) => ({ batchSize: i + 1, latency: (last += step) as Micros })),
      );
      const zero = 0 as Micros;
      const targets = new BatchTargets(target, { profile, ctrl: zero, perItem: zero, respond: zero });
      const kept = (head: number): boolean => {
        const queue = overloadedQueue([head, ...Array<number>(n - 1).fill(10_000)], profile);
        const from = { ...queue, targets, isOverloaded: false, reserve: { us } };
        let isRefused = false;
        chooseBatch(from, 0 as Instant, -Infinity as Instant, { refuse: () => (isRefused = true) });
        return !isRefused;
      };
      if (kept(deadline)) expect(kept(deadline + more)).toBe(true);
    }),
    { numRuns: 500 },
  );
});
