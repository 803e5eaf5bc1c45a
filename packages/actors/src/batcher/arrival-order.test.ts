import fc from "fast-check";
import { expect, test } from "vitest";
import { type Instant, type ThreadId, actorKey, after, instant, millis } from "@tutti/units";
import { ArrivalOrder, type SentUntil } from "./arrival-order.ts";

const ingress = actorKey(7);
const thread = 64 as ThreadId;
const at = (ms: number): Instant => after(instant(1_000_000), millis(ms));
const sent = (last: number, sentAt: Instant): SentUntil => ({ thread, term: 1, last, sentAt });

test("arrivals in order are fresh, and a gap names what is missing", () => {
  const order = new ArrivalOrder();
  expect(order.note(ingress, thread, 1, 1)).toBe("fresh");
  expect(order.note(ingress, thread, 1, 4)).toEqual({ from: 2, to: 4 });
  expect(order.note(ingress, thread, 1, 4)).toBe("repeated");
  expect(order.note(ingress, thread, 1, 3)).toBe("fresh");
  expect(order.note(ingress, thread, 1, 3)).toBe("repeated");
  expect(order.note(ingress, thread, 1, 2)).toBe("fresh");
  expect(order.note(ingress, thread, 1, 5)).toBe("fresh");
});

test("a lost last arrival is noticed by the heartbeat, and asked for a bounded number of times", () => {
  const order = new ArrivalOrder();
  order.note(ingress, thread, 1, 1);
  expect(order.missing(ingress, sent(1, at(0)), at(0))).toBeUndefined();
  const asked = Array.from({ length: 6 }, (_, i) => order.missing(ingress, sent(3, at(100 * i)), at(100 * i)));
  expect(asked[0]).toMatchObject({ from: 2, to: 4 });
  expect(asked.filter((range) => range !== undefined)).toHaveLength(4);
});

test("what comes for the last asking is fresh, like what came for the first", () => {
  const order = new ArrivalOrder();
  order.note(ingress, thread, 1, 1);
  for (let asking = 0; asking < 4; asking++)
    expect(order.missing(ingress, sent(2, at(100 * asking)), at(100 * asking))).toMatchObject({ from: 2, to: 3 });
  expect(order.note(ingress, thread, 1, 2)).toBe("fresh");
});

test("heartbeats that are all read at once, after a sleep, ask once; and what then comes is fresh", () => {
  const order = new ArrivalOrder();
  order.note(ingress, thread, 1, 1);
  const asked = Array.from({ length: 20 }, () => order.missing(ingress, sent(2, at(500)), at(500)));
  expect(asked.filter((range) => range !== undefined)).toEqual([expect.objectContaining({ from: 2, to: 3 })]);
  expect(order.note(ingress, thread, 1, 2)).toBe("fresh");
});

test("a new term starts the count again, and an older one is not heard any more (T5)", () => {
  const order = new ArrivalOrder();
  order.note(ingress, thread, 1, 1);
  expect(order.note(ingress, thread, 2, 1)).toBe("fresh");
  expect(order.note(ingress, thread, 1, 2)).toBe("repeated");
});

test("each arrival is fresh exactly once, in whatever order and however often it comes (M1)", () => {
  const arrivals = fc.array(fc.integer({ min: 1, max: 60 }), { maxLength: 200 });
  fc.assert(
    fc.property(arrivals, (seqs) => {
      const order = new ArrivalOrder();
      const fresh = seqs.filter((seq) => order.note(ingress, thread, 1, seq) !== "repeated");
      expect([...fresh].sort((a, b) => a - b)).toEqual([...new Set(seqs)].sort((a, b) => a - b));
    }),
  );
});

test("a number that its ingress never reached is taken back by the second heartbeat, and one out of all reach is nobody's", () => {
  const order = new ArrivalOrder();
  const note = (arrivalSeq: number) => order.note(ingress, thread, 1, arrivalSeq);
  expect([note(1), note(2)]).toEqual(["fresh", "fresh"]);
  expect(note(Number.MAX_SAFE_INTEGER)).toBe("repeated");
  expect(order.missing(ingress, sent(2 ** 40, at(0)), at(0))).toBeUndefined();
  expect(note(3)).toBe("fresh");
  // A wrong number: later arrivals would pass for repeated ones once the gap before it is given up.
  expect(note(1_000)).toEqual({ from: 4, to: 1_000 });
  // The arrival may only have overtaken this heartbeat.
  expect(order.missing(ingress, sent(3, at(100)), at(100))).toMatchObject({ from: 4 });
  expect(order.missing(ingress, sent(3, at(200)), at(200))).toBeUndefined();
  expect([note(4), note(4), note(5), note(1_000)]).toEqual(["fresh", "repeated", "fresh", { from: 6, to: 1_000 }]);
});

test("a heartbeat that was sent before the last one came takes nothing back, however late it comes", () => {
  const order = new ArrivalOrder();
  const note = (arrivalSeq: number) => order.note(ingress, thread, 1, arrivalSeq);
  expect([1, 2, 3, 4].map(note)).toEqual(Array(4).fill("fresh"));
  expect(order.missing(ingress, sent(4, at(100)), at(101))).toBeUndefined();
  expect(order.missing(ingress, sent(1, at(0)), at(150))).toBeUndefined();
  expect(order.missing(ingress, sent(2, at(50)), at(160))).toBeUndefined();
  expect([3, 4, 5].map(note)).toEqual(["repeated", "repeated", "fresh"]);
});
