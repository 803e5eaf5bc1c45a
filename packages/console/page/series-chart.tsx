/** A small chart of lines over time, drawn by uPlot. */
import { useEffect, useRef } from "preact/hooks";
import uPlot from "uplot";
import { type Chart, type Column, beyondText, chartText, lonelyPoints, plotted } from "./charts.ts";
import { clockTime, figure } from "./format.ts";
import { inkOf, useSize, useTheme } from "./theme.ts";

const HEIGHT = 150;
/** Charts of more seconds have whole minutes on their axis. */
const MINUTES_FROM_S = 150;

export function SeriesChart({ chart, at }: { chart: Chart; at: readonly number[] }) {
  const [box, width] = useSize<HTMLDivElement>();
  const plot = useRef<uPlot>(undefined);
  const theme = useTheme();
  const shape = chart.lines.map(({ label, colour }) => `${label} ${colour}`).join("|");
  const data = plotted(chart, at) as uPlot.AlignedData;
  const words = chartText(chart);
  const latest = useRef(data);
  latest.current = data;
  useEffect(() => {
    if (box.current === null || width < 60) return;
    const made = new uPlot(optionsOf(chart, width, box.current), latest.current, box.current);
    made.ctx.canvas.setAttribute("role", "img");
    made.ctx.canvas.setAttribute("aria-label", words);
    plot.current = made;
    return () => made.destroy();
  }, [width, theme, shape, chart.title]);
  useEffect(() => {
    plot.current?.setData(data);
    plot.current?.ctx.canvas.setAttribute("aria-label", words);
  }, [at, at.at(-1), shape]);
  return (
    <figure class="chart">
      <figcaption>
        {chart.title}{" "}
        <span class="quiet">
          {chart.unit}
          {beyondText(chart)}
        </span>
      </figcaption>
      <div ref={box} />
    </figure>
  );
}

function optionsOf(chart: Chart, width: number, within: Element): uPlot.Options {
  const ink = inkOf(within);
  const axis = {
    stroke: ink.quiet,
    grid: { stroke: ink.line, width: 1 },
    ticks: { show: false },
    font: "11px system-ui, sans-serif",
  };
  const markLine = (plot: uPlot): void => {
    if (chart.mark === undefined) return;
    const y = Math.round(plot.valToPos(chart.mark, "y", true));
    plot.ctx.save();
    plot.ctx.strokeStyle = ink.quiet;
    plot.ctx.setLineDash([4, 4]);
    plot.ctx.beginPath();
    plot.ctx.moveTo(plot.bbox.left, y);
    plot.ctx.lineTo(plot.bbox.left + plot.bbox.width, y);
    plot.ctx.stroke();
    plot.ctx.restore();
  };
  return {
    width,
    height: HEIGHT,
    padding: [8, 26, 0, 0],
    legend: { show: false },
    cursor: { show: false },
    scales: {
      x: { time: true },
      y: { range: (_, __, most) => [0, Math.min(chart.most ?? Infinity, Math.max(chart.least, most ?? 0)) * 1.05] },
    },
    axes: [
      {
        ...axis,
        space: (_, __, from, to) => (to - from > MINUTES_FROM_S ? 45 : 70),
        size: 24,
        values: (_, splits, __, ___, step) => splits.map((s) => clockTime(s * 1_000).slice(0, step < 60 ? 8 : 5)),
      },
      { ...axis, space: 28, size: 44, values: (_, splits) => splits.map((value) => figure(value)) },
    ],
    series: [
      {},
      ...chart.lines.map(({ label, colour, isReference }): uPlot.Series => ({
        label,
        stroke: isReference ? ink.quiet : colour,
        width: isReference ? 1 : 1.5,
        ...(isReference && { dash: [4, 4] }),
        points: { show: false, size: 4, filter: ({ data }, line) => lonelyPoints(data[line] as Column) },
      })),
    ],
    hooks: { draw: [markLine] },
  };
}
