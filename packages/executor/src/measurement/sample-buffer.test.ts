import { type Instant, type Micros, actorKey, seconds, threadId } from "@tutti/units";
import { expect, test } from "vitest";
import {
  MARKED_MAX,
  MarkedBatches,
  SHELF_BYTES_MAX,
  SHELF_ROWS_MAX,
  SampleBuffer,
  type ShelfRow,
} from "./sample-buffer.ts";

const THREAD = threadId(1, 0);
const row = (app: number, at = 0, bytes = 4): ShelfRow => ({
  thread: THREAD,
  app,
  units: 0,
  bytes: new Uint8Array(bytes),
  at: at as Instant,
  whole: undefined,
  isSample: true,
});
const now = (s: number): Instant => (s * 1e6) as Instant;

test("the shelf holds so many rows and bytes, and a batch that does not fit is left out whole", () => {
  const sampleBuffer = new SampleBuffer(seconds(60));
  expect(sampleBuffer.add(Array.from({ length: SHELF_ROWS_MAX - 1 }, (_, i) => row(i)))).toBe(true);
  expect(sampleBuffer.add([row(100), row(101)])).toBe(false);
  expect([sampleBuffer.size, sampleBuffer.lost]).toEqual([SHELF_ROWS_MAX - 1, 2]);
  expect(sampleBuffer.add([row(102)])).toBe(true);
  for (let i = 0; i < SHELF_ROWS_MAX; i++) sampleBuffer.take();
  expect(sampleBuffer.add([row(1, 0, SHELF_BYTES_MAX)])).toBe(true);
  expect(sampleBuffer.add([row(2, 0, 1)])).toBe(false);
  sampleBuffer.take();
  expect(sampleBuffer.add([row(2, 0, 1)])).toBe(true);
});

test("rows leave in the order in which they came, and those that waited for too long are left out", () => {
  const sampleBuffer = new SampleBuffer(seconds(60));
  sampleBuffer.add([row(1, 0), row(2, 30e6), row(3, 50e6)]);
  expect(sampleBuffer.first(now(60))?.app).toBe(1);
  expect(sampleBuffer.first(now(61))?.app).toBe(2);
  expect(sampleBuffer.take()?.app).toBe(2);
  expect(sampleBuffer.first(now(200))).toBe(undefined);
  expect([sampleBuffer.size, sampleBuffer.lost]).toEqual([0, 2]);
});

test("a row that runs once more waits for all others first: what delays the machine now should be over then", () => {
  const sampleBuffer = new SampleBuffer(seconds(60));
  sampleBuffer.add([row(1), row(2), row(3)]);
  sampleBuffer.putBack({ ...sampleBuffer.take()!, once: 5_000 as Micros });
  expect([sampleBuffer.take(), sampleBuffer.take(), sampleBuffer.take()].map((one) => one?.app)).toEqual([2, 3, 1]);
});

test("of a marked batch the marked inputs are copied, and of batches that never end the oldest are forgotten", () => {
  const marked = new MarkedBatches();
  const ingress = actorKey(5);
  const wanted = (batchId: number) => ({
    batchId: batchId as never,
    thread: THREAD,
    what: "some" as const,
    rows: [{ ingress, seq: 7, app: 1, units: 3 }],
  });
  marked.expect("a", wanted(1));
  const bytes = Buffer.of(1, 2); // like a socket's buffer: its slice would still be borrowed
  marked.pulled("a", ingress, { seq: 6, row: bytes });
  marked.pulled("a", actorKey(6), { seq: 7, row: bytes });
  expect(marked.take("a")!.rows.size).toBe(0);
  marked.expect("a", wanted(1));
  marked.pulled("a", ingress, { seq: 7, row: bytes });
  bytes.fill(9);
  expect([...marked.take("a")!.rows]).toEqual([[0, Uint8Array.of(1, 2)]]);
  expect(marked.take("a")).toBe(undefined);
  for (let i = 0; i <= MARKED_MAX; i++) marked.expect(`b${i}`, wanted(i));
  expect(marked.size).toBe(MARKED_MAX);
  expect(marked.take("b0")).toBe(undefined);
  expect(marked.take("b1")).not.toBe(undefined);
});
