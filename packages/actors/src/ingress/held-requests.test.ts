import { type Instant, instant } from "@tutti/units";
import fc from "fast-check";
import { expect, test } from "vitest";
import { type Held, HeldRequests } from "./held-requests.ts";

const limits = { requestsMax: 4, bytesMax: 100, appRequestsMax: 4, appBytesMax: 100 };
let seq = 0;
const request = (held: HeldRequests, bytes: number): Held =>
  ({ seq: ++seq, slot: held.nextSlot(), appId: 1, row: new Uint8Array(bytes) }) as unknown as Held;

test("bodies that are being read count against every limit, until what they became does", () => {
  const held = new HeldRequests({ ...limits, appRequestsMax: 3, appBytesMax: 60 });
  held.reserve(1, 30);
  held.reserve(1, 30);
  expect(held.limitReached(1, 1)).toBe("appBytesMax");
  expect(held.limitReached(2, 41)).toBe("bytesMax");
  expect(held.limitReached(2, 40)).toBeUndefined();
  held.reserve(2, 40);
  held.reserve(1, 0);
  expect(held.limitReached(2, 0)).toBe("requestsMax");
  held.release(1, 30);
  expect(held.limitReached(1, 0)).toBeUndefined();
  held.add(request(held, 30), instant(5));
  expect(held.limitReached(1, 0)).toBe("requestsMax");
  expect(held.bytes).toBe(100);
});

test("a request that there is no room for leaves nothing behind", () => {
  const held = new HeldRequests(limits);
  const all = Array.from({ length: 4 }, () => {
    const one = request(held, 1);
    held.add(one, instant(10));
    return one;
  });
  expect(() => held.add(request(held, 1), instant(1))).toThrow("no room");
  expect([held.size, held.bytes, held.nextTimerAt]).toEqual([4, 4, 10]);
  for (const one of all) held.remove(one);
  expect([held.size, held.bytes, held.nextTimerAt, held.limitReached(1, 100)]).toEqual([0, 0, Infinity, undefined]);
  expect(held.due(100 as Instant)).toBeUndefined();
});

test("what is held is what a Map would hold, whatever comes, goes and gets another number", () => {
  const step = fc.record({ what: fc.constantFrom("add", "add", "remove", "renumber"), at: fc.nat() });
  fc.assert(
    fc.property(fc.array(step, { maxLength: 200 }), (steps) => {
      const most = 5_000;
      const held = new HeldRequests({ requestsMax: most, bytesMax: most, appRequestsMax: most, appBytesMax: most });
      const map = new Map<number, Held>();
      const add = (): void => {
        const one = request(held, 1);
        held.add(one, instant(one.seq));
        map.set(one.seq, one);
      };
      for (let i = 0; i < 1_020; i++) add(); // Just below the size at which the index grows.
      for (const { what, at } of steps) {
        const one = [...map.values()][at % map.size]!;
        if (what === "add") add();
        else {
          map.delete(one.seq);
          if (what === "remove") held.remove(one);
          else {
            held.renumber(one, ++seq as Held["seq"]);
            map.set(one.seq, one);
          }
        }
      }
      expect(held.values()).toEqual([...map.values()]);
      expect(held.size).toBe(map.size);
      for (const one of map.values()) expect(held.get(one.seq)).toBe(one);
      expect(held.get(seq + 1)).toBeUndefined();
    }),
    { numRuns: 50 },
  );
});
