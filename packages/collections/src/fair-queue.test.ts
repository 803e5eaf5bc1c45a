import fc from "fast-check";
import { expect, test } from "vitest";
import { FairQueue, OWNERS_CHARGED_MAX } from "./index.ts";

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

test("owners whose items cost differently share the costs, not the number of items", () => {
  const queue = new FairQueue<string>();
  const costs = new Map([
    ["heavy", 50],
    ["light", 1],
  ]);
  const used = { heavy: 0, light: 0 };
  for (let i = 0; i < 1_000; i++) for (const owner of costs.keys()) queue.push(owner, owner);
  for (let i = 0; i < 510; i++) {
    const owner = queue.shift() as "heavy" | "light";
    used[owner] += costs.get(owner)!;
    queue.charge(owner, costs.get(owner)!);
  }
  expect(Math.abs(used.heavy - used.light)).toBeLessThanOrEqual(50);
});

test("an owner that comes late neither waits for what others used before nor pays them back", () => {
  const queue = new FairQueue<string>();
  for (let i = 0; i < 100; i++) {
    queue.push("old", "old");
    queue.shift();
    queue.charge("old", 10);
  }
  for (let i = 0; i < 4; i++) for (const owner of ["old", "new"]) queue.push(owner, owner);
  const order = Array.from({ length: 8 }, () => {
    const owner = queue.shift()!;
    queue.charge(owner, 10);
    return owner;
  });
  expect(order.slice(0, 4).toSorted()).toEqual(["new", "new", "old", "old"]);
});

test("an owner that may take nothing now is passed over and keeps its turn", () => {
  const queue = new FairQueue<string>();
  queue.push("a", "a");
  queue.push("b", "b");
  expect([queue.shift((owner) => owner !== "a"), queue.shift(() => false), queue.shift()]).toEqual([
    "b",
    undefined,
    "a",
  ]);
});

test("charges of more owners than are remembered are forgotten, the oldest first (T7)", () => {
  const queue = new FairQueue<number>();
  for (let i = 0; i < 3 * OWNERS_CHARGED_MAX; i++) queue.charge(`owner ${i}`, 5);
  queue.push("owner 0", 0);
  queue.push(`owner ${3 * OWNERS_CHARGED_MAX - 1}`, 1);
  expect([queue.shift(), queue.shift()]).toEqual([0, 1]);
});

test("an owner whose items are pushed out wholly keeps no turn", () => {
  const queue = new FairQueue<number>();
  queue.push("a", 1);
  queue.push("a", 2);
  queue.push("a", 3);
  expect([queue.makeRoom("b"), queue.makeRoom("b"), queue.size]).toEqual([3, 2, 1]);
  expect([queue.shift(), queue.shift()]).toEqual([1, undefined]);
});
