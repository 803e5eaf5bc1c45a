import { gpuId } from "@tutti/units";
import { expect, test } from "vitest";
import type { Reading } from "./status-board.ts";
import { renderStatus } from "./status-line.ts";
import { StatusLog } from "./status-log.ts";

const gpu = (id: number, busyUs = 0) => ({ gpu: gpuId(id), busy: busyUs / 1e6, busyUs, batches: 1, items: 2 });
const thread = (name: string) => ({ name, batches: 1, items: 2 }) as unknown as Reading["threads"][number];
const reading = (more: Partial<Reading> = {}): Reading => ({
  ...{ seconds: 1, requests: 2, inTime: 2, late: 0, refused: 0, reasons: {}, meanLatencyUs: 1_000 },
  ...{ batches: 1, items: 2, gpus: [gpu(0)], threads: [thread("mlp")], ...more },
});
/** Seconds at which a line is written, of one reading a second. */
const linesOf = (log: StatusLog, readings: readonly Reading[]): number[] =>
  readings.flatMap((one, second) => (log.add(one) === undefined ? [] : [second]));
const seconds = (count: number, more: Partial<Reading> = {}): Reading[] =>
  Array.from({ length: count }, () => reading(more));

test("the first second is a line, then each minute is one that counts all of it", () => {
  const log = new StatusLog();
  expect(linesOf(log, seconds(60))).toEqual([0]);
  const minute = log.add(reading({ meanLatencyUs: 61_000, gpus: [gpu(0, 600_000)] }))!;
  expect(minute).toMatchObject({ seconds: 60, requests: 120, inTime: 120, items: 120, meanLatencyUs: 2_000 });
  expect(minute.gpus).toEqual([{ gpu: 0, busy: 0.01, busyUs: 600_000, batches: 60, items: 120 }]);
  expect(minute.threads).toMatchObject([{ name: "mlp", batches: 60, items: 120 }]);
  expect(renderStatus(minute)).toMatch(/^ +120 requests in 60 s · 120 in time \(2\.0 ms\)/);
  expect(renderStatus(reading())).toMatch(/^ +2 requests · /);
});

test("accelerators and models that come or go are a line at once, and load isn't", () => {
  const log = new StatusLog();
  log.add(reading());
  expect(log.add(reading({ requests: 9_000, gpus: [gpu(0, 900_000)] }))).toBeUndefined();
  expect(log.add(reading({ gpus: [gpu(0), gpu(1)] }))?.seconds).toBe(2);
  expect(log.add(reading({ gpus: [gpu(0), gpu(1)], threads: [thread("mlp"), thread("ctr")] }))).toBeDefined();
  // In another order, and twice while it moves.
  const moving = [thread("ctr"), thread("mlp"), thread("ctr")];
  expect(log.add(reading({ gpus: [gpu(1), gpu(0)], threads: moving }))).toBeUndefined();
  expect(log.add(reading())).toBeDefined();
});

test("an error is a line at once; the same kind again, each second or now and then, is not", () => {
  const log = new StatusLog();
  const refused = { refused: 1, reasons: { OVERLOADED: 1 } };
  const errors = [reading(), reading(refused), reading(), reading(refused), reading({ late: 1 }), reading(refused)];
  expect(linesOf(log, errors)).toEqual([0, 1, 4]);
  expect(linesOf(log, seconds(61, refused))).toEqual([58]);
  // A minute without it: the next one is news again.
  expect(linesOf(log, [...seconds(120), reading(refused)])).toEqual([57, 117, 120]);
});

test("an accelerator or model that two processes report for a while loses no figures", () => {
  const log = new StatusLog();
  const half = gpu(0, 500_000);
  const gone = { ...gpu(0), batches: 0, items: 0 };
  log.add(reading({ gpus: [half] }));
  linesOf(log, seconds(20, { gpus: [half] }));
  const moving = { gpus: [gone, half], threads: [thread("mlp"), thread("mlp")] };
  expect(linesOf(log, seconds(10, moving))).toEqual([]);
  linesOf(log, seconds(29, { gpus: [half] }));
  const minute = log.add(reading({ gpus: [half, gone] }))!;
  expect(minute.gpus).toEqual([{ gpu: 0, busy: 0.5, busyUs: 30_000_000, batches: 60, items: 120 }]);
  expect(minute.threads).toMatchObject([{ name: "mlp", batches: 70, items: 140 }]);
});

test("the end gives the readings since the last line, once", () => {
  const log = new StatusLog();
  linesOf(log, seconds(4));
  expect(log.end()).toMatchObject({ seconds: 3, requests: 6 });
  expect(log.end()).toBeUndefined();
});
