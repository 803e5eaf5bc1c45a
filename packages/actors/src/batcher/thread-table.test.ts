import type { DispatchedBatch } from "@tutti/scheduling";
import { micros } from "@tutti/units";
import { expect, test } from "vitest";
import { countBatch, countStart } from "./thread-table.ts";

test("a batch of warm-up requests alone is in no figure, one with others in all", () => {
  const entry = {
    ...{ batches: 0, items: 0, finished: 0, startDelayUs: 0, lateStarts: 0 },
    core: { ctrl: micros(100), perItem: micros(10) },
  };
  const count = (...own: readonly boolean[]): void => {
    const requests = own.map((isOwn) => ({ isOwn }) as DispatchedBatch["requests"][number]);
    countBatch(entry, requests);
    countStart(entry, requests, { batchSize: own.length, startDelay: micros(500) });
  };
  count(true, true);
  expect(entry).toMatchObject({ batches: 0, items: 0, finished: 0, startDelayUs: 0, lateStarts: 0 });
  count(true, false);
  expect(entry).toMatchObject({ batches: 1, items: 1, finished: 1, startDelayUs: 500, lateStarts: 1 });
});
