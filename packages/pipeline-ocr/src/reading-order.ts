import type { Point, Rectangle } from "./rectangle.ts";

/**
 * The order in which a page is read: rows from top to bottom, each from left to right. A page may lie at an angle: it
 * is first turned back by the median of its lines' angles.
 *
 * @returns indices into `rectangles`
 */
export function readingOrder(rectangles: readonly Rectangle[]): number[] {
  const angle = middleAngle(rectangles.map((rectangle) => rectangle.angle));
  const [cos, sin] = [Math.cos(angle), Math.sin(angle)];
  const turned = ({ x, y }: Point): Point => ({ x: x * cos + y * sin, y: y * cos - x * sin });
  const places = rectangles.map(({ centre, height }, index) => ({ index, at: turned(centre), height }));
  places.sort((a, b) => a.at.y - b.at.y || a.at.x - b.at.x || a.index - b.index);
  const rows: (typeof places)[] = [];
  for (const place of places) {
    const row = rows.at(-1);
    const head = row?.[0];
    // A line joins a row if its middle lies within the first line of it: smaller print beside larger stays in its row.
    const joins = head !== undefined && place.at.y - head.at.y <= Math.max(head.height, place.height) / 2;
    if (joins) row?.push(place);
    else rows.push([place]);
  }
  return rows.flatMap((row) => row.sort((a, b) => a.at.x - b.at.x || a.index - b.index).map(({ index }) => index));
}

/**
 * The median of angles, taken around the direction that most of them point in: 179° and −179° are neighbours. If as
 * many point one way as the other, upright ones count.
 */
export function middleAngle(angles: readonly number[]): number {
  const x = angles.reduce((sum, angle) => sum + Math.cos(angle), 0);
  const y = angles.reduce((sum, angle) => sum + Math.sin(angle), 0);
  const around = Math.hypot(x, y) > 1e-3 * angles.length ? Math.atan2(y, x) : 0;
  const offsets = angles
    .map((angle) => Math.atan2(Math.sin(angle - around), Math.cos(angle - around)))
    .filter((offset) => Math.abs(offset) <= Math.PI / 2)
    .sort((a, b) => a - b);
  return around + (offsets[Math.floor(offsets.length / 2)] ?? 0);
}
