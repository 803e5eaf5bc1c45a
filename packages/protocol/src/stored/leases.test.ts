import { expect, test } from "vitest";
import { BatcherLease, OperationLease, RankerLease } from "./leases.ts";

test("a lease names a possible actor, and an operation its operator; anything else is nobody's (T8)", () => {
  expect([RankerLease({ ranker: 77_777 }), BatcherLease({ batcher: 1 })]).toEqual([true, true]);
  for (const key of [0, -1, 0.5, 2 ** 48, "7", null, undefined])
    expect([RankerLease({ ranker: key }), BatcherLease({ batcher: key })], String(key)).toEqual([false, false]);
  for (const value of [null, 7, [], {}]) expect([RankerLease(value), BatcherLease(value)]).toEqual([false, false]);
  expect(
    [{ who: "ann", what: "restart all" }, { who: "ann" }, { what: "x" }].map((one) => OperationLease(one)),
  ).toEqual([...[true, false, false]]);
});
