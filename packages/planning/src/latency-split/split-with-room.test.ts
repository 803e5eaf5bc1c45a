import fc from "fast-check";
import { expect, test } from "vitest";
import { type BatchLatency, type Query, splitLatency, splitWithRoom } from "../index.ts";

const affine = (alpha: number, beta: number, most = 64): BatchLatency => ({
  batchSizes: Array.from({ length: most }, (_, i) => i + 1),
  latency: (b) => (b > most ? Infinity : alpha * b + beta),
});
const chain = (bound: number, ...stages: { latency: BatchLatency; rate: number }[]): Query => ({
  stages: stages.map((stage, i) => ({ name: `s${i}`, ...stage })),
  edges: stages.slice(1).map((_, i) => [`s${i}`, `s${i + 1}`] as const),
  bound,
});
const budgetsOf = (split: { stages: readonly { budget: number }[] } | undefined): number[] =>
  split!.stages.map(({ budget }) => budget);

test("a stage that hardly gains by larger batches leaves the next one room; one that gains a lot doesn't", () => {
  // SSD of the 1080Ti zoo before Inception, once in ten frames: batches of 5 against 4 save it 2 %.
  const flat = chain(300, { latency: affine(23.778, 9.729), rate: 1 }, { latency: affine(1.964, 8.771), rate: 0.1 });
  const [before] = budgetsOf(splitLatency(flat));
  const after = splitWithRoom(flat, { tolerance: 0.02 })!;
  expect(before).toBeGreaterThan(255);
  expect(after.stages[0]!.budget).toBeLessThan(240);
  expect(after.room).toBeGreaterThan(10);
  const steep = chain(300, { latency: affine(8, 39), rate: 1 }, { latency: affine(1, 10), rate: 0.1 });
  const kept = splitWithRoom(steep, { tolerance: 0.02 })!;
  expect(kept.stages[0]!.budget).toBeGreaterThan(0.85 * 300);
});

test("no split on the grid within the tolerance has more room for every stage", () => {
  const drawn = fc.record({
    alpha: fc.integer({ min: 1, max: 8 }),
    beta: fc.integer({ min: 0, max: 30 }),
    rate: fc.double({ min: 0.05, max: 10, noNaN: true }),
  });
  fc.assert(
    fc.property(drawn, drawn, fc.constantFrom(0, 0.02, 0.1), fc.constantFrom(1, 2), (a, b, tolerance, fits) => {
      const stages = [a, b].map(({ alpha, beta, rate }) => ({ latency: affine(alpha, beta, 16), rate }));
      const query = chain(120, ...stages);
      const options = { step: 1, fits };
      const fewest = splitLatency(query, options);
      const found = splitWithRoom(query, { ...options, tolerance });
      if (fewest === undefined) return void expect(found).toBeUndefined();
      expect(found!.executors).toBeLessThanOrEqual(fewest.executors * (1 + tolerance) + 1e-12);
      expect(budgetsOf(found).reduce((sum, one) => sum + one, 0)).toBeLessThanOrEqual(120 + 1e-9);
      for (const [i, { batchSize, budget }] of found!.stages.entries())
        expect(fits * stages[i]!.latency.latency(batchSize) + found!.room).toBeLessThanOrEqual(budget + 1e-6);
      // The naive way: all pairs of batches, the room that both leave.
      let most = 0;
      for (let one = 1; one <= 16; one++) {
        for (let other = 1; other <= 16; other++) {
          const takes = [stages[0]!.latency.latency(one), stages[1]!.latency.latency(other)];
          const cost = (stages[0]!.rate * takes[0]!) / one + (stages[1]!.rate * takes[1]!) / other;
          const room = (120 - fits * (takes[0]! + takes[1]!)) / 2;
          if (cost <= fewest.executors * (1 + tolerance)) most = Math.max(most, room);
        }
      }
      expect(found!.room).toBeLessThanOrEqual(most + 1e-6);
      expect(found!.room).toBeGreaterThanOrEqual(most - 1 - 1e-6);
    }),
    { numRuns: 150 },
  );
});
