import { type ThreadId, threadId } from "@tutti/units";
import fc from "fast-check";
import { expect, test } from "vitest";
import { ThreadSlots } from "./thread-slots.ts";

/** Some beside one another, and the last there can be. */
const thread = fc.oneof(
  fc.nat(200).map((model) => threadId(model, 0)),
  fc.nat(20).map((bucket) => threadId(2 ** 25 - 1, bucket)),
);

test("a model's slot is found as in a map, through growth and after others have gone (SLOT-1)", () => {
  fc.assert(
    fc.property(fc.array(fc.tuple(thread, fc.boolean()), { maxLength: 400, size: "max" }), (steps) => {
      const slots = new ThreadSlots();
      const oracle = new Map<ThreadId, number>();
      const spare: number[] = [];
      let next = 0;
      for (const [one, isWanted] of steps) {
        const known = oracle.get(one);
        expect(slots.get(one)).toBe(known ?? -1);
        if (known === undefined && isWanted) {
          const slot = spare.pop() ?? next++;
          oracle.set(one, slot);
          slots.set(one, slot);
        } else if (known !== undefined && !isWanted) {
          oracle.delete(one);
          slots.delete(known);
          spare.push(known);
        }
        expect(slots.size).toBe(oracle.size);
      }
      const bySlot = [...oracle].toSorted((a, b) => a[1] - b[1]);
      expect([...slots]).toEqual(bySlot);
    }),
  );
});
