/**
 * Rectangles that lie at an angle, as text does. Coordinates are continuous, in pixels: x to the right, y down, pixel
 * (i, j) covers [i, i + 1) × [j, j + 1). Angles are in radians, clockwise as seen, since y points down.
 */
export interface Point {
  readonly x: number;
  readonly y: number;
}

export interface Rectangle {
  readonly centre: Point;
  /** Along `angle`, which is the direction in which the text runs once it is known. */
  readonly width: number;
  readonly height: number;
  readonly angle: number;
}

/** Top left, top right, bottom right, bottom left, as the text's reader sees them. */
export type Corners = readonly [Point, Point, Point, Point];

export function cornersOf({ centre, width, height, angle }: Rectangle): Corners {
  const [cos, sin] = [Math.cos(angle), Math.sin(angle)];
  const corner = (u: number, v: number): Point => ({
    x: centre.x + u * width * cos - v * height * sin,
    y: centre.y + u * width * sin + v * height * cos,
  });
  return [corner(-0.5, -0.5), corner(0.5, -0.5), corner(0.5, 0.5), corner(-0.5, 0.5)];
}

/** The hull's corners in order, without those that lie on a side. Andrew's monotone chain, O(n log n). */
export function convexHull(points: readonly Point[]): Point[] {
  const sorted = points.toSorted((a, b) => a.x - b.x || a.y - b.y);
  const lower = chain(sorted);
  const upper = chain(sorted.toReversed());
  return lower.length === 1 ? lower : [...lower.slice(0, -1), ...upper.slice(0, -1)];
}

function chain(points: readonly Point[]): Point[] {
  const kept: Point[] = [];
  for (const point of points) {
    while (kept.length >= 2 && cross(kept.at(-2) as Point, kept.at(-1) as Point, point) <= 0) kept.pop();
    const last = kept.at(-1);
    if (last === undefined || last.x !== point.x || last.y !== point.y) kept.push(point);
  }
  return kept;
}

const cross = (o: Point, a: Point, b: Point): number => (a.x - o.x) * (b.y - o.y) - (a.y - o.y) * (b.x - o.x);

/**
 * The smallest rectangle around the points, at any angle. One of its sides lies on a side of their hull, so each is
 * tried: O(h²) for a hull of h corners, and the hull of a shape on a grid is short.
 *
 * @returns angle in [−π/4, π/4); undefined where there is no point
 */
export function smallestRectangle(points: readonly Point[]): Rectangle | undefined {
  const hull = convexHull(points);
  if (hull.length === 0) return undefined;
  let best: Rectangle | undefined;
  for (const [i, from] of hull.entries()) {
    const to = hull[(i + 1) % hull.length] as Point;
    const found = boundsAt(hull, Math.atan2(to.y - from.y, to.x - from.x));
    if (best === undefined || found.width * found.height < best.width * best.height - 1e-9) best = found;
  }
  return best;
}

/** The rectangle around the points whose sides are parallel to `angle`, turned by quarters into [−π/4, π/4). */
function boundsAt(points: readonly Point[], angle: number): Rectangle {
  const turned = quarterTurned(angle);
  const [cos, sin] = [Math.cos(turned), Math.sin(turned)];
  let [left, right, top, bottom] = [Infinity, -Infinity, Infinity, -Infinity];
  for (const { x, y } of points) {
    const [u, v] = [x * cos + y * sin, y * cos - x * sin];
    left = Math.min(left, u);
    right = Math.max(right, u);
    top = Math.min(top, v);
    bottom = Math.max(bottom, v);
  }
  const [u, v] = [(left + right) / 2, (top + bottom) / 2];
  const centre = { x: u * cos - v * sin, y: u * sin + v * cos };
  return { centre, width: right - left, height: bottom - top, angle: turned };
}

const QUARTER = Math.PI / 2;
function quarterTurned(angle: number): number {
  const turned = angle - QUARTER * Math.round(angle / QUARTER);
  return turned >= QUARTER / 2 ? turned - QUARTER : turned;
}

/**
 * Text that is this much taller than wide runs downwards (or upwards: the classifier of angles says which), as in
 * PaddleOCR.
 */
const UPRIGHT_RATIO = 1.5;

/** Turns a rectangle so that `width` and `angle` are those of the line of text in it. */
export function alongText(rectangle: Rectangle): Rectangle {
  const { width, height, angle } = rectangle;
  return height < UPRIGHT_RATIO * width
    ? rectangle
    : { ...rectangle, width: height, height: width, angle: angle + QUARTER };
}

/** Upside down: the same place, read from the other end. */
export const halfTurned = (rectangle: Rectangle): Rectangle => ({ ...rectangle, angle: rectangle.angle + Math.PI });

/**
 * Grows a rectangle by area × ratio / perimeter on every side, as DB's post-processing does with a polygon: it is
 * trained on text shrunk by that rule (Liao et al., "Real-time Scene Text Detection with Differentiable Binarization",
 * section 3.4). For a rectangle, the smallest rectangle around the polygon that is grown with round corners is this
 * one, so nothing is approximated.
 */
export function unclipped(rectangle: Rectangle, ratio: number): Rectangle {
  const { width, height } = rectangle;
  if (width + height === 0) return rectangle;
  const distance = (width * height * ratio) / (2 * (width + height));
  return { ...rectangle, width: width + 2 * distance, height: height + 2 * distance };
}

export function scaled(rectangle: Rectangle, { x, y }: Point): Rectangle {
  const { centre, width, height, angle } = rectangle;
  if (x === y) return { centre: { x: centre.x * x, y: centre.y * y }, width: width * x, height: height * x, angle };
  // Sides scaled unlike make a parallelogram; the sides are rounded to multiples of 32, so the two differ by little,
  // and its rectangle is as good.
  const along = Math.hypot(Math.cos(angle) * x, Math.sin(angle) * y);
  const across = Math.hypot(Math.sin(angle) * x, Math.cos(angle) * y);
  return {
    centre: { x: centre.x * x, y: centre.y * y },
    width: width * along,
    height: height * across,
    angle: Math.atan2(Math.sin(angle) * y, Math.cos(angle) * x),
  };
}

/** Whether a point lies in the rectangle or on its edge. */
export function contains({ centre, width, height, angle }: Rectangle, { x, y }: Point): boolean {
  const [cos, sin] = [Math.cos(angle), Math.sin(angle)];
  const [dx, dy] = [x - centre.x, y - centre.y];
  return Math.abs(dx * cos + dy * sin) <= width / 2 && Math.abs(dy * cos - dx * sin) <= height / 2;
}
