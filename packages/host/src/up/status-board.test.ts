import type { Role, StatsReported } from "@tutti/protocol";
import { actorKey, gpuId, instant, threadId } from "@tutti/units";
import { expect, test } from "vitest";
import { StatusBoard } from "./status-board.ts";
import { renderStatus } from "./status-line.ts";

const stats = (key: number, role: Role, at: number, rest: Partial<StatsReported>): StatsReported => ({
  key: actorKey(key),
  role,
  at: instant(at),
  figures: {},
  ...rest,
});
const gpu = (id: number, busyUs: number, batches: number, items: number) => ({
  gpu: gpuId(id),
  figures: { busyUs, batches, items },
});

test("a line counts what happened since the one before, over all ingresses", () => {
  const board = new StatusBoard(0);
  board.hear(stats(1, "ingress", 0, { figures: { requests: 10, ok: 9, latencyUs: 9_000 } }), 0);
  board.hear(stats(2, "ingress", 0, { figures: { requests: 1, ok: 1 } }), 0);
  expect(board.read(1_000)).toMatchObject({ requests: 11, inTime: 10 });
  const figures = { requests: 30, ok: 27, late: 2, refused: 3, "refused.TUTTI_OVERLOADED": 3, latencyUs: 45_000 };
  board.hear(stats(1, "ingress", 1e6, { figures }), 1_000);
  expect(board.read(2_000)).toMatchObject({
    requests: 20,
    inTime: 16,
    late: 2,
    refused: 3,
    reasons: { OVERLOADED: 3 },
    meanLatencyUs: 2_000,
  });
  expect(board.read(3_000)).toMatchObject({ requests: 0, inTime: 0, refused: 0 });
});

test("an actor that starts again counts from zero, not below it", () => {
  const board = new StatusBoard(0);
  board.hear(stats(1, "ingress", 0, { figures: { requests: 100 } }), 0);
  board.read(1_000);
  board.hear(stats(1, "ingress", 1, { figures: { requests: 5 } }), 1_000);
  board.hear(stats(9, "ingress", 1, { figures: { requests: 7 } }), 1_000);
  expect(board.read(2_000).requests).toBe(7);
});

test("an accelerator's busy share is its running time over the time between its own reports", () => {
  const board = new StatusBoard(0);
  board.hear(stats(1, "executor", 0, { perGpu: [gpu(1, 0, 0, 0), gpu(0, 0, 0, 0)] }), 0);
  board.read(1_000);
  board.hear(stats(1, "executor", 2e6, { perGpu: [gpu(1, 0, 0, 0), gpu(0, 1e6, 4, 10)] }), 1_000);
  const { gpus, batches, items } = board.read(2_000);
  expect(gpus.map(({ gpu: id, busy }) => [id, busy])).toEqual([
    [0, 0.5],
    [1, 0],
  ]);
  expect([batches, items]).toEqual([4, 10]);
});

test("delays that passed are means since the line before", () => {
  const board = new StatusBoard(0);
  const thread = (figures: Record<string, number>) => ({
    perThread: [{ thread: threadId(1, 0), name: "mlp", figures }],
  });
  board.hear(stats(1, "batcher", 0, thread({ arrivals: 10, arrivalLagUs: 9_000, grants: 1, grantLagUs: 70 })), 0);
  board.read(1_000);
  const later = { arrivals: 30, arrivalLagUs: 13_000, grants: 1, grantLagUs: 70, finished: 4, startDelayUs: 2_002 };
  board.hear(stats(1, "batcher", 1e6, thread({ ...later, lateStarts: 1 })), 1_000);
  expect(board.read(2_000).threads).toMatchObject([
    { measuredUs: { arrive: 200, grant: 0, start: 501 }, lateStarts: 1 },
  ]);
});

test("what batches keep in hand goes by both of its names for one release, from batchers of this one and the last", () => {
  const board = new StatusBoard(0);
  const thread = (number: number, figures: Record<string, number>) => {
    return { thread: threadId(number, 0), name: `m${number}`, figures };
  };
  const perThread = [thread(1, { marginUs: 900 }), thread(2, { reserveUs: 2_100, marginUs: 2_100 })];
  board.hear(stats(1, "batcher", 0, { perThread }), 0);
  const { threads } = board.read(1_000);
  expect(threads.map(({ delaysUs: { reserve, margin } }) => [reserve, margin])).toEqual([
    [900, 900],
    [2_100, 2_100],
  ]);
});

test("actors that have been silent for long are forgotten", () => {
  const board = new StatusBoard(0);
  board.hear(stats(1, "executor", 0, { perGpu: [gpu(0, 0, 0, 0)] }), 0);
  expect(board.read(1_000).gpus).toHaveLength(1);
  board.read(20_000);
  expect(board.read(21_000).gpus).toHaveLength(0);
});

test("the line names what people look for, and counts the idle accelerators at the end", () => {
  const board = new StatusBoard(0);
  const perThread = [{ thread: threadId(1, 0), name: "mlp", figures: { batches: 0, items: 0 } }];
  board.hear(stats(1, "batcher", 0, { perThread }), 0);
  board.hear(stats(2, "executor", 0, { perGpu: [0, 1, 2, 3].map((id) => gpu(id, 0, 0, 0)) }), 0);
  board.read(0);
  board.hear(
    stats(3, "ingress", 1e6, { figures: { requests: 1_500, ok: 1_499, latencyUs: 1_499 * 4_100, refused: 1 } }),
    1,
  );
  board.hear(
    stats(1, "batcher", 1e6, { perThread: [{ ...perThread[0]!, figures: { batches: 200, items: 1_499 } }] }),
    1,
  );
  board.hear(
    stats(2, "executor", 1e6, {
      perGpu: [gpu(0, 630_000, 180, 1_400), gpu(1, 120_000, 20, 99), gpu(2, 0, 0, 0), gpu(3, 0, 0, 0)],
    }),
    1,
  );
  expect(renderStatus(board.read(1_000))).toBe(
    " 1,500 requests · 1,499 in time (4.1 ms) · 1 refused · batches 7.5 (mlp 7.5) · busy 63 12 %, 2 more idle",
  );
});

test("without executors the line says so", () => {
  expect(renderStatus(new StatusBoard(0).read(1_000))).toBe(
    "     0 requests · 0 in time · 0 refused · batches - · no executor",
  );
});
