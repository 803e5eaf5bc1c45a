import fc from "fast-check";
import { expect, test } from "vitest";
import { type HeatMap, PADDLE_RULES, type Rectangle, contains, joined, outlines, textBoxes } from "./index.ts";

/** 1 where `inside` says so. */
function mapOf(width: number, height: number, inside: (x: number, y: number) => number, stride = width): HeatMap {
  const values = new Float32Array(stride * height).fill(1); // what lies beyond `width` is padding, and must not be read
  for (let y = 0; y < height; y++) for (let x = 0; x < width; x++) values[y * stride + x] = inside(x, y);
  return { values, width, height, stride };
}
const box = (x: number, y: number, left: number, top: number, right: number, bottom: number): number =>
  x >= left && x < right && y >= top && y < bottom ? 1 : 0;

test("a bar of 40 × 10 pixels becomes a box grown by 6 on every side", () => {
  const [found, ...others] = textBoxes(mapOf(100, 50, (x, y) => box(x, y, 20, 15, 60, 25)));
  expect(others).toEqual([]);
  expect(found?.score).toBe(1);
  expect(found?.rectangle).toEqual({ centre: { x: 40, y: 20 }, width: 52, height: 22, angle: 0 });
});

test("padding to the right of the map is not read", () => {
  const map = mapOf(64, 32, (x, y) => box(x, y, 10, 10, 40, 20), 96);
  expect(textBoxes(map)).toEqual(textBoxes(mapOf(64, 32, (x, y) => box(x, y, 10, 10, 40, 20))));
});

test("faint, thin and small regions are no text", () => {
  expect(textBoxes(mapOf(60, 40, (x, y) => 0.5 * box(x, y, 10, 10, 50, 20)))).toEqual([]); // above 0.3, below 0.6
  expect(textBoxes(mapOf(60, 40, (x, y) => box(x, y, 10, 10, 50, 12)))).toEqual([]); // 2 pixels high
  expect(textBoxes(mapOf(60, 40, () => 0))).toEqual([]);
});

test("a leaning bar is found at its angle, within a degree", () => {
  for (const degrees of [-40, -25, 5, 12, 30]) {
    const angle = (degrees * Math.PI) / 180;
    const bar: Rectangle = { centre: { x: 100, y: 100 }, width: 120, height: 16, angle };
    const map = mapOf(200, 200, (x, y) => (contains(bar, { x: x + 0.5, y: y + 0.5 }) ? 1 : 0));
    const [found] = textBoxes(map);
    expect(Math.abs((found?.rectangle.angle ?? 9) - angle) * (180 / Math.PI)).toBeLessThan(1);
    expect(found?.rectangle.centre.x).toBeCloseTo(100, 0);
    expect(found?.rectangle.width).toBeGreaterThan(120);
  }
});

test("of more boxes than the bound the best-scored stay", () => {
  // 100 bars, each a little fainter than the one before it.
  const map = mapOf(200, 200, (x, y) =>
    x % 20 < 12 && y % 20 < 6 ? 1 - (Math.floor(y / 20) * 10 + Math.floor(x / 20)) / 400 : 0,
  );
  const all = textBoxes(map, { ...PADDLE_RULES, boxesMax: 1_000 });
  const kept = textBoxes(map, { ...PADDLE_RULES, boxesMax: 7 });
  expect([all.length, kept.length]).toEqual([100, 7]);
  const scores = all.map(({ score }) => score).sort((a, b) => b - a);
  expect(kept.map(({ score }) => score)).toEqual(scores.slice(0, 7));
});

test("regions are what a flood from each pixel says, neighbours over corners included", () => {
  const size = 8;
  fc.assert(
    fc.property(fc.array(fc.boolean(), { minLength: size * size, maxLength: size * size }), (cells) => {
      const map = mapOf(size, size, (x, y) => (cells[y * size + x] === true ? 1 : 0));
      const found = outlines(map, 0.5).map((points) => [
        Math.min(...points.map(({ x }) => x)),
        Math.min(...points.map(({ y }) => y)),
        Math.max(...points.map(({ x }) => x)),
        Math.max(...points.map(({ y }) => y)),
      ]);
      expect(found.map(String).sort()).toEqual(boundsByMerging(cells, size).map(String).sort());
    }),
  );
});

/** Every pixel a region of its own, merged until nothing changes. */
function boundsByMerging(cells: readonly boolean[], size: number): number[][] {
  const label = cells.map((_, i) => i);
  for (let changed = true; changed;) {
    changed = false;
    for (let i = 0; i < cells.length; i++) {
      for (let j = 0; j < cells.length; j++) {
        const near =
          Math.abs((i % size) - (j % size)) <= 1 && Math.abs(Math.floor(i / size) - Math.floor(j / size)) <= 1;
        if (!cells[i] || !cells[j] || !near || (label[i] as number) >= (label[j] as number)) continue;
        label[j] = label[i] as number;
        changed = true;
      }
    }
  }
  const regions = Map.groupBy(
    [...cells.keys()].filter((i) => cells[i]),
    (i) => label[i] as number,
  );
  return [...regions.values()].map((all) => {
    const [xs, ys] = [all.map((i) => i % size), all.map((i) => Math.floor(i / size))];
    return [Math.min(...xs), Math.min(...ys), Math.max(...xs) + 1, Math.max(...ys) + 1];
  });
}

const at = (x: number, y: number, width: number, height = 20, angle = 0): Rectangle => ({
  centre: { x, y },
  width,
  height,
  angle,
});

test("two halves of one line that overlap become one box, at any angle", () => {
  const [found, ...others] = joined([at(50, 50, 100), at(140, 52, 100)]);
  expect(others).toEqual([]);
  expect(found).toEqual({ centre: { x: 95, y: 51 }, width: 190, height: 22, angle: 0 });
  const angle = 0.4;
  const along = (distance: number): Rectangle =>
    at(200 + distance * Math.cos(angle), 200 + distance * Math.sin(angle), 100, 20, angle);
  const [leaning] = joined([along(0), along(90)]);
  expect([leaning?.width, leaning?.height].map((side) => Number(side?.toFixed(6)))).toEqual([190, 20]);
  expect(leaning?.centre.x).toBeCloseTo(200 + 45 * Math.cos(angle), 6);
});

test("boxes that don't overlap, of other lines, other sizes or other angles stay apart", () => {
  const first = at(50, 50, 100);
  for (const other of [at(155, 50, 100), at(50, 62, 100), at(100, 50, 100, 40), at(100, 50, 100, 20, 0.5)]) {
    expect(joined([first, other])).toEqual([first, other]);
  }
  expect(joined([])).toEqual([]);
});

test("a line that was cut into many pieces becomes one, whatever their order", () => {
  const pieces = Array.from({ length: 7 }, (_, i) => at(50 + i * 90, 50, 100));
  fc.assert(
    fc.property(fc.shuffledSubarray(pieces, { minLength: 7 }), (shuffled) => {
      const [line, ...others] = joined(shuffled);
      expect(others).toEqual([]);
      expect([line?.centre.x, line?.width]).toEqual([320, 640]);
    }),
  );
});
