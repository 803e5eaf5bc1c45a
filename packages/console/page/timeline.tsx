/** The accelerator timeline on a canvas: live, or of a replay. */
import { useEffect, useRef, useState } from "preact/hooks";
import { textOn } from "./colours.ts";
import { milliseconds } from "./format.ts";
import type { Bar } from "./live-store.ts";
import { type BarShape, type Frame, LINE, barShapes, shapeAt, summaryOf, timeTicks } from "./timeline-shapes.ts";
import { inkOf, useSize, useTheme } from "./theme.ts";

export interface TimelineModel {
  /** The model's number in the bars. */
  readonly model: number;
  readonly name: string;
  readonly colour: string;
}

export interface TimelineProps {
  readonly bars: () => readonly Bar[];
  readonly gpus: readonly number[];
  readonly models: readonly TimelineModel[];
  /** The span to show, asked at every drawing. */
  readonly span: () => { readonly from: number; readonly to: number };
  /** Whether the span moves by itself. */
  readonly isMoving: boolean;
  readonly tickText: (time: number, step: number) => string;
  /** Redraws when it changes. */
  readonly version?: unknown;
}

/** Left of the plot are the numbers of the accelerators. */
export const LEFT = 44;
const FOOT = 20;
/** Ten frames a second look like movement, and cost little. */
const FRAME_MS = 100;

export const rowHeightFor = (gpus: number): number => (gpus <= 8 ? 34 : gpus <= 24 ? 22 : gpus <= 64 ? 14 : 9);

export function Timeline(props: TimelineProps) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const [box, width] = useSize<HTMLDivElement>();
  const theme = useTheme();
  const [told, setTold] = useState("");
  const [hint, setHint] = useState<{ readonly x: number; readonly y: number; readonly shape: BarShape }>();
  const shapes = useRef<BarShape[]>([]);
  const latest = useRef(props);
  latest.current = props;
  const rowHeight = rowHeightFor(props.gpus.length);
  const height = Math.max(1, props.gpus.length) * rowHeight + FOOT;

  useEffect(() => {
    const element = canvas.current;
    if (element === null || width < 60) return;
    const draw = (): void => {
      const { from, to } = latest.current.span();
      const frame = { from, to, width: width - LEFT, rowHeight, gpus: latest.current.gpus };
      shapes.current = barShapes(latest.current.bars(), frame);
      paint(element, shapes.current, frame, latest.current);
    };
    draw();
    const isShown = watchShown(element);
    const drawing = props.isMoving
      ? setInterval(() => isShown() && document.visibilityState === "visible" && draw(), FRAME_MS)
      : undefined;
    return () => {
      clearInterval(drawing);
      isShown.stop();
    };
  }, [width, height, rowHeight, theme, props.isMoving, props.version]);

  // In words, every few seconds: a screen reader can't follow ten redraws a second.
  useEffect(() => {
    const say = (): void =>
      setTold(summaryOf(latest.current.bars(), { ...latest.current.span(), gpus: latest.current.gpus }));
    say();
    const saying = setInterval(say, 5_000);
    return () => clearInterval(saying);
  }, [props.version]);

  const point = (event: PointerEvent): void => {
    const bounds = (event.currentTarget as HTMLElement).getBoundingClientRect();
    const [x, y] = [event.clientX - bounds.left, event.clientY - bounds.top];
    const shape = shapeAt(shapes.current, x - LEFT, y);
    setHint(shape === undefined ? undefined : { x, y, shape });
  };
  return (
    <div class="timeline" ref={box}>
      <canvas
        ref={canvas}
        role="img"
        aria-label={`Accelerator timeline: ${told}`}
        style={{ height: `${height}px` }}
        onPointerMove={point}
        onPointerDown={point}
        onPointerLeave={() => setHint(undefined)}
      />
      {hint !== undefined && <Hint {...hint} width={width} models={props.models} />}
    </div>
  );
}

function Hint({
  x,
  y,
  shape,
  width,
  models,
}: {
  x: number;
  y: number;
  shape: BarShape;
  width: number;
  models: readonly TimelineModel[];
}) {
  const { bar } = shape;
  const name = models.find(({ model }) => model === bar.model)?.name ?? `model ${bar.model}`;
  const style = { left: `${Math.min(x + 12, Math.max(0, width - 220))}px`, top: `${y + 14}px` };
  return (
    <div class="hint" style={style}>
      <strong>{name}</strong> on accelerator {bar.gpu}
      <br />
      {bar.size} {bar.size === 1 ? "request" : "requests"}
      {bar.failed > 0 && `, ${bar.failed} failed`}, ran {milliseconds(bar.end - bar.start)}
      <br />
      the first waited {milliseconds(bar.start - bar.first)}
    </div>
  );
}

function paint(
  canvas: HTMLCanvasElement,
  shapes: readonly BarShape[],
  { from, to, width, rowHeight, gpus }: Frame,
  { models, tickText }: Pick<TimelineProps, "models" | "tickText">,
): void {
  const density = devicePixelRatio || 1;
  const height = Math.max(1, gpus.length) * rowHeight;
  const wanted = [Math.round((width + LEFT) * density), Math.round((height + FOOT) * density)] as const;
  if (canvas.width !== wanted[0] || canvas.height !== wanted[1]) [canvas.width, canvas.height] = wanted;
  const pen = canvas.getContext("2d");
  if (pen === null) return;
  const ink = inkOf(canvas);
  const colours = new Map(models.map((one) => [one.model, one.colour]));
  const colour = (model: number): string => colours.get(model) ?? ink.quiet;
  pen.setTransform(density, 0, 0, density, 0, 0);
  pen.clearRect(0, 0, width + LEFT, height + FOOT);
  pen.font = "11px system-ui, sans-serif";
  pen.textBaseline = "middle";
  grid(pen, { from, to, width, height, ink, tickText });
  pen.fillStyle = ink.quiet;
  pen.textAlign = "right";
  const every = rowHeight >= 14 ? 1 : 2;
  for (const [row, gpu] of gpus.entries())
    if (row % every === 0) pen.fillText(String(gpu), LEFT - 8, row * rowHeight + rowHeight / 2);
  pen.save();
  pen.beginPath();
  pen.rect(LEFT, 0, width, height);
  pen.clip();
  pen.translate(LEFT, 0);
  pen.textAlign = "center";
  pen.lineWidth = LINE;
  for (const { bar, x, lineX, lineY } of shapes) {
    if (lineX >= x) continue;
    pen.strokeStyle = colour(bar.model);
    pen.beginPath();
    pen.moveTo(lineX, lineY);
    pen.lineTo(x, lineY);
    // Waits of one model that overlap are told apart by their beginnings.
    pen.moveTo(lineX + 0.5, lineY - LINE);
    pen.lineTo(lineX + 0.5, lineY + LINE);
    pen.stroke();
  }
  for (const { bar, x, y, width: wide, height: high, label } of shapes) {
    pen.fillStyle = colour(bar.model);
    pen.fillRect(x, y, wide, high);
    if (bar.failed > 0) {
      pen.fillStyle = ink.bad;
      pen.fillRect(x, y, wide, 3);
    }
    if (label === "") continue;
    pen.fillStyle = colour(bar.model); // Reads back as #rrggbb.
    pen.fillStyle = textOn(String(pen.fillStyle));
    pen.fillText(label, x + wide / 2, y + high / 2 + 0.5);
  }
  pen.restore();
}

function grid(
  pen: CanvasRenderingContext2D,
  on: {
    from: number;
    to: number;
    width: number;
    height: number;
    ink: ReturnType<typeof inkOf>;
    tickText: TimelineProps["tickText"];
  },
): void {
  const { from, to, width, height, ink, tickText } = on;
  const { step, at } = timeTicks(from, to, width);
  pen.strokeStyle = ink.line;
  pen.fillStyle = ink.quiet;
  pen.lineWidth = 1;
  pen.textAlign = "center";
  for (const time of at) {
    const x = LEFT + Math.round(((time - from) / (to - from)) * width) + 0.5;
    pen.beginPath();
    pen.moveTo(x, 0);
    pen.lineTo(x, height);
    pen.stroke();
    const text = tickText(time, step);
    const half = pen.measureText(text).width / 2;
    if (x - half > LEFT - 10 && x + half < LEFT + width) pen.fillText(text, x, height + FOOT / 2 + 2);
  }
}

/** Skips drawing while the element is off the screen. */
function watchShown(element: Element): (() => boolean) & { stop(): void } {
  let shown = true;
  const watcher = new IntersectionObserver((entries) => (shown = entries.at(-1)?.isIntersecting ?? true));
  watcher.observe(element);
  return Object.assign(() => shown, { stop: () => watcher.disconnect() });
}
