import fc from "fast-check";
import { expect, test } from "vitest";
import { BoundedQueue } from "./index.ts";

test("a bounded queue does what an array does, and refuses at its bound", () => {
  const commands = fc.array(fc.constantFrom("push", "push", "shift"), { maxLength: 200 });
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 40 }), commands, (capacity, steps) => {
      const queue = new BoundedQueue<number>(capacity);
      const oracle: number[] = [];
      steps.forEach((step, i) => {
        const full = oracle.length === capacity;
        if (step === "push") {
          expect(queue.push(i)).toBe(!full);
          if (!full) oracle.push(i);
        } else expect(queue.shift()).toBe(oracle.shift());
        expect([queue.size, queue.first]).toEqual([oracle.length, oracle[0]]);
      });
      expect(Array.from({ length: queue.size }, () => queue.shift())).toEqual(oracle);
    }),
  );
});
