import fc from "fast-check";
import { expect, test } from "vitest";
import type { BatchDispatched, ModelSpec, Tensor } from "@tutti/protocol";
import {
  ALWAYS,
  type GpuId,
  type Instant,
  type ThreadId,
  actorKey,
  between,
  instant,
  jobThreadOf,
  micros,
  threadId,
} from "@tutti/units";
import type { Engine } from "@tutti/ports/engine";
import { BatchBuffer, rowOfOutput } from "./batches/batch-buffer.ts";
import { Fence } from "./batches/fence.ts";
import { GpuSlot } from "./batches/gpu-slot.ts";

const spec: ModelSpec = {
  name: "vad",
  number: 1,
  version: "1",
  engine: "onnx",
  slo: micros(10_000),
  batchSizeMax: 8,
  patience: 1,
  inputs: [
    { name: "frame", type: "UINT8", dims: ["batch", 3] },
    { name: "state", type: "UINT8", dims: [2, "batch", 2] },
  ],
  outputs: [
    { name: "frame", type: "UINT8", dims: ["batch", 3] },
    { name: "state", type: "UINT8", dims: [2, "batch", 2] },
  ],
  constants: [],
  axes: {},
  buckets: [{}],
};

test("rows of a batch stay apart wherever the batch axis lies, also when some never came (T2)", () => {
  fc.assert(
    fc.property(
      fc.array(fc.uint8Array({ minLength: 16, maxLength: 16 }), { minLength: 1, maxLength: 6 }),
      fc.nat(3),
      (rows, absent) => {
        const buffer = new BatchBuffer(spec, 0, rows.length + absent);
        for (const row of rows) expect(buffer.add(row)).toBe(true);
        const tensors = buffer.take();
        expect(tensors.map((tensor) => tensor.dims)).toEqual([
          [rows.length, 3],
          [2, rows.length, 2],
        ]);
        rows.forEach((row, i) => {
          const [frame, state] = tensors.map((tensor) =>
            rowOfOutput(spec, tensor, { row: i, batchSize: rows.length, lengths: [] }),
          ) as [Tensor, Tensor];
          expect(frame).toMatchObject({ dims: [1, 3], data: row.slice(0, 3) });
          expect(state).toMatchObject({ dims: [2, 1, 2], data: row.slice(8, 12) });
        });
      },
    ),
  );
});

test("a row of another length is not taken and does not shift its neighbours (T8)", () => {
  const buffer = new BatchBuffer(spec, 0, 2);
  expect(buffer.add(new Uint8Array(15))).toBe(false);
  expect(buffer.add(new Uint8Array(16).fill(7))).toBe(true);
  expect(buffer.rows).toBe(1);
  expect(buffer.take()[0]?.data).toEqual(new Uint8Array([7, 7, 7]));
});

const self = actorKey(5);
const dispatched = (over: Partial<BatchDispatched>): BatchDispatched => ({
  batchId: 1 as BatchDispatched["batchId"],
  thread: 64 as ThreadId,
  gpu: 0 as GpuId,
  term: 3,
  epoch: 7,
  grantSeq: 1,
  executor: self,
  ranker: actorKey(9),
  validUntil: instant(1_000),
  grantedAt: instant(0),
  sentAt: instant(0),
  startAt: instant(0),
  latest: instant(0),
  frontrun: instant(0),
  expectedRun: micros(1),
  ingresses: [],
  requests: [],
  ...over,
});

test("one batch per grant, and nothing of an older epoch, term or sequence, nor after validUntil, nor for another incarnation (T5)", () => {
  const fence = new Fence(self, [0 as GpuId]);
  const now = instant(500);
  expect(fence.admit(dispatched({}), now), "of a leader that was not joined").toBe("old-epoch");
  fence.raise(7);
  expect(fence.admit(dispatched({}), now)).toBeUndefined();
  expect(fence.admit(dispatched({}), now)).toBe("old-sequence");
  expect(fence.admit(dispatched({ grantSeq: 2 }), instant(1_001))).toBe("expired");
  expect(fence.admit(dispatched({ grantSeq: 2, executor: actorKey(6) }), now)).toBe("wrong-incarnation");
  expect(fence.admit(dispatched({ grantSeq: 2, term: 2 }), now)).toBe("old-term");
  fence.raise(8);
  expect(fence.admit(dispatched({ grantSeq: 2 }), now)).toBe("old-epoch");
  expect(fence.admit(dispatched({ grantSeq: 2, epoch: 8 }), now)).toBeUndefined();
  expect(fence.admit(dispatched({ grantSeq: 1, gpu: 1 as GpuId, epoch: 8 }), now)).toBeUndefined();
});

const THREAD = threadId(1, 0);
const run = (startAt: Instant, us: number, thread = THREAD) => ({ startAt, expectedRun: micros(us), thread });

test("the ranker is told when an accelerator will be free at another time than planned, and only then", () => {
  const slot = new GpuSlot(0 as GpuId, {} as Engine);
  const at = (us: number): Instant => instant(1_000_000 + us);
  expect(slot.accept(run(at(100), 5_000), at(0))).toBeUndefined();
  expect(slot.accept(run(at(5_100), 5_000), at(4_000))).toBeUndefined();
  expect(slot.finish(run(ALWAYS, 5_000), micros(4_990), at(5_050))).toBeUndefined();
  expect(slot.finish(run(ALWAYS, 5_000), micros(3_000), at(8_050))).toBe(at(8_050));
  expect(slot.accept(run(at(8_000), 5_000), at(9_000))).toBe(at(14_000));
  expect(slot.freeAt(at(9_500))).toBe(at(14_000));
});

test("an accelerator whose runs are overdue and that takes no more is free for nobody before a run could have passed, or one ends", () => {
  const slot = new GpuSlot(0 as GpuId, {} as Engine);
  const at = (us: number): Instant => instant(1_000_000 + us);
  for (let i = 0; i < 4; i++) slot.accept(run(at(0), 300), at(0));
  const [now, lead] = [at(1_300), micros(1_000)];
  expect(between(now, slot.freeAt(now))).toBeLessThan(lead); // It would be granted at once.
  expect(slot.turnAway(now, lead, micros(300))).toBe(at(2_600));
  expect(slot.finish(run(ALWAYS, 300), micros(1_350), at(1_350))).toBe(at(2_250));
});

test("an accelerator that only jobs use is idle for requests, and their time is counted apart", () => {
  const slot = new GpuSlot(0 as GpuId, {} as Engine);
  const at = (us: number): Instant => instant(1_000_000 + us);
  const jobs = run(at(0), 300, jobThreadOf(THREAD));
  slot.accept(jobs, at(0));
  expect([slot.isIdle, slot.isIdleForRequests]).toEqual([false, true]);
  slot.accept(run(at(300), 500), at(100));
  expect(slot.isIdleForRequests).toBe(false);
  slot.finish(jobs, micros(310), at(310));
  expect([slot.isIdleForRequests, slot.busyUs, slot.jobsUs]).toEqual([false, 310, 310]);
  slot.finish(run(at(300), 500), micros(500), at(810));
  expect([slot.isIdle, slot.isIdleForRequests, slot.busyUs, slot.jobsUs]).toEqual([true, true, 810, 310]);
});
