/** Figures whose points are goodput searches, along an axis of a family of scenarios. */
import type { EChartsCoreOption } from "echarts/core";
import { type AxisOptions, chart, line } from "../charts/axes.ts";
import { colourOf } from "../palette.ts";
import { type Bench, type Chart, type Point, type Row, type System, goodputs } from "./figure.ts";

export interface Place {
  /** Place on the axis of the picture. */
  readonly x: number;
  /** Labels on the axes of the family. */
  readonly set: Readonly<Record<string, string>>;
}

export interface Found {
  readonly system: System;
  readonly point: Point;
  readonly x: number;
  readonly goodputRps: number;
}

export interface Search {
  readonly file: string;
  readonly places: readonly Place[];
  readonly systems: readonly System[];
  readonly durationS?: number;
}

/** Runs all searches. @returns results by system, in the order of the places */
export async function searchAll(
  bench: Bench,
  { file, places, systems, durationS }: Search,
): Promise<readonly (readonly Found[])[]> {
  const series = systems.map((system) => ({
    system,
    points: places.map(({ set }): Point => {
      return { file, set, policy: system.policy, ...(durationS === undefined ? {} : { durationS }) };
    }),
  }));
  const found = await goodputs(bench, series);
  return series.map(({ system, points }, i) =>
    points.map((point, k) => ({ system, point, x: places[k]!.x, goodputRps: found[i]![k]!.goodputRps })),
  );
}

export interface CurvesOptions {
  readonly title: string;
  readonly note: string;
  readonly x: AxisOptions;
  readonly y?: AxisOptions;
  /** Value of a point. Default: its goodput. */
  readonly value?: (found: Found) => number;
}

export function goodputCurves(series: readonly (readonly Found[])[], options: CurvesOptions): EChartsCoreOption {
  const { title, note, x, y = { name: "goodput (requests per second)", min: 0 } } = options;
  const value = options.value ?? (({ goodputRps }) => goodputRps);
  return chart({
    ...{ title, note, x, y, legend: true },
    series: series.map((own, i) =>
      line({
        name: own[0]?.system.label ?? "",
        colour: colourOf(i, series.length),
        place: i,
        points: own.map((found) => [found.x, value(found)] as const),
      }),
    ),
  });
}

export const goodputRow = ({ system, point, goodputRps }: Found, what: string, paper = ""): Row => ({
  ...{ what, policy: system.policy, ours: goodputRps === 0 ? null : goodputRps, unit: "r/s", paper },
  ...{ verb: "goodput", point },
});

export interface Bar {
  readonly group: string;
  readonly label: string;
  readonly value: number;
}

export interface BarsOptions {
  readonly name: string;
  readonly title: string;
  readonly note: string;
  readonly y: string;
}

/** One group of bars for each `group`, one colour for each `label`. */
export function barChart(bars: readonly Bar[], { name, title, note, y }: BarsOptions): Chart {
  const groups = [...new Set(bars.map(({ group }) => group))];
  const labels = [...new Set(bars.map(({ label }) => label))];
  const series = labels.map((label, i) => ({
    ...{ type: "bar", name: label, color: colourOf(i, labels.length), barMaxWidth: 44 },
    data: groups.map((group) => bars.find((bar) => bar.group === group && bar.label === label)?.value ?? null),
  }));
  const axes = { x: { name: "", categories: groups }, y: { name: y, min: 0 } };
  return { name, option: chart({ title, note, ...axes, series, legend: true }) };
}
