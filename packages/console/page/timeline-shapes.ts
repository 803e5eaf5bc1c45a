/**
 * Geometry of the accelerator timeline. Pure, so that it can be tested without a canvas.
 *
 *   SHAPE-1. A bar is a batch; the thin line before it begins at the arrival of its first request, and shows how long
 *            the batch was deferred, for more requests or for want of an accelerator.
 *   SHAPE-2. Lines lie below the bars of their row, because the accelerator runs others meanwhile; where a row is high
 *            enough in three lanes by model, since waits of several models overlap. Each lane is high enough to be
 *            seen, and bars are for their number.
 */
import type { Bar } from "./live-store.ts";

export interface Frame {
  /** The span that is shown, in ms. */
  readonly from: number;
  readonly to: number;
  /** Width of the plot, in CSS pixels. */
  readonly width: number;
  readonly rowHeight: number;
  /** Accelerators from top to bottom. */
  readonly gpus: readonly number[];
}

export interface BarShape {
  readonly bar: Bar;
  readonly x: number;
  readonly y: number;
  readonly width: number;
  readonly height: number;
  /** Start of the line before it; `x` where none is visible. */
  readonly lineX: number;
  readonly lineY: number;
  /** Size of the batch, where the whole text fits. */
  readonly label: string;
}

const WIDTH_LEAST = 1.5;
const LINE_LEAST = 2;
const LANES = 3;
const LANES_FROM = 30;
/** Thickness of a line, and the height of its lane. */
export const LINE = 2.5;
const LANE = 4;
/** Width of a digit. */
const DIGIT = 7;

const labelWidth = ({ size }: Pick<Bar, "size">): number => DIGIT * String(size).length + 4;

/** Share of the bars whose number must fit into them. */
const READABLE = 0.8;

/** The longest of the spans in which most batches are wide enough for their size, or else the shortest; in seconds. */
export function readableSpan(bars: readonly Bar[], width: number, spans: readonly number[]): number {
  const fits = bars.map((bar) => ((bar.end - bar.start) * width) / (1_000 * labelWidth(bar))).sort((a, b) => b - a);
  const longest = fits[Math.ceil(READABLE * fits.length) - 1] ?? Infinity;
  return spans.findLast((span) => span <= longest) ?? spans[0]!;
}

export function barShapes(bars: readonly Bar[], { from, to, width, rowHeight, gpus }: Frame): BarShape[] {
  const rows = new Map(gpus.map((gpu, row) => [gpu, row]));
  const scale = width / (to - from);
  const xOf = (time: number): number => (time - from) * scale;
  const shapes: BarShape[] = [];
  for (const bar of bars) {
    const row = rows.get(bar.gpu);
    if (row === undefined || bar.end < from || bar.first > to) continue;
    const x = xOf(bar.start);
    const own = Math.max(WIDTH_LEAST, xOf(bar.end) - x);
    const lineX = Math.max(0, xOf(bar.first));
    const lanes = rowHeight >= LANES_FROM ? LANES : 1;
    const height = rowHeight - 3 - LANE * lanes;
    const label = String(bar.size);
    shapes.push({
      bar,
      x,
      y: row * rowHeight + 2,
      width: own,
      height,
      lineX: x - lineX >= LINE_LEAST ? lineX : x,
      lineY: row * rowHeight + rowHeight - LANE * (lanes - (bar.model % lanes)) + LINE / 2 + 0.5,
      label: own >= labelWidth(bar) && height >= 11 && x >= 0 && x + own <= width ? label : "",
    });
  }
  return shapes;
}

/** The shape under a point; the last drawn wins. */
export function shapeAt(shapes: readonly BarShape[], x: number, y: number): BarShape | undefined {
  return shapes.findLast(
    (shape) =>
      y >= shape.y - 2 &&
      y <= shape.lineY + 4 &&
      ((x >= shape.x - 2 && x <= shape.x + shape.width + 2) ||
        (y >= shape.lineY - 3 && x >= shape.lineX && x <= shape.x)),
  );
}

/** Ticks at whole, round steps of time: one in 80 pixels or more. */
export function timeTicks(
  from: number,
  to: number,
  width: number,
): { readonly step: number; readonly at: readonly number[] } {
  const wanted = ((to - from) / Math.max(2, width)) * 80;
  const step = STEPS.find((one) => one >= wanted) ?? STEPS.at(-1)!;
  const at: number[] = [];
  for (let time = Math.ceil(from / step) * step; time <= to; time += step) at.push(time);
  return { step, at };
}
const STEPS = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 30_000, 60_000, 120_000];

/** Share of the shown span in which each accelerator ran, and the mean size, in words for screen readers. */
export function summaryOf(bars: readonly Bar[], { from, to, gpus }: Pick<Frame, "from" | "to" | "gpus">): string {
  const shown = bars.filter(({ start, end, gpu }) => end > from && start < to && gpus.includes(gpu));
  if (shown.length === 0) return `no batch ran on ${gpus.length} accelerators in ${((to - from) / 1_000).toFixed(1)} s`;
  const busy = shown.reduce((sum, { start, end }) => sum + Math.min(end, to) - Math.max(start, from), 0);
  const size = shown.reduce((sum, one) => sum + one.size, 0) / shown.length;
  const wait = shown.reduce((sum, { first, start }) => sum + start - first, 0) / shown.length;
  const share = Math.round((100 * busy) / ((to - from) * Math.max(1, gpus.length)));
  return `${shown.length} batches of ${size.toFixed(1)} requests on average in ${((to - from) / 1_000).toFixed(1)} s, accelerators busy ${share} % of it, first requests waited ${wait.toFixed(1)} ms on average`;
}
