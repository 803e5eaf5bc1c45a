import fc from "fast-check";
import { expect, test } from "vitest";
import { DeadlineQueue, type Queued } from "./index.ts";

const inOrder = (a: Queued, b: Queued) => a.deadline - b.deadline || a.ingress - b.ingress || a.seq - b.seq;
const command = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.record({
      do: fc.constant("add" as const),
      deadline: fc.nat(12),
      ingress: fc.integer({ min: 1, max: 3 }),
      seq: fc.nat(30),
    }),
  },
  {
    weight: 3,
    arbitrary: fc.record({
      do: fc.constant("remove" as const),
      deadline: fc.constant(0),
      ingress: fc.integer({ min: 1, max: 3 }),
      seq: fc.nat(30),
    }),
  },
  {
    weight: 2,
    arbitrary: fc.record({
      do: fc.constantFrom("shift" as const, "take" as const, "order" as const),
      deadline: fc.constant(0),
      ingress: fc.constant(1),
      seq: fc.nat(5),
    }),
  },
  {
    weight: 1,
    arbitrary: fc.record({
      do: fc.constant("lose" as const),
      deadline: fc.constant(0),
      ingress: fc.integer({ min: 1, max: 3 }),
      seq: fc.constant(0),
    }),
  },
);

test("a deadline queue holds and gives out what a sorted list would, whatever order requests come in (Q1, Q3)", () => {
  fc.assert(
    fc.property(
      fc.array(command, { maxLength: 160 }),
      fc.integer({ min: 1, max: 60 }),
      fc.boolean(),
      (commands, capacity, rising) => {
        const queue = new DeadlineQueue<Queued>(capacity);
        let oracle: Queued[] = [];
        commands.forEach((given, i) => {
          const { ingress, seq } = given;
          const known = oracle.findIndex((r) => r.ingress === ingress && r.seq === seq);
          if (given.do === "add") {
            // rising: mostly monotone deadlines, as requests of one SLO have them
            const request = { deadline: rising ? i + (given.deadline % 4) : given.deadline, ingress, seq };
            const full = oracle.length === capacity;
            expect(queue.add(request)).toBe(known >= 0 ? "repeated" : full ? "full" : "added");
            if (known < 0 && !full) oracle = [...oracle, request].sort(inOrder);
          } else if (given.do === "remove")
            expect(queue.remove(ingress, seq)).toBe(known < 0 ? undefined : oracle.splice(known, 1)[0]);
          else if (given.do === "shift") expect(queue.shift()).toBe(oracle.shift());
          else if (given.do === "take") {
            const count = Math.min(seq, oracle.length);
            expect(queue.take(count)).toEqual(oracle.splice(0, count));
          } else if (given.do === "order") {
            queue.makeRun();
            expect(queue.isRun()).toBe(true);
            expect(oracle.map((_, place) => queue.at(place))).toEqual(oracle);
          } else {
            const left = oracle.filter((r) => r.ingress !== ingress);
            expect(queue.removeIngress(ingress)).toBe(oracle.length - left.length);
            oracle = left;
          }
          expect(queue.size).toBe(oracle.length);
          expect(queue.head()).toBe(oracle[0]);
          expect(queue.headDeadline()).toBe(oracle[0]?.deadline ?? Infinity);
          expect(queue.has(ingress, seq)).toBe(oracle.some((r) => r.ingress === ingress && r.seq === seq));
        });
        expect(queue.take(queue.size)).toEqual(oracle);
      },
    ),
    { numRuns: 300 },
  );
});

test("requests taken from the middle leave the rest in order, and each still known (Q1, Q4)", () => {
  const turn = fc.record({
    adds: fc.nat(6),
    ingress: fc.integer({ min: 1, max: 2 }),
    remove: fc.nat(40),
    first: fc.nat(8),
    count: fc.nat(5),
  });
  fc.assert(
    fc.property(fc.array(turn, { maxLength: 60 }), (turns) => {
      const queue = new DeadlineQueue<Queued>(100);
      let oracle: Queued[] = [];
      let seq = 0;
      for (const { adds, ingress, remove, first, count } of turns) {
        for (let i = 0; i < adds; i++) {
          const request = { deadline: seq, ingress, seq: seq++ };
          if (queue.add(request) === "added") oracle.push(request);
        }
        const withdrawn = oracle[remove];
        if (withdrawn !== undefined) {
          expect(queue.remove(withdrawn.ingress, withdrawn.seq)).toBe(withdrawn);
          oracle = oracle.filter((request) => request !== withdrawn);
        }
        if (!queue.isRun()) continue; // a few have left from the middle
        expect(oracle.map((_, place) => queue.at(place))).toEqual(oracle);
        if (first + count > oracle.length) continue;
        expect(queue.takeAt(first, count)).toEqual(oracle.splice(first, count));
        expect(queue.size).toBe(oracle.length);
        for (const one of oracle) expect(queue.has(one.ingress, one.seq)).toBe(true);
      }
      expect(queue.take(queue.size)).toEqual(oracle);
    }),
    { numRuns: 300 },
  );
});

const step = fc.oneof(
  { weight: 12, arbitrary: fc.record({ do: fc.constant("add" as const), back: fc.constant(0), jump: fc.nat(3) }) },
  { weight: 2, arbitrary: fc.record({ do: fc.constant("take" as const), back: fc.nat(4), jump: fc.constant(0) }) },
  {
    weight: 3,
    arbitrary: fc.record({ do: fc.constantFrom("again", "other", "remove"), back: fc.nat(40), jump: fc.nat(3) }),
  },
);

test("a queue that has not been asked for identities yet knows them all when it is: repeated, of another ingress, or withdrawn (Q4)", () => {
  fc.assert(
    fc.property(fc.array(step, { maxLength: 160, size: "max" }), fc.integer({ min: 3, max: 90 }), (steps, capacity) => {
      const queue = new DeadlineQueue<Queued>(capacity);
      let oracle: Queued[] = [];
      for (const [i, { do: what, back, jump }] of steps.entries()) {
        const seq = Math.max(0, i - back);
        const ingress = what === "other" ? 2 : 1;
        const known = oracle.find((r) => r.ingress === ingress && r.seq === seq);
        if (what === "take") {
          const count = Math.min(back, oracle.length);
          expect(queue.take(count)).toEqual(oracle.splice(0, count));
        } else if (what === "remove") {
          expect(queue.remove(ingress, seq)).toBe(known);
          oracle = oracle.filter((r) => r !== known);
        } else {
          const request = { deadline: i + 10 * jump, ingress, seq };
          const isFull = oracle.length === capacity;
          expect(queue.add(request)).toBe(known !== undefined ? "repeated" : isFull ? "full" : "added");
          if (known === undefined && !isFull) oracle = [...oracle, request].sort(inOrder);
        }
        expect([queue.size, queue.head()]).toEqual([oracle.length, oracle[0]]);
      }
      const left: Queued[] = [];
      queue.forEach((request) => left.push(request));
      expect(left.sort(inOrder)).toEqual(oracle);
    }),
    { numRuns: 300 },
  );
});

test("removals out of the middle do not accumulate: a queue of two lives through a hundred thousand (Q2)", () => {
  const queue = new DeadlineQueue<Queued>(2);
  queue.add({ deadline: 0, ingress: 2 ** 47, seq: 0 });
  for (let seq = 1; seq <= 100_000; seq++) {
    expect(queue.add({ deadline: seq, ingress: 2 ** 47, seq })).toBe("added");
    expect(queue.remove(2 ** 47, seq)?.seq).toBe(seq);
  }
  expect(queue.take(1)).toEqual([{ deadline: 0, ingress: 2 ** 47, seq: 0 }]);
});

test("places hold again once those that left from the middle are a fifth, or the head has passed them", () => {
  const queue = new DeadlineQueue<{ deadline: number; ingress: number; seq: number }>(100);
  for (let seq = 1; seq <= 50; seq++) queue.add({ deadline: seq, ingress: 1, seq });
  expect(queue.isRun()).toBe(true);
  queue.remove(1, 3);
  expect(queue.isRun()).toBe(false);
  queue.take(2);
  expect(queue.isRun()).toBe(true);
  expect(queue.at(0).seq).toBe(4);
  for (let seq = 10; seq < 20; seq++) queue.remove(1, seq);
  expect(queue.isRun()).toBe(true);
  expect([queue.at(5).seq, queue.at(6).seq, queue.size]).toEqual([9, 20, 37]);
});

/** CPU time of putting 2,000 requests in order that come before nearly all of `waiting` others, µs. */
function timeToOrder(waiting: number): number {
  const queue = new DeadlineQueue<Queued>(100_000);
  for (let i = 0; i < waiting; i++) queue.add({ deadline: 1_000 + i, ingress: 1 + (i % 2), seq: i });
  const before = process.cpuUsage();
  for (let i = 0; i < 2_000; i++) {
    queue.add({ deadline: i % 20, ingress: 1 + (i % 2), seq: waiting + i });
    queue.makeRun();
    queue.shift();
  }
  const { user, system } = process.cpuUsage(before);
  return user + system;
}

test("an urgent request takes its place among many that can wait at the cost of those before it, not of all", () => {
  timeToOrder(1_000);
  const few = Math.min(...[1, 2, 3].map(() => timeToOrder(500)));
  const many = Math.min(...[1, 2, 3].map(() => timeToOrder(32_000)));
  expect(many).toBeLessThan(10 * few + 5_000);
});
