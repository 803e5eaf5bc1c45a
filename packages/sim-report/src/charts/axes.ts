/** The style that all charts share. Options are plain data: pages embed the same options that are drawn to SVG. */
import type { EChartsCoreOption } from "echarts/core";
import { NEUTRAL } from "../palette.ts";

export interface AxisOptions {
  /** Name of the axis, with its unit in brackets. */
  readonly name: string;
  readonly min?: number;
  readonly max?: number;
  readonly scale?: "linear" | "log" | "log2";
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
  const names = series.map((one) => ("name" in one ? String(one.name) : ""));
  const rows = !legend ? 0 : title === undefined ? 1 : legendRows(names);
  const above = (title === undefined ? 8 : 36) + (note === undefined ? 0 : 20);
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
    ...(legend ? { legend: legendAt(above, title === undefined ? "scroll" : "plain") } : {}),
    grid: { left: 78, right: 26, top: above + rows * LEGEND_ROW + 14, bottom: 56, containLabel: false },
    xAxis: { ...axis(x), nameGap: 32 },
    yAxis: { ...axis(y), nameGap: 56 },
    series,
  };
}

/** Position of the legend. Printed pictures can't scroll: their legend takes as many rows as it needs. */
const legendAt = (top: number, type: "scroll" | "plain"): object => ({
  ...{
    top,
    type,
    left: "center",
    width: LEGEND_WIDTH,
    itemHeight: 10,
    itemGap: LEGEND_GAP,
    textStyle: { fontSize: 12 },
  },
});

const LEGEND_WIDTH = "92%";
const LEGEND_ROW = 24;
const LEGEND_GAP = 14;
const LEGEND_MARK = 30;

function legendRows(names: readonly string[]): number {
  const room = 0.92 * SVG_SIZE.width;
  let rows = 1;
  let used = 0;
  for (const name of names) {
    const width = LEGEND_MARK + textWidth(name, 12) + LEGEND_GAP;
    if (used > 0 && used + width > room) {
      rows++;
      used = 0;
    }
    used += width;
  }
  return rows;
}

/**
 * Width of a text in pixels, estimated rather too wide than too narrow: no font is available where SVG is drawn. The
 * library measures a Chinese character for line heights.
 */
export const textWidth = (text: string, fontSize: number): number =>
  [...text].reduce((width, character) => width + fontSize * (character >= "\u2e80" ? 1 : 0.6), 0);

export const SVG_SIZE = { width: 860, height: 480 };

/** Whether names fit beside one another: then none is left out. */
const areShort = (names: readonly string[]): boolean =>
  Math.max(...names.map((name) => textWidth(name, 12))) * names.length < 0.85 * SVG_SIZE.width;

export function axis({ name, min, max, scale, categories }: AxisOptions): object {
  const shared = { name, nameLocation: "middle", nameTextStyle: { color: "#20262c" } };
  if (categories !== undefined)
    return {
      ...shared,
      type: "category",
      data: categories,
      axisLabel: { interval: areShort(categories) ? 0 : "auto" },
    };
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
  /**
   * Place among the series. The first one, 0, lies on top, and each has a mark of its own, because curves often
   * coincide.
   */
  readonly place?: number;
}

const MARKS = ["circle", "triangle", "diamond", "rect", "roundRect", "pin"];

export const line = ({ name, points, colour, marks = true, dashed = false, place = 0 }: LineOptions): object => ({
  ...{ type: "line", name, data: points, color: colour, showSymbol: marks, z: 20 - place },
  ...{ symbol: MARKS[place % MARKS.length], symbolSize: 8 },
  lineStyle: { width: 2, color: colour, type: dashed ? "dashed" : "solid" },
});
