/** Several charts over one horizontal axis, one above the other. */
import type { EChartsCoreOption } from "echarts/core";
import { NEUTRAL } from "../palette.ts";
import { type AxisOptions, SVG_SIZE, axis } from "./axes.ts";

export interface Panel {
  readonly y: AxisOptions;
  readonly series: readonly object[];
  /** In pixels. */
  readonly height: number;
}

export interface PanelsOptions {
  readonly title: string;
  readonly note: string;
  readonly x: AxisOptions;
  readonly panels: readonly Panel[];
}

const ABOVE = 64;
const BETWEEN = 26;
const BELOW = 56;

export function panelChart({ title, note, x, panels }: PanelsOptions): {
  readonly option: EChartsCoreOption;
  readonly size: { readonly width: number; readonly height: number };
} {
  let top = ABOVE;
  const grids = panels.map(({ height }) => {
    const grid = { left: 84, right: 26, top, height, outerBoundsMode: "none" };
    top += height + BETWEEN;
    return grid;
  });
  const last = panels.length - 1;
  const option = {
    animation: false,
    backgroundColor: "#fff",
    textStyle: { fontFamily: "sans-serif" },
    title: {
      ...{ text: title, left: "center", top: 8, textStyle: { fontSize: 15, color: "#20262c" }, itemGap: 4 },
      ...{ subtext: note, subtextStyle: { fontSize: 12, color: NEUTRAL } },
    },
    grid: grids,
    xAxis: panels.map((_, i) => ({
      ...axis(i === last ? x : { ...x, name: "" }),
      ...{ gridIndex: i, nameGap: 32, axisLabel: { show: i === last } },
    })),
    yAxis: panels.map(({ y }, i) => ({ ...axis(y), gridIndex: i, nameGap: 62 })),
    series: panels.flatMap(({ series }, i) => series.map((one) => ({ ...one, xAxisIndex: i, yAxisIndex: i }))),
  };
  return { option, size: { width: SVG_SIZE.width, height: top - BETWEEN + BELOW } };
}
