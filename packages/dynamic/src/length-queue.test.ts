import fc from "fast-check";
import { expect, test } from "vitest";
import { BatchLevels, LengthQueue, affineCosts, histogramOf, pointHistogram } from "./index.ts";

const MS = 1_000;
const SIZES = [1, 2, 3, 4, 6, 8];
const ALONE = [
  histogramOf(Array.from({ length: 200 }, (_, i) => 250 * MS + 300 * i)),
  pointHistogram(40 * MS),
  histogramOf(Array.from({ length: 200 }, (_, i) => (i % 2 === 0 ? 60 * MS : 200 * MS) + 40 * i)),
];
const levels = (certainty: number): BatchLevels =>
  new BatchLevels({
    classes: ALONE.map((alone) => ({ alone, share: 1 })),
    sizes: SIZES,
    costs: affineCosts(15 * MS, 0.25),
    chances: 3e-7,
    certainty,
  });
const [LIKELY, CERTAIN] = [levels(0.5), levels(0.9)];

interface Asked {
  readonly id: number;
  readonly deadline: number;
  readonly oneClass: number;
}

/** Reference implementation by exhaustive search. */
class Naive {
  waiting: Asked[] = [];

  get inOrder(): Asked[] {
    return this.waiting.toSorted((a, b) => a.deadline - b.deadline || a.id - b.id);
  }
  drop(start: number): Asked[] {
    const late = this.inOrder.filter(
      ({ deadline, oneClass }) => start + LIKELY.needed(LIKELY.levelOf(oneClass), 0) > deadline,
    );
    this.waiting = this.waiting.filter((one) => !late.includes(one));
    return late;
  }
  /** Score of the best batch. */
  best(base: number, perItem: number, free: number): number {
    let best = 0;
    for (let level = 0; level < ALONE.length; level++)
      for (const [place, size] of SIZES.entries())
        for (const needed of [LIKELY.needed(level, place), CERTAIN.needed(level, place)]) {
          const start = Math.max(base + perItem * size, free);
          const fits = this.inOrder.filter(
            ({ deadline, oneClass }) => LIKELY.levelOf(oneClass) <= level && deadline >= start + needed,
          );
          if (fits.length < size) continue;
          const worth = fits
            .slice(0, size)
            .reduce((sum, { deadline }) => sum + LIKELY.score(level, place, deadline - start), 0);
          best = Math.max(best, worth);
        }
    return best;
  }
}

const anyStep = fc.oneof(
  {
    weight: 5,
    arbitrary: fc.record({
      do: fc.constant("add" as const),
      oneClass: fc.nat(2),
      slo: fc.integer({ min: 10, max: 900 }),
    }),
  },
  { weight: 2, arbitrary: fc.record({ do: fc.constant("run" as const), after: fc.nat(80), free: fc.nat(60) }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant("remove" as const), which: fc.nat() }) },
);

test("the chosen batch is worth as much as the best of all, and everybody leaves exactly once (LQ1 to LQ3)", () => {
  let batches = 0;
  fc.assert(
    fc.property(fc.array(anyStep, { minLength: 20, maxLength: 80, size: "max" }), fc.nat(500), (steps, perItem) => {
      const queue = new LengthQueue<Asked>(LIKELY, CERTAIN);
      const naive = new Naive();
      const left = new Set<number>();
      const leave = ({ id }: Asked): void => {
        expect(left.has(id)).toBe(false);
        left.add(id);
      };
      let now = 1_000_000;
      for (const [id, step] of steps.entries()) {
        if (step.do === "add") {
          const asked = { id, deadline: now + step.slo * MS, oneClass: step.oneClass };
          queue.add(asked, asked.oneClass);
          naive.waiting.push(asked);
        } else if (step.do === "remove") {
          const one = naive.waiting[step.which % Math.max(1, naive.waiting.length)];
          if (one === undefined) continue;
          expect(queue.remove(one)).toBe(true);
          expect(queue.remove(one)).toBe(false);
          naive.waiting = naive.waiting.filter((other) => other !== one);
          leave(one);
        } else {
          now += step.after * MS;
          const free = now + step.free * MS;
          const dropped: Asked[] = [];
          queue.dropUntil(Math.max(now, free), (one) => dropped.push(one));
          expect(dropped).toEqual(naive.drop(Math.max(now, free)));
          dropped.forEach(leave);
          const { size, level, place, deadline, needed } = queue.choose(now, perItem, free);
          const best = naive.best(now, perItem, free);
          if (best === 0) {
            expect(size).toBe(0);
            continue;
          }
          batches++;
          const start = Math.max(now + perItem * size, free);
          const taken = queue.take();
          expect(taken.length).toBe(SIZES[place]);
          expect(taken[0]!.deadline).toBe(deadline);
          expect(deadline).toBeGreaterThanOrEqual(start + needed);
          const worth = taken.reduce((sum, one) => sum + LIKELY.score(level, place, one.deadline - start), 0);
          expect(worth / best).toBeCloseTo(1, 9);
          for (const one of taken) expect(LIKELY.levelOf(one.oneClass)).toBeLessThanOrEqual(level);
          naive.waiting = naive.waiting.filter((one) => !taken.includes(one));
          taken.forEach(leave);
        }
        expect(queue.size).toBe(naive.waiting.length);
      }
    }),
  );
  expect(batches).toBeGreaterThan(500);
});

test("a thousand requests of one deadline order keep the queue's memory to what waits", () => {
  const queue = new LengthQueue<Asked>(LIKELY, CERTAIN);
  const all = Array.from({ length: 1_000 }, (_, id) => ({ id, deadline: 2_000_000 + 10 * id, oneClass: id % 3 }));
  for (const one of all) {
    queue.add(one, one.oneClass);
    if (one.id % 10 !== 0) expect(queue.remove(one)).toBe(true);
  }
  expect(queue.size).toBe(100);
  queue.removeWhere(({ id }) => id < 500);
  expect(queue.size).toBe(50);
  queue.refresh(LIKELY, CERTAIN, () => 1);
  expect(queue.choose(1_000_000, 0, -Infinity)).toMatchObject({
    size: 8,
    level: LIKELY.levelOf(1),
    deadline: 2_005_000,
  });
  expect(queue.take().map(({ id }) => id)).toEqual([500, 510, 520, 530, 540, 550, 560, 570]);
});
