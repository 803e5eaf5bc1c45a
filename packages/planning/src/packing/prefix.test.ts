import fc from "fast-check";
import { expect, test } from "vitest";
import { type BatchLatency, pack, residual, sharedLatency } from "../index.ts";

const affine = (alpha: number, beta: number, most = 64): BatchLatency => ({
  batchSizes: Array.from({ length: most }, (_, i) => i + 1),
  latency: (b) => (b > most ? Infinity : alpha * b + beta),
});

test("C9.9: four variants need two nodes apart and one together", () => {
  const slo = 100;
  const [full, prefix, suffix] = [affine(2, 10), affine(1.8, 9), affine(0.2, 1)];
  const apart = Array.from({ length: 4 }, (_, id) => ({ id, slo, rate: 0.06, latency: full }));
  expect(residual({ latency: full, slo }, 0.06)).toEqual({
    batchSize: 4,
    dutyCycle: expect.closeTo(66.6667, 3),
    occupancy: expect.closeTo(0.27, 6),
  });
  expect(pack(apart).nodes.map(({ items }) => items.length)).toEqual([3, 1]);

  const joint = sharedLatency({ prefix, suffixes: Array.from({ length: 4 }, () => suffix), rates: [60, 60, 60, 60] });
  for (const b of [4, 8, 16]) expect(joint.latency(b)).toBeCloseTo(2 * b + 13, 9);
  expect(pack([{ id: 0, slo, rate: 0.24, latency: joint }]).nodes.length).toBe(1);
});

test("a batch costs what the prefix and each variant's part of it do, rounded up, and a variant that nobody asks for nothing", () => {
  const joint = sharedLatency({
    prefix: affine(1, 10),
    suffixes: [affine(1, 2), affine(1, 2), affine(9, 9)],
    rates: [3, 1, 0],
  });
  expect(joint.latency(4)).toBe(14 + 5 + 3);
  expect(joint.latency(1)).toBe(11 + 3 + 3); // C7's upper bound: both present
});

test("variants together never cost more than one by one, where a prefix and its suffix cost what the whole model does", () => {
  const cost = fc.integer({ min: 0, max: 20 });
  const shape = fc.record({
    a: cost,
    b: cost,
    c: cost,
    d: cost,
    count: fc.integer({ min: 1, max: 8 }),
    each: fc.integer({ min: 1, max: 8 }),
  });
  fc.assert(
    fc.property(shape, ({ a, b, c, d, count, each }) => {
      const suffixes = Array.from({ length: count }, () => affine(c, d));
      const joint = sharedLatency({ prefix: affine(a, b), suffixes, rates: suffixes.map(() => 1) });
      expect(joint.latency(each * count)).toBeLessThanOrEqual(count * affine(a + c, b + d).latency(each) + 1e-9);
    }),
  );
});
