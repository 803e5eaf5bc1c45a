import { type Instant, instant } from "@tutti/units";
import fc from "fast-check";
import { expect, test } from "vitest";
import type { PendingRequest } from "./pending-request.ts";
import { PendingRequests } from "./pending-requests.ts";
import { pendingRequest } from "../testing/pending-request.ts";

const limits = { requestsMax: 4, bytesMax: 100, appRequestsMax: 4, appBytesMax: 100 };
const request = (bytes: number): PendingRequest => pendingRequest({ appId: 1, row: new Uint8Array(bytes) });

test("bodies that are being read count against every limit, until what they became does", () => {
  const pending = new PendingRequests({ ...limits, appRequestsMax: 3, appBytesMax: 60 });
  pending.reserve(1, 30);
  pending.reserve(1, 30);
  expect(pending.limitReached(1, 1)).toBe("appBytesMax");
  expect(pending.limitReached(2, 41)).toBe("bytesMax");
  expect(pending.limitReached(2, 40)).toBeUndefined();
  pending.reserve(2, 40);
  pending.reserve(1, 0);
  expect(pending.limitReached(2, 0)).toBe("requestsMax");
  pending.release(1, 30);
  expect(pending.limitReached(1, 0)).toBeUndefined();
  pending.add(request(30), instant(5));
  expect(pending.limitReached(1, 0)).toBe("requestsMax");
  expect(pending.bytes).toBe(100);
});

test("room that a request needs later counts as bytes, and not as another request", () => {
  const pending = new PendingRequests(limits);
  for (let i = 0; i < 3; i++) pending.reserve(1, 10);
  for (let i = 0; i < 3; i++) pending.extend(1, 10);
  expect([pending.count, pending.bytes]).toEqual([3, 60]);
  expect(pending.limitReached(1, 40)).toBeUndefined();
  expect(pending.limitReached(1, 41)).toBe("bytesMax");
  for (const requests of [{ requestsMax: 3 }, { appRequestsMax: 3 }]) {
    const full = new PendingRequests({ ...limits, ...requests });
    for (let i = 0; i < 3; i++) full.reserve(1, 10);
    expect([full.limitReached(1, 70), full.limitReached(1, 70, 0)]).toEqual([Object.keys(requests)[0], undefined]);
    expect(full.limitReached(1, 71, 0)).toBe("bytesMax");
  }
  for (let i = 0; i < 3; i++) pending.release(1, 20);
  expect([pending.count, pending.bytes, pending.limitReached(1, 100)]).toEqual([0, 0, undefined]);
});

test("a request that there is no room for leaves nothing behind", () => {
  const pending = new PendingRequests(limits);
  const all = Array.from({ length: 4 }, () => {
    const one = request(1);
    pending.add(one, instant(10));
    return one;
  });
  expect(() => pending.add(request(1), instant(1))).toThrow("no room");
  expect([pending.size, pending.bytes, pending.nextTimerAt]).toEqual([4, 4, 10]);
  for (const one of all) pending.remove(one);
  expect([pending.size, pending.bytes, pending.nextTimerAt, pending.limitReached(1, 100)]).toEqual([
    0,
    0,
    Infinity,
    undefined,
  ]);
  expect(pending.due(100 as Instant)).toBeUndefined();
});

test("what is held is what a Map would hold, whatever comes, goes and gets another number", () => {
  const step = fc.record({ what: fc.constantFrom("add", "add", "remove", "renumber"), at: fc.nat() });
  fc.assert(
    fc.property(fc.array(step, { maxLength: 200 }), (steps) => {
      const most = 5_000;
      const pending = new PendingRequests({
        requestsMax: most,
        bytesMax: most,
        appRequestsMax: most,
        appBytesMax: most,
      });
      const map = new Map<number, PendingRequest>();
      const add = (): void => {
        const one = request(1);
        pending.add(one, instant(1));
        map.set(one.seq, one);
      };
      for (let i = 0; i < 1_020; i++) add(); // Just below the size at which the index grows.
      for (const { what, at } of steps) {
        const one = [...map.values()][at % map.size]!;
        if (what === "add") add();
        else {
          map.delete(one.seq);
          if (what === "remove") pending.remove(one);
          else {
            pending.renumber(one);
            map.set(one.seq, one);
          }
        }
      }
      expect(pending.values()).toEqual([...map.values()]);
      expect(pending.size).toBe(map.size);
      for (const one of map.values()) expect(pending.get(one.seq)).toBe(one);
      expect(pending.get(most)).toBeUndefined();
    }),
    { numRuns: 50 },
  );
});

test("a row that is part of a larger message counts with all the memory that it keeps", () => {
  const pending = new PendingRequests(limits);
  const one = pendingRequest({ appId: 1, row: new Uint8Array(new ArrayBuffer(60), 20, 31) });
  pending.add(one, instant(1));
  expect([pending.bytes, pending.limitReached(1, 41)]).toEqual([60, "bytesMax"]);
  pending.remove(one);
  expect([pending.bytes, pending.limitReached(1, 100)]).toEqual([0, undefined]);
});
