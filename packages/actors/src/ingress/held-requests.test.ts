import { type Instant, instant } from "@tutti/units";
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
