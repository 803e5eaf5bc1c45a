/**
 * Joins boxes that the detector cut in the middle of a line. Such boxes overlap once they are grown, and letters would
 * be read twice.
 */
import { type Point, type Rectangle, cornersOf } from "./rectangle.ts";

/** Largest offset across the line, as a fraction of the lower box's height. */
const OFFSET_MAX = 0.3;
const HEIGHT_RATIO_MAX = 1.5;
const ANGLE_MAX = (10 * Math.PI) / 180;

/** @param rectangles - with their angles along the text */
export function joined(rectangles: readonly Rectangle[]): Rectangle[] {
  const open = [...rectangles];
  for (let i = 0; i < open.length;) {
    const one = open[i] as Rectangle;
    const j = open.findIndex((other, at) => at !== i && overlapInLine(one, other));
    if (j === -1) i++;
    else {
      open[i] = around(one, open[j] as Rectangle);
      open.splice(j, 1);
      if (j < i) i--;
    }
  }
  return open;
}

function overlapInLine(a: Rectangle, b: Rectangle): boolean {
  const lean = Math.abs(Math.atan2(Math.sin(a.angle - b.angle), Math.cos(a.angle - b.angle)));
  const [low, high] = [Math.min(a.height, b.height), Math.max(a.height, b.height)];
  // A short box's angle says little; its offset across the line decides.
  if (lean > ANGLE_MAX || high > HEIGHT_RATIO_MAX * low) return false;
  const wide = a.width >= b.width ? a : b;
  const { along, across } = offset(wide, a === wide ? b.centre : a.centre);
  return Math.abs(across) <= OFFSET_MAX * low && Math.abs(along) < (a.width + b.width) / 2;
}

/** The rectangle around both, at the angle of the wider one. */
function around(a: Rectangle, b: Rectangle): Rectangle {
  const wide = a.width >= b.width ? a : b;
  const offsets = [...cornersOf(a), ...cornersOf(b)].map((corner) => offset(wide, corner));
  const [left, right] = bounds(offsets.map(({ along }) => along));
  const [top, bottom] = bounds(offsets.map(({ across }) => across));
  const [u, v] = [(left + right) / 2, (top + bottom) / 2];
  const [cos, sin] = [Math.cos(wide.angle), Math.sin(wide.angle)];
  const centre = { x: wide.centre.x + u * cos - v * sin, y: wide.centre.y + u * sin + v * cos };
  return { centre, width: right - left, height: bottom - top, angle: wide.angle };
}

const bounds = (values: readonly number[]): [number, number] => [Math.min(...values), Math.max(...values)];

function offset({ centre, angle }: Rectangle, { x, y }: Point): { readonly along: number; readonly across: number } {
  const [cos, sin] = [Math.cos(angle), Math.sin(angle)];
  const [dx, dy] = [x - centre.x, y - centre.y];
  return { along: dx * cos + dy * sin, across: dy * cos - dx * sin };
}
