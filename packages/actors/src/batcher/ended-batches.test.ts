import { type BatchFinished, REPORTED_BATCHES_MAX, readBatches } from "@tutti/protocol";
import type { Request } from "@tutti/scheduling";
import type { Instant } from "@tutti/units";
import { expect, test } from "vitest";
import { EndedBatches } from "./ended-batches.ts";

const at = (us: number): Instant => (10_000_000 + us) as Instant;
const finished = (start: number): BatchFinished =>
  ({
    thread: 64,
    gpu: 3,
    batchSize: 5,
    failed: 1,
    grantedAt: at(start - 50),
    startedAt: at(start),
    finishedAt: at(start + 900),
  }) as unknown as BatchFinished;

/** Requests are in the order of their deadlines, not of their arrival. */
const requests = [{ arrivedAt: at(2_000) }, { arrivedAt: at(1_000) }] as unknown as readonly Request[];

test("a batch that ended is told once, with the time since which its first request waited", () => {
  const ended = new EndedBatches();
  ended.note(finished(5_000), requests);
  expect(readBatches(ended.told(at(9_000)).batches, at(9_000))).toEqual({
    left: 0,
    batches: [
      {
        ...{ thread: 64, gpu: 3, size: 5, failed: 1 },
        ...{ firstAt: at(1_000), grantedAt: at(4_950), startedAt: at(5_000), finishedAt: at(5_900) },
      },
    ],
  });
  expect(ended.told(at(10_000))).toEqual({});
});

test("no more batches are told than a report holds, and the others are counted", () => {
  const ended = new EndedBatches();
  for (let i = 0; i < REPORTED_BATCHES_MAX + 7; i++) ended.note(finished(5_000 + i), requests);
  const read = readBatches(ended.told(at(99_000)).batches, at(99_000))!;
  expect([read.batches.length, read.left]).toEqual([REPORTED_BATCHES_MAX, 7]);
});
