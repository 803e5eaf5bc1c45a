import fc from "fast-check";
import { expect, test } from "vitest";
import { BoundedDeque } from "./index.ts";

test("a bounded deque does what an array does, and refuses at its bound", () => {
  const commands = fc.array(fc.constantFrom("pushBack", "pushFront", "popFront", "popBack", "clear"), {
    maxLength: 200,
  });
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 40 }), commands, (capacity, steps) => {
      const deque = new BoundedDeque<number>(capacity);
      const oracle: number[] = [];
      steps.forEach((step, i) => {
        const full = oracle.length === capacity;
        if (step === "pushBack") {
          expect(deque.pushBack(i)).toBe(!full);
          if (!full) oracle.push(i);
        } else if (step === "pushFront") {
          expect(deque.pushFront(i)).toBe(!full);
          if (!full) oracle.unshift(i);
        } else if (step === "popFront") expect(deque.popFront()).toBe(oracle.shift());
        else if (step === "popBack") expect(deque.popBack()).toBe(oracle.pop());
        else if (i % 7 === 0) {
          deque.clear();
          oracle.length = 0;
        }
        expect([deque.size, deque.isFull]).toEqual([oracle.length, oracle.length === capacity]);
        expect(Array.from({ length: deque.size }, (_, at) => deque.at(at))).toEqual(oracle);
        expect([deque.at(-1), deque.at(oracle.length)]).toEqual([undefined, undefined]);
      });
    }),
  );
});
