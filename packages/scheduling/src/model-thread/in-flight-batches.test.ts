import type { ActorKey, BatchId, Instant, RequestSeq } from "@tutti/units";
import fc from "fast-check";
import { expect, test } from "vitest";
import { InFlightBatches } from "./in-flight-batches.ts";
import type { DispatchedBatch, Request } from "../messages.ts";

const EXECUTORS = 3;
const INGRESS = 7 as ActorKey;

/** Batch `id` of two requests, which are numbered by it and due at it. */
function batchOf(id: number): DispatchedBatch {
  const requests = [2 * id, 2 * id + 1].map((seq) => ({ ingress: INGRESS, seq, deadline: id }) as unknown as Request);
  const grant = { executor: id % EXECUTORS } as unknown as DispatchedBatch["grant"];
  return { batchId: id as BatchId, grant, requests, expectedRun: id } as unknown as DispatchedBatch;
}

const step = fc.oneof(
  { weight: 8, arbitrary: fc.record({ do: fc.constant("hold" as const), back: fc.constant(0) }) },
  {
    weight: 6,
    arbitrary: fc.record({
      do: fc.constantFrom("release" as const, "take back" as const, "withdraw" as const),
      // Mostly of the last ones, and sometimes of one whose place a newer one has taken.
      back: fc.oneof(fc.nat(4), fc.nat(100)),
    }),
  },
);

test("batches are found by their numbers until they are released, however late they end (HB2, HB3)", () => {
  fc.assert(
    fc.property(fc.array(step, { maxLength: 300, size: "max" }), fc.constantFrom(1, 2 ** 40 - 20), (steps, base) => {
      const inFlightBatches = new InFlightBatches(1000);
      const oracle = new Map<number, Set<number>>(); // by batch, the requests that are still wanted
      let next = base;
      for (const { do: what, back } of steps) {
        const id = next - 1 - back;
        const wanted = oracle.get(id);
        if (what === "hold") {
          oracle.set(next, new Set([2 * next, 2 * next + 1]));
          inFlightBatches.hold(batchOf(next++));
        } else if (what === "release") expect(inFlightBatches.release(id as BatchId)).toBe(oracle.delete(id));
        else if (what === "withdraw") {
          inFlightBatches.withdraw(INGRESS, (2 * id) as RequestSeq);
          wanted?.delete(2 * id);
        } else {
          expect(inFlightBatches.takeBack(id as BatchId)?.map(({ seq }) => seq)).toEqual(wanted && [...wanted]);
          oracle.delete(id);
        }
        expect(inFlightBatches.size).toBe(oracle.size);
        expect(inFlightBatches.find(id as BatchId)?.expectedRun).toBe(oracle.has(id) ? id : undefined);
      }
      for (let executor = 0; executor < EXECUTORS; executor++) {
        const its = [...oracle.keys()].filter((id) => id % EXECUTORS === executor);
        expect(inFlightBatches.ofExecutor(executor as ActorKey)).toEqual(its); // the oldest first
      }
    }),
  );
});

test("at the bound, batches whose deadline is past make room, wherever they are (HB1)", () => {
  const inFlightBatches = new InFlightBatches(40);
  for (let id = 1; id <= 40; id++) inFlightBatches.hold(batchOf(id));
  expect(inFlightBatches.isFull(1 as Instant)).toBe(true);
  expect(inFlightBatches.isFull(11 as Instant)).toBe(false);
  expect(inFlightBatches.size).toBe(30);
  expect([inFlightBatches.find(10 as BatchId)?.expectedRun, inFlightBatches.find(11 as BatchId)?.expectedRun]).toEqual([
    undefined,
    11,
  ]);
});

test("a batch is kept until the last step of any of its requests (HB1)", () => {
  const batches = new InFlightBatches(1);
  const batch = batchOf(12);
  const steps = [12, 40].map((deadline, i) => ({ deadline: deadline as Instant, cost: i + 1 }));
  batches.hold({ ...batch, requests: [{ ...batch.requests[0]!, steps }, batch.requests[1]!] });
  expect(batches.isFull(13 as Instant)).toBe(true);
  expect(batches.isFull(40 as Instant)).toBe(true);
  expect(batches.isFull(41 as Instant)).toBe(false);
});
