import fc from "fast-check";
import { expect, test } from "vitest";
import { FairQueue } from "./index.ts";

test("each owner's items come in their order, owners take turns, and nothing is lost or invented", () => {
  const steps = fc.array(fc.tuple(fc.constantFrom("push", "shift", "room", "remove"), fc.constantFrom("a", "b", "c")));
  fc.assert(
    fc.property(steps, (commands) => {
      const queue = new FairQueue<string>();
      const held: { owner: string; item: string }[] = [];
      let number = 0;
      for (const [command, owner] of commands) {
        const counts = new Map(
          [...new Set(held.map((one) => one.owner))].map((of) => [of, held.filter((one) => one.owner === of).length]),
        );
        if (command === "push") {
          held.push({ owner, item: `${owner}${++number}` });
          queue.push(owner, `${owner}${number}`);
        } else if (command === "shift") {
          const item = queue.shift();
          expect(item).toBe(held.find((one) => one.owner === item?.[0])?.item);
          if (item !== undefined)
            held.splice(
              held.findIndex((one) => one.item === item),
              1,
            );
        } else if (command === "room") {
          const item = queue.makeRoom(owner);
          const most = Math.max(0, ...counts.values());
          expect(item === undefined).toBe(most <= (counts.get(owner) ?? 0) + 1);
          if (item === undefined) continue;
          expect(counts.get(item[0]!)).toBe(most);
          expect(item).toBe(held.findLast((one) => one.owner === item[0])?.item);
          held.splice(
            held.findIndex((one) => one.item === item),
            1,
          );
        } else {
          const at = held.findIndex((one) => one.owner === owner);
          expect(queue.remove(owner, held[at]?.item ?? "none")).toBe(at >= 0);
          if (at >= 0) held.splice(at, 1);
        }
        expect(queue.size).toBe(held.length);
      }
      expect(queue.clear().sort()).toEqual(held.map(({ item }) => item).sort());
    }),
  );
});

test("an owner with one item waits for one of each other owner at most", () => {
  const queue = new FairQueue<string>();
  for (let i = 0; i < 50; i++) queue.push("flood", `flood ${i}`);
  queue.push("other", "other");
  expect([queue.shift(), queue.shift()]).toEqual(["flood 0", "other"]);
});

test("an owner whose items are pushed out wholly keeps no turn", () => {
  const queue = new FairQueue<number>();
  queue.push("a", 1);
  queue.push("a", 2);
  queue.push("a", 3);
  expect([queue.makeRoom("b"), queue.makeRoom("b"), queue.size]).toEqual([3, 2, 1]);
  expect([queue.shift(), queue.shift()]).toEqual([1, undefined]);
});
