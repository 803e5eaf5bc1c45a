import fc from "fast-check";
import { expect, test } from "vitest";
import { type Rectangle, middleAngle, readingOrder } from "./index.ts";

const at = (x: number, y: number, height = 20): Rectangle => ({ centre: { x, y }, width: 80, height, angle: 0 });
const turned = ({ centre, angle, ...rest }: Rectangle, by: number): Rectangle => ({
  ...rest,
  centre: {
    x: centre.x * Math.cos(by) - centre.y * Math.sin(by),
    y: centre.x * Math.sin(by) + centre.y * Math.cos(by),
  },
  angle: angle + by,
});
const page: readonly Rectangle[] = [
  at(50, 100),
  at(350, 104),
  at(50, 130),
  at(350, 127),
  at(200, 160, 40),
  at(50, 220),
];

test("rows are read from top to bottom, and in each from left to right, though its boxes lie at unlike heights", () => {
  expect(readingOrder(page)).toEqual([0, 1, 2, 3, 4, 5]);
  expect(readingOrder(page.toReversed())).toEqual([5, 4, 3, 2, 1, 0]);
  expect(readingOrder([])).toEqual([]);
});

test("a page at any angle is read in the same order, and in whatever order its boxes were found", () => {
  fc.assert(
    fc.property(
      fc.double({ min: -Math.PI, max: Math.PI, noNaN: true }),
      fc.shuffledSubarray([0, 1, 2, 3, 4, 5], { minLength: 6 }),
      (angle, shuffled) => {
        const order = readingOrder(shuffled.map((index) => turned(page[index] as Rectangle, angle)));
        expect(order.map((index) => shuffled[index])).toEqual([0, 1, 2, 3, 4, 5]);
      },
    ),
  );
});

test("one line at another angle, or on its head, doesn't turn the page", () => {
  const lone = { ...(page[2] as Rectangle), angle: Math.PI };
  expect(readingOrder(page.map((each, i) => (i === 2 ? lone : each)))).toEqual([0, 1, 2, 3, 4, 5]);
});

test("the middle of angles around half a turn is half a turn, not zero", () => {
  expect(middleAngle([])).toBe(0);
  expect(Math.cos(middleAngle([3.1, -3.1, 3.13]))).toBeLessThan(-0.99);
  expect(middleAngle([0.1, 0.2, 1.5])).toBeCloseTo(0.2, 9);
  expect(middleAngle([Math.PI, 0])).toBe(0);
  expect(middleAngle([-Math.PI, 0])).toBe(0);
});
