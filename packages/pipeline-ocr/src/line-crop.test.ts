import type { RgbImage } from "@tutti/onnx-tools";
import fc from "fast-check";
import { expect, test } from "vitest";
import { type Rectangle, columnsOf, cropLine, halfTurned, lineWidth } from "./index.ts";

/** Red grows with x, green with y: a pixel says where it comes from. */
function ramp(width: number, height: number): RgbImage {
  const rgb = new Uint8Array(width * height * 3);
  for (let y = 0; y < height; y++) for (let x = 0; x < width; x++) rgb.set([x, y, 7], (y * width + x) * 3);
  return { rgb, width, height };
}
const pixel = ({ rgb, width }: RgbImage, x: number, y: number): number[] => [
  ...rgb.subarray((y * width + x) * 3, (y * width + x) * 3 + 3),
];
const flat: Rectangle = { centre: { x: 100, y: 60 }, width: 80, height: 48, angle: 0 };

test("a crop at its own size and no angle is a copy", () => {
  const crop = cropLine(ramp(200, 120), flat, { width: 80 });
  expect([crop.width, crop.height]).toEqual([80, 48]);
  for (const [x, y] of [
    [0, 0],
    [79, 0],
    [13, 40],
    [79, 47],
  ] as const)
    expect(pixel(crop, x, y)).toEqual([60 + x, 36 + y, 7]);
});

test("a quarter turn reads downwards, half a turn from the end", () => {
  const image = ramp(200, 120);
  const down = cropLine(image, { ...flat, width: 48, angle: Math.PI / 2 }, { width: 48 });
  expect(pixel(down, 0, 0)).toEqual([123, 36, 7]);
  expect(pixel(down, 47, 0)).toEqual([123, 83, 7]);
  const [crop, turned] = [flat, halfTurned(flat)].map((each) => cropLine(image, each, { width: 80 })) as [
    RgbImage,
    RgbImage,
  ];
  for (const [x, y] of [
    [0, 0],
    [33, 12],
  ] as const)
    expect(pixel(turned, x, y)).toEqual(pixel(crop, 79 - x, 47 - y));
});

test("a crop at any angle takes each pixel from where it lies, within rounding", () => {
  const image = ramp(250, 250);
  fc.assert(
    fc.property(fc.double({ min: -3, max: 3, noNaN: true }), fc.nat(79), fc.nat(47), (angle, x, y) => {
      const crop = cropLine(image, { ...flat, centre: { x: 125, y: 125 }, angle }, { width: 80 });
      const [u, v] = [x + 0.5 - 40, y + 0.5 - 24];
      const [red, green] = pixel(crop, x, y) as [number, number];
      expect(Math.abs(red - (125 + u * Math.cos(angle) - v * Math.sin(angle) - 0.5))).toBeLessThan(0.51);
      expect(Math.abs(green - (125 + u * Math.sin(angle) + v * Math.cos(angle) - 0.5))).toBeLessThan(0.51);
    }),
    { numRuns: 30 },
  );
});

test("beyond the edge the outermost pixels go on, and making it smaller averages", () => {
  const image = ramp(60, 60);
  const beyond = cropLine(image, { centre: { x: 0, y: 0 }, width: 48, height: 48, angle: 0 }, { width: 48 });
  expect([pixel(beyond, 0, 0), pixel(beyond, 47, 47)]).toEqual([
    [0, 0, 7],
    [23, 23, 7],
  ]);
  // Stripes of one pixel: every other one alone would be black or white.
  const stripes: RgbImage = { rgb: new Uint8Array(192 * 192 * 3), width: 192, height: 192 };
  for (let i = 0; i < 192 * 192; i++) stripes.rgb.fill(i % 2 === 0 ? 0 : 255, i * 3, i * 3 + 3);
  const grey = cropLine(stripes, { centre: { x: 96, y: 96 }, width: 192, height: 192, angle: 0 }, { width: 48 });
  for (const value of grey.rgb) expect(Math.abs(value - 127.5)).toBeLessThanOrEqual(1);
});

test("a line keeps its proportions at the height of 48, up to 60 heights", () => {
  expect(lineWidth({ ...flat, width: 100, height: 24 })).toBe(200);
  expect(lineWidth({ ...flat, width: 1, height: 300 })).toBe(1);
  expect(lineWidth({ ...flat, width: 1e6, height: 0 })).toBe(2_880);
});

test("columns put side by side again are the line", () => {
  const image = ramp(30, 4);
  const [left, right] = [columnsOf(image, 0, 11), columnsOf(image, 11, 30)];
  expect([left.width, right.width]).toEqual([11, 19]);
  for (let y = 0; y < 4; y++) {
    expect(pixel(left, 10, y)).toEqual(pixel(image, 10, y));
    expect(pixel(right, 0, y)).toEqual(pixel(image, 11, y));
  }
});
