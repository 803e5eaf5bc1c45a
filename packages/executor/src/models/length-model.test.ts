import { type Instant, type ThreadId, micros, millis, seconds, threadId } from "@tutti/units";
import { expect, test } from "vitest";
import { IdleHunger, LengthModel } from "./length-model.ts";

const THREAD: ThreadId = threadId(3, 0);
const at = (count: number): Instant => (1_000_000_000 + count * 1_000_000) as Instant;
/** A batch of four takes 2 ms and twice what its longest member takes. */
const COSTS = [
  { batchSize: 1, fixed: 0, slope: 1 },
  { batchSize: 4, fixed: 2_000, slope: 2 },
];

test("from batches it is reckoned what their longest members would have taken alone, and shorter ones", () => {
  const lengths = new LengthModel();
  expect(lengths.reckoned(THREAD, 50)).toBeUndefined();
  lengths.ranBatch(THREAD, { batchSize: 4, longest: 100, took: millis(82) }, COSTS);
  expect(lengths.reckoned(THREAD, 100)).toBe(40_000);
  expect(lengths.reckoned(THREAD, 50)).toBe(20_000);
});

test("batches of sizes between those whose costs are known count by the line between these", () => {
  const lengths = new LengthModel();
  lengths.ranBatch(THREAD, { batchSize: 2, longest: 10, took: micros(10_000) }, COSTS);
  expect(lengths.reckoned(THREAD, 10)).toBe(Math.round((10_000 - 2_000 / 3) / (1 + 1 / 3)));
});

test("a run alone counts as it is, and a newer one moves what is known by a fifth", () => {
  const lengths = new LengthModel();
  lengths.ranAlone(THREAD, { units: 100, alone: millis(40) });
  lengths.ranAlone(THREAD, { units: 0, alone: millis(90) });
  expect(lengths.reckoned(THREAD, 100)).toBe(40_000);
  lengths.ranAlone(THREAD, { units: 100, alone: millis(50) });
  expect(lengths.reckoned(THREAD, 100)).toBe(42_000);
});

test("of a request without a length nothing is reckoned, nor of another model", () => {
  const lengths = new LengthModel();
  lengths.ranBatch(THREAD, { batchSize: 4, longest: 100, took: millis(82) }, COSTS);
  lengths.ranBatch(THREAD, { batchSize: 4, longest: 0, took: seconds(9) }, COSTS);
  // Less than a batch costs: noise.
  lengths.ranBatch(THREAD, { batchSize: 4, longest: 100, took: micros(1_000) }, COSTS);
  expect(lengths.reckoned(THREAD, 0)).toBeUndefined();
  expect(lengths.reckoned(threadId(4, 0), 100)).toBeUndefined();
  expect(lengths.reckoned(THREAD, 100)).toBe(40_000);
});

test("idle time is missed when the first row has waited for ten seconds and less than half of the share was had in these", () => {
  const hunger = new IdleHunger(0.05);
  expect(hunger.isFelt(at(100), undefined)).toBe(false);
  expect(hunger.isFelt(at(100), at(91))).toBe(false);
  expect(hunger.isFelt(at(100), at(90))).toBe(true);
  for (let i = 0; i < 5; i++) hunger.ran(at(92 + i), millis(50));
  expect(hunger.isFelt(at(100), at(80))).toBe(false);
  expect(hunger.isFelt(at(103), at(80))).toBe(true);
});
