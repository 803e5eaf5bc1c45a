import fc from "fast-check";
import { expect, test } from "vitest";
import { TimeOrder } from "./time-order.ts";

test("moments are put in order whatever their range, and equal ones stay as they stand", () => {
  const order = new TimeOrder();
  const range = fc
    .integer({ min: 1, max: 30 })
    .chain((bits) =>
      fc.record({ end: fc.constant(2 ** bits), moments: fc.array(fc.nat(2 ** bits - 1), { maxLength: 60 }) }),
    );
  fc.assert(
    fc.property(range, fc.nat(3), ({ end, moments }, spare) => {
      const given = Uint32Array.from([...moments, ...Array<number>(spare).fill(0)]);
      const sorted = moments.map((moment, i) => ({ moment, i })).sort((a, b) => a.moment - b.moment || a.i - b.i);
      expect([...order.of(given, moments.length, end).subarray(0, moments.length)]).toEqual(sorted.map(({ i }) => i));
    }),
  );
});
