import { type Micros, micros } from "@tutti/units";
import fc from "fast-check";
import { expect, test } from "vitest";
import { LatencyTable } from "./index.ts";

const point = (batchSize: number, latency: number) => ({ batchSize, latency: latency as Micros });
const points = fc
  .uniqueArray(fc.record({ batchSize: fc.integer({ min: 1, max: 64 }), latency: fc.integer({ min: 1, max: 1e6 }) }), {
    minLength: 1,
    maxLength: 10,
    selector: (p) => p.batchSize,
  })
  .map((list) => list.map((p) => point(p.batchSize, p.latency)));

test("a latency table is whole, rising, at least what was measured, and infinite beyond its largest size (TABLE-1, TABLE-2)", () => {
  fc.assert(
    fc.property(points, fc.constantFrom("interpolate" as const, "pad-up" as const), (given, between) => {
      const table = LatencyTable.fromPoints(given, { between });
      expect(table.batchSizeMax).toBe(Math.max(...given.map((p) => p.batchSize)));
      for (let b = 1; b <= table.batchSizeMax; b++) {
        expect(Number.isInteger(table.latency(b))).toBe(true);
        expect(table.latency(b)).toBeGreaterThanOrEqual(b === 1 ? 1 : table.latency(b - 1));
      }
      for (const p of given) expect(table.latency(p.batchSize)).toBeGreaterThanOrEqual(p.latency);
      expect(table.latency(table.batchSizeMax + 1)).toBe(Infinity);
      expect(LatencyTable.fromPoints(table.toPoints()).toPoints()).toEqual(table.toPoints());
    }),
  );
});

test("between measured sizes a table interpolates upwards, or pads up to the next size", () => {
  const given = [point(4, 101), point(1, 50), point(2, 60)];
  const at = (table: LatencyTable) => [1, 2, 3, 4].map((b) => table.latency(b));
  expect(at(LatencyTable.fromPoints(given))).toEqual([50, 60, 81, 101]);
  expect(at(LatencyTable.fromPoints(given, { between: "pad-up" }))).toEqual([50, 60, 101, 101]);
  expect(LatencyTable.fromPoints(given, { batchSizeMax: 3 }).batchSizeMax).toBe(3);
  expect(LatencyTable.fromPoints(given, { batchSizeMax: 9 }).batchSizeMax).toBe(4);
  expect(LatencyTable.fromPoints([point(4, 100)]).latency(1)).toBe(100);
});

test("the slowest of several tables is the slowest at every size they share", () => {
  const a = LatencyTable.fromPoints([point(1, 10), point(2, 40), point(3, 50)]);
  const b = LatencyTable.fromPoints([point(1, 20), point(2, 30)]);
  expect(LatencyTable.slowest([a, b]).toPoints()).toEqual([point(1, 20), point(2, 40)]);
});

test("the fitted line is the table's own line, and never has a negative part", () => {
  const straight = LatencyTable.fromPoints([1, 2, 4, 8].map((b) => point(b, 1053 * b + 5072)));
  expect(straight.alpha).toBeCloseTo(1053, 3);
  expect(straight.beta).toBeCloseTo(5072, 3);
  fc.assert(
    fc.property(points, (given) => {
      const { alpha, beta } = LatencyTable.fromPoints(given);
      expect(alpha).toBeGreaterThanOrEqual(0);
      expect(beta).toBeGreaterThanOrEqual(0);
    }),
  );
  expect(LatencyTable.affine({ alpha: 1000, beta: 5000, batchSizeMax: 4 }).latency(4)).toBe(micros(9000));
});

test("a profile that no executor could have is a broken invariant", () => {
  expect(() => LatencyTable.fromPoints([])).toThrow("without points");
  expect(() => LatencyTable.fromPoints([point(1, 5), point(1, 6)])).toThrow("twice");
  expect(() => LatencyTable.fromPoints([point(1, 0)])).toThrow("cannot take 0");
  expect(() => LatencyTable.fromPoints([point(0, 5)])).toThrow("batch size 0");
});
