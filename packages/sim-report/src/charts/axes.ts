/** The look that all charts share. Options are plain data: the same ones go into pages and are drawn to SVG. */
import type { EChartsCoreOption } from "echarts/core";
import { NEUTRAL } from "../palette.ts";

export interface AxisOptions {
  /** With its unit in brackets. */
  readonly name: string;
  readonly min?: number;
  readonly max?: number;
  readonly scale?: "linear" | "log";
  /** Names instead of numbers. */
  readonly categories?: readonly string[];
}

export interface ChartOptions {
  readonly x: AxisOptions;
  readonly y: AxisOptions;
  readonly series: readonly object[];
  /** Left out where there is one series that the title names. */
  readonly legend?: boolean;
  readonly title?: string;
  readonly note?: string;
}

export function chart({ x, y, series, legend = series.length > 1, title, note }: ChartOptions): EChartsCoreOption {
  const top = (title === undefined ? 16 : 40) + (note === undefined ? 0 : 20) + (legend ? 26 : 6);
  return {
    animation: false,
    backgroundColor: "#fff",
    textStyle: { fontFamily: "sans-serif" },
    ...(title === undefined
      ? {}
      : {
          title: {
            ...{ text: title, left: "center", top: 8, textStyle: { fontSize: 15, color: "#20262c" } },
            ...(note === undefined
              ? {}
              : { subtext: note, subtextStyle: { fontSize: 12, color: NEUTRAL }, itemGap: 4 }),
          },
        }),
    ...(legend ? { legend: { top: top - 30, left: "center", type: "scroll", itemHeight: 10 } } : {}),
    grid: { left: 78, right: 26, top: top + 6, bottom: 56, containLabel: false },
    xAxis: { ...axis(x), nameGap: 32 },
    yAxis: { ...axis(y), nameGap: 56 },
    series,
  };
}

function axis({ name, min, max, scale, categories }: AxisOptions): object {
  const shared = { name, nameLocation: "middle", nameTextStyle: { color: "#20262c" } };
  if (categories !== undefined)
    return { ...shared, type: "category", data: categories, axisLabel: { interval: "auto" } };
  const range = { ...(min === undefined ? {} : { min }), ...(max === undefined ? {} : { max }) };
  return {
    ...shared,
    ...range,
    type: scale === "log" ? "log" : "value",
    splitLine: { lineStyle: { color: "#e6e9ec" } },
  };
}

export interface LineOptions {
  readonly name: string;
  readonly points: readonly (readonly [number, number])[];
  readonly colour: string;
  readonly marks?: boolean;
  readonly dashed?: boolean;
}

export const line = ({ name, points, colour, marks = true, dashed = false }: LineOptions): object => ({
  ...{ type: "line", name, data: points, color: colour, showSymbol: marks, symbol: "circle", symbolSize: 6 },
  lineStyle: { width: 2, color: colour, type: dashed ? "dashed" : "solid" },
});
