/**
 * Finds the rectangles that hold text in the detector's map: DB's post-processing, with PaddleOCR's settings for
 * PP-OCRv4.
 */
import {
  type Point,
  type Rectangle,
  alongText,
  contains,
  cornersOf,
  smallestRectangle,
  unclipped,
} from "./rectangle.ts";

/**
 * Probability of each pixel to belong to the middle of a line of text, row by row. Rows may be longer than `width`: a
 * batch's padding lies to the right and below.
 */
export interface HeatMap {
  readonly values: Float32Array;
  readonly width: number;
  readonly height: number;
  readonly stride: number;
}

export interface TextBox {
  readonly rectangle: Rectangle;
  /** Mean of the map within the box, before the box is grown. */
  readonly score: number;
}

export interface BoxRules {
  /** A pixel above this probability is text. */
  readonly threshold: number;
  /** Least score of a box. */
  readonly scoreMin: number;
  readonly unclipRatio: number;
  /** Least side of a box before it is grown, in pixels of the map; a shorter one is noise. */
  readonly sideMin: number;
  /** Most boxes; those with the best scores are kept. */
  readonly boxesMax: number;
}

export const PADDLE_RULES: BoxRules = { threshold: 0.3, scoreMin: 0.6, unclipRatio: 1.5, sideMin: 3, boxesMax: 64 };

/** Finds the boxes that the rules accept, in no particular order. */
export function textBoxes(map: HeatMap, rules: BoxRules = PADDLE_RULES): TextBox[] {
  const boxes: TextBox[] = [];
  for (const points of outlines(map, rules.threshold)) {
    const tight = smallestRectangle(points);
    if (tight === undefined || Math.min(tight.width, tight.height) < rules.sideMin) continue;
    const score = meanWithin(map, tight);
    if (score < rules.scoreMin) continue;
    boxes.push({ rectangle: alongText(unclipped(tight, rules.unclipRatio)), score });
  }
  if (boxes.length <= rules.boxesMax) return boxes;
  return boxes.sort((a, b) => b.score - a.score).slice(0, rules.boxesMax);
}

/**
 * Outline points of each connected region (neighbours also over corners). They are the first and last pixel of every
 * row, which is all that a hull needs. It is one pass with its own stack, which visits each pixel once.
 */
export function outlines({ values, width, height, stride }: HeatMap, threshold: number): Point[][] {
  const seen = new Uint8Array(width * height);
  const stack: number[] = [];
  const regions: Point[][] = [];
  const visit = (x: number, y: number): void => {
    if (x < 0 || y < 0 || x >= width || y >= height || seen[y * width + x] === 1) return;
    if (!((values[y * stride + x] as number) > threshold)) return;
    seen[y * width + x] = 1;
    stack.push(y * width + x);
  };
  for (let start = 0; start < width * height; start++) {
    visit(start % width, Math.floor(start / width));
    if (stack.length === 0) continue;
    const extents = new Map<number, { first: number; last: number }>();
    for (let at = stack.pop(); at !== undefined; at = stack.pop()) {
      const [x, y] = [at % width, Math.floor(at / width)];
      const row = extents.get(y);
      if (row === undefined) extents.set(y, { first: x, last: x });
      else if (x < row.first) row.first = x;
      else if (x > row.last) row.last = x;
      for (let dy = -1; dy <= 1; dy++) for (let dx = -1; dx <= 1; dx++) visit(x + dx, y + dy);
    }
    regions.push([...extents].flatMap(([y, { first, last }]) => pixelCorners(y, first, last)));
  }
  return regions;
}

const pixelCorners = (y: number, first: number, last: number): Point[] => [
  { x: first, y },
  { x: first, y: y + 1 },
  { x: last + 1, y },
  { x: last + 1, y: y + 1 },
];

/** Mean of the map over the pixels whose centres lie in the rectangle. */
function meanWithin({ values, width, height, stride }: HeatMap, rectangle: Rectangle): number {
  const corners = cornersOf(rectangle);
  const [left, right] = rangeOf(
    corners.map(({ x }) => x),
    width,
  );
  const [top, bottom] = rangeOf(
    corners.map(({ y }) => y),
    height,
  );
  let [sum, count] = [0, 0];
  for (let y = top; y < bottom; y++) {
    for (let x = left; x < right; x++) {
      if (!contains(rectangle, { x: x + 0.5, y: y + 0.5 })) continue;
      sum += values[y * stride + x] as number;
      count++;
    }
  }
  return count === 0 ? 0 : sum / count;
}

const rangeOf = (values: readonly number[], max: number): [number, number] => [
  Math.max(0, Math.floor(Math.min(...values))),
  Math.min(max, Math.ceil(Math.max(...values))),
];
