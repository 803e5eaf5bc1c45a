import fc from "fast-check";
import { expect, test } from "vitest";
import {
  type Point,
  type Rectangle,
  alongText,
  contains,
  convexHull,
  cornersOf,
  halfTurned,
  scaled,
  smallestRectangle,
  unclipped,
} from "./index.ts";

const real = (min: number, max: number): fc.Arbitrary<number> => fc.double({ min, max, noNaN: true });
const point = fc.record({ x: real(-500, 500), y: real(-500, 500) });
const gridPoint = fc.record({ x: fc.integer({ min: 0, max: 40 }), y: fc.integer({ min: 0, max: 40 }) });
const rectangle: fc.Arbitrary<Rectangle> = fc.record({
  centre: point,
  width: real(1, 300),
  height: real(1, 300),
  angle: real(-Math.PI, Math.PI),
});
const areaOf = ({ width, height }: Rectangle): number => width * height;
const grown = (given: Rectangle, by: number): Rectangle => ({
  ...given,
  width: given.width + 2 * by,
  height: given.height + 2 * by,
});
const rounded = (points: readonly Point[]): number[][] =>
  points.map(({ x, y }) => [Number(x.toFixed(6)) + 0, Number(y.toFixed(6)) + 0]);

test("corners go round from the text's top left, also where it leans or stands on its head", () => {
  const flat: Rectangle = { centre: { x: 10, y: 20 }, width: 8, height: 2, angle: 0 };
  expect(rounded(cornersOf(flat))).toEqual([
    [6, 19],
    [14, 19],
    [14, 21],
    [6, 21],
  ]);
  // A quarter clockwise: the text runs downwards, its top to the right.
  expect(rounded(cornersOf({ ...flat, angle: Math.PI / 2 }))).toEqual([
    [11, 16],
    [11, 24],
    [9, 24],
    [9, 16],
  ]);
  expect(rounded(cornersOf(halfTurned(flat)))).toEqual(rounded([2, 3, 0, 1].map((i) => cornersOf(flat)[i] as Point)));
});

test("a hull has the outermost points only, and neither doubles nor points on its sides", () => {
  const square = [0, 4].flatMap((x) => [0, 4].map((y) => ({ x, y })));
  const hull = convexHull([...square, ...square, { x: 2, y: 2 }, { x: 2, y: 0 }, { x: 4, y: 1 }]);
  expect(rounded(hull).sort()).toEqual(rounded(square).sort());
  expect(convexHull([])).toEqual([]);
  expect(
    convexHull([
      { x: 1, y: 1 },
      { x: 1, y: 1 },
    ]),
  ).toEqual([{ x: 1, y: 1 }]);
  expect(
    convexHull([
      { x: 0, y: 0 },
      { x: 2, y: 2 },
      { x: 1, y: 1 },
    ]),
  ).toHaveLength(2);
});

test("a hull is convex and holds every point", () => {
  fc.assert(
    fc.property(fc.array(gridPoint, { minLength: 3, maxLength: 60 }), (points) => {
      const hull = convexHull(points);
      for (let i = 0; i < hull.length && hull.length > 2; i++) {
        const [a, b] = [hull[i] as Point, hull[(i + 1) % hull.length] as Point];
        for (const p of points) {
          expect((b.x - a.x) * (p.y - a.y) - (b.y - a.y) * (p.x - a.x)).toBeGreaterThanOrEqual(0);
        }
      }
    }),
  );
});

test("the smallest rectangle around a rectangle's own corners is that rectangle", () => {
  fc.assert(
    fc.property(rectangle, (given) => {
      const found = smallestRectangle(cornersOf(given)) as Rectangle;
      expect(Math.abs(areaOf(found) / areaOf(given) - 1)).toBeLessThan(1e-6);
      expect(found.centre.x).toBeCloseTo(given.centre.x, 6);
      expect(found.centre.y).toBeCloseTo(given.centre.y, 6);
      expect(found.angle).toBeGreaterThanOrEqual(-Math.PI / 4 - 1e-9);
      expect(found.angle).toBeLessThan(Math.PI / 4 + 1e-9);
    }),
  );
});

test("the smallest rectangle holds every point, and none at 360 other angles is smaller", () => {
  fc.assert(
    fc.property(fc.array(gridPoint, { minLength: 3, maxLength: 30 }), (points) => {
      const found = smallestRectangle(points) as Rectangle;
      for (const each of points) expect(contains(grown(found, 1e-6), each)).toBe(true);
      for (let degree = 0; degree < 90; degree += 0.25) {
        expect(areaOf(found)).toBeLessThanOrEqual(boundedArea(points, (degree * Math.PI) / 180) + 1e-6);
      }
    }),
    { numRuns: 50 },
  );
});

test("of no point there is no rectangle, of one point or a line an empty one", () => {
  expect(smallestRectangle([])).toBeUndefined();
  expect(smallestRectangle([{ x: 3, y: 4 }])).toMatchObject({ centre: { x: 3, y: 4 }, width: 0, height: 0 });
  const line = smallestRectangle([
    { x: 0, y: 0 },
    { x: 3, y: 4 },
  ]) as Rectangle;
  expect(Math.max(line.width, line.height)).toBeCloseTo(5, 9);
  expect(Math.min(line.width, line.height)).toBeCloseTo(0, 9);
});

test("unclipping grows every side by area × ratio / perimeter: 40 × 10 at 1.5 by 6", () => {
  const given: Rectangle = { centre: { x: 0, y: 0 }, width: 40, height: 10, angle: 0.3 };
  expect(unclipped(given, 1.5)).toEqual({ ...given, width: 52, height: 22 });
  expect(unclipped({ ...given, width: 0, height: 0 }, 1.5)).toMatchObject({ width: 0, height: 0 });
  fc.assert(
    fc.property(rectangle, real(0, 3), (any, ratio) => {
      const after = unclipped(any, ratio);
      const distance = (areaOf(any) * ratio) / (2 * (any.width + any.height));
      // The area of what was added: a strip along each side, and the four corners.
      const added = 2 * distance * (any.width + any.height) + 4 * distance ** 2;
      expect(areaOf(after)).toBeCloseTo(areaOf(any) + added, 4);
      expect(after.centre).toEqual(any.centre);
    }),
  );
});

test("text runs along the longer side, but a square letter stays upright", () => {
  const flat: Rectangle = { centre: { x: 0, y: 0 }, width: 50, height: 10, angle: 0.1 };
  expect(alongText(flat)).toEqual(flat);
  expect(alongText({ ...flat, width: 10, height: 14 })).toMatchObject({ width: 10, angle: 0.1 });
  const tall = { ...flat, width: 10, height: 50 };
  expect(alongText(tall)).toMatchObject({ width: 50, height: 10, angle: 0.1 + Math.PI / 2 });
  expect(rounded(cornersOf(alongText(tall))).sort()).toEqual(rounded(cornersOf(tall)).sort());
});

test("scaling a rectangle scales its corners: exactly where both factors are equal, and along the axes", () => {
  fc.assert(
    fc.property(rectangle, real(0.2, 5), (given, factor) => {
      const corners = cornersOf(given).map(({ x, y }) => ({ x: x * factor, y: y * factor }));
      for (const [i, { x, y }] of cornersOf(scaled(given, { x: factor, y: factor })).entries()) {
        expect(x).toBeCloseTo((corners[i] as Point).x, 6);
        expect(y).toBeCloseTo((corners[i] as Point).y, 6);
      }
    }),
  );
  const flat: Rectangle = { centre: { x: 10, y: 10 }, width: 8, height: 4, angle: 0 };
  expect(scaled(flat, { x: 2, y: 3 })).toEqual({ centre: { x: 20, y: 30 }, width: 16, height: 12, angle: 0 });
  const upright = scaled({ ...flat, angle: Math.PI / 2 }, { x: 2, y: 3 });
  expect([upright.width, upright.height].map((side) => Number(side.toFixed(6)))).toEqual([24, 8]);
});

test("a point is in a rectangle exactly where turning it back says so", () => {
  const leaning: Rectangle = { centre: { x: 5, y: 5 }, width: 10, height: 2, angle: Math.PI / 4 };
  expect(contains(leaning, { x: 8, y: 8 })).toBe(true);
  expect(contains(leaning, { x: 8, y: 2 })).toBe(false);
  fc.assert(
    fc.property(rectangle, real(-1.2, 1.2), real(-1.2, 1.2), (given, u, v) => {
      fc.pre(Math.abs(Math.abs(u) - 1) > 1e-6 && Math.abs(Math.abs(v) - 1) > 1e-6);
      const [cos, sin] = [Math.cos(given.angle), Math.sin(given.angle)];
      const [a, b] = [(u * given.width) / 2, (v * given.height) / 2];
      const at = { x: given.centre.x + a * cos - b * sin, y: given.centre.y + a * sin + b * cos };
      expect(contains(given, at)).toBe(Math.abs(u) <= 1 && Math.abs(v) <= 1);
    }),
  );
});

function boundedArea(points: readonly Point[], angle: number): number {
  const along = points.map(({ x, y }) => x * Math.cos(angle) + y * Math.sin(angle));
  const across = points.map(({ x, y }) => y * Math.cos(angle) - x * Math.sin(angle));
  return (Math.max(...along) - Math.min(...along)) * (Math.max(...across) - Math.min(...across));
}
