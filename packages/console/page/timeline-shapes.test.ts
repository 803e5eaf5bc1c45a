import fc from "fast-check";
import { expect, test } from "vitest";
import type { Bar } from "./live-store.ts";
import { type Frame, LINE, barShapes, readableSpan, shapeAt, summaryOf, timeTicks } from "./timeline-shapes.ts";

const FRAME: Frame = { from: 1_000, to: 2_000, width: 500, rowHeight: 30, gpus: [3, 7] };
const bar = (more: Partial<Bar>): Bar => ({
  model: 1,
  gpu: 3,
  size: 5,
  failed: 0,
  first: 1_100,
  granted: 1_190,
  start: 1_200,
  end: 1_400,
  ...more,
});

test("a bar stands where its batch ran, and the line before it begins when its first request came (SHAPE-1)", () => {
  const [shape] = barShapes([bar({ gpu: 7 })], FRAME);
  expect(shape).toMatchObject({ x: 100, width: 100, y: 32, height: 15, lineX: 50, lineY: 53.75, label: "5" });
  expect(shape!.lineY).toBeGreaterThan(shape!.y + shape!.height); // SHAPE-2
});

test("batches outside, or on an accelerator that isn't shown, are left out; those that reach in are cut", () => {
  const bars = [
    bar({ first: 100, start: 200, end: 900 }),
    bar({ gpu: 9 }),
    bar({ first: 2_100, start: 2_200, end: 2_300 }),
  ];
  expect(barShapes(bars, FRAME)).toEqual([]);
  const [waits] = barShapes([bar({ first: 500 })], FRAME);
  expect([waits!.lineX, waits!.x]).toEqual([0, 100]);
});

test("a batch that started at once has no line, and one too narrow for its number none", () => {
  const [shape] = barShapes([bar({ first: 1_199, end: 1_201 })], FRAME);
  expect([shape!.lineX, shape!.label]).toEqual([shape!.x, ""]);
  expect(shape!.width).toBeGreaterThan(1); // Still visible.
});

test("the pointer finds a bar, and its line, of the row that it is on", () => {
  const shapes = barShapes([bar({}), bar({ gpu: 7, size: 9 })], FRAME);
  expect(shapeAt(shapes, 150, 10)?.bar.size).toBe(5);
  expect(shapeAt(shapes, 150, 45)?.bar.size).toBe(9);
  expect(shapeAt(shapes, 70, 25)?.bar.size).toBe(5);
  expect(shapeAt(shapes, 70, 10)).toBeUndefined();
  expect(shapeAt(shapes, 400, 10)).toBeUndefined();
});

test("ticks are whole steps within the span, and never crowd", () => {
  fc.assert(
    fc.property(
      fc.integer({ min: 0, max: 1e12 }),
      fc.integer({ min: 50, max: 120_000 }),
      fc.integer({ min: 100, max: 2_000 }),
      (from, span, width) => {
        const { step, at } = timeTicks(from, from + span, width);
        expect(at.every((time) => time % step === 0 && time >= from && time <= from + span)).toBe(true);
        expect(at.length).toBeLessThanOrEqual(width / 80 + 2);
      },
    ),
  );
});

test("a reader who can't see the picture is told how busy it is, how large batches are and how long they were put off", () => {
  const words = summaryOf([bar({}), bar({ gpu: 7, size: 9 })], FRAME);
  expect(words).toBe(
    "2 batches of 7.0 requests on average in 1.0 s, accelerators busy 20 % of it, first requests waited 100.0 ms on average",
  );
  expect(summaryOf([], FRAME)).toBe("no batch ran on 2 accelerators in 1.0 s");
});

test("a number that would be cut at an edge, or is too wide for its bar, is not drawn", () => {
  const label = (more: Partial<Bar>): string => barShapes([bar(more)], FRAME)[0]!.label;
  expect(label({ first: 900, start: 950, end: 1_200 })).toBe("");
  expect(label({ start: 1_900, end: 2_050 })).toBe("");
  expect([label({ end: 1_230, size: 7 }), label({ end: 1_230, size: 17 })]).toEqual(["7", ""]);
  expect(label({ end: 1_260, size: 128 })).toBe("128");
});

test("the span that the page chooses is the longest in which the sizes of most batches can be read", () => {
  const spans = [0.2, 0.5, 1, 2, 5];
  const batches = (ms: number, size: number) => Array.from({ length: 10 }, () => bar({ start: 0, end: ms, size }));
  // 100 r/s of a model that runs for 5 ms: 5 s would have bars of one pixel.
  const chosen = readableSpan(batches(5, 1), 1_100, spans);
  expect(chosen).toBe(0.5);
  const labels = (from: number): string[] =>
    barShapes([bar({ first: 0, start: from, end: from + 5, size: 1 })], {
      ...FRAME,
      width: 1_100,
      from: 0,
      to: 1_000 * chosen,
    }).map(({ label }) => label);
  expect(labels(100)).toEqual(["1"]);
  expect([readableSpan(batches(40, 13), 1_100, spans), readableSpan(batches(1, 1), 300, spans)]).toEqual([2, 0.2]);
  expect(readableSpan([...batches(40, 13), bar({ start: 0, end: 1 })], 1_100, spans)).toBe(2);
  expect(readableSpan([], 1_100, spans)).toBe(5);
});

test("bars have room for their number, and lines for themselves, with up to 24 accelerators", () => {
  for (const rowHeight of [34, 22]) {
    const [shape] = barShapes([bar({ model: 2 })], { ...FRAME, rowHeight });
    expect([rowHeight, shape!.label]).toEqual([rowHeight, "5"]);
    expect(shape!.lineY - LINE / 2).toBeGreaterThanOrEqual(shape!.y + shape!.height);
    expect(shape!.lineY + LINE / 2).toBeLessThanOrEqual(rowHeight);
  }
});
