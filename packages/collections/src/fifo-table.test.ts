import fc from "fast-check";
import { expect, test } from "vitest";
import { FifoTable } from "./index.ts";

test("each queue of a table gives out what came in, in order, whatever the others do (FT1)", () => {
  fc.assert(
    fc.property(fc.array(fc.record({ id: fc.nat(2), isPush: fc.boolean() }), { maxLength: 80 }), (commands) => {
      const table = new FifoTable<number>(3);
      const oracle: number[][] = [[], [], []];
      for (const [i, { id, isPush }] of commands.entries()) {
        if (isPush) {
          table.push(id, i);
          oracle[id]!.push(i);
        } else expect(table.shift(id)).toBe(oracle[id]!.shift());
        expect(table.first(id)).toBe(oracle[id]![0]);
        expect([0, 1, 2].map((one) => table.items(one))).toEqual(oracle);
      }
    }),
  );
});
