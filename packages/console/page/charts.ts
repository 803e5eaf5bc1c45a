/** Builds the lines of the charts from the history. Pure. */
import type { Colours } from "./colours.ts";
import { figure } from "./format.ts";
import type { History, ModelHistory } from "../src/history.ts";

export interface Line {
  readonly label: string;
  readonly colour: string;
  readonly isReference: boolean;
  readonly values: readonly (number | null)[];
}
export interface Chart {
  readonly title: string;
  readonly unit: string;
  /** Least and greatest upper end of the axis; a value beyond it is drawn at the edge, and named above the chart. */
  readonly least: number;
  readonly most?: number;
  /** The value of a line that should not be crossed. */
  readonly mark: number | undefined;
  readonly lines: readonly Line[];
}

/** Lines in one chart: more can't be told apart. */
export const LINES_SHOWN = 8;
/**
 * Twice the target, or the SLO: one stall of a second would leave the rest of an axis without it flat on the ground.
 */
const SHARE_MOST = 200;
/** Seconds without a value that a line crosses: reports come late, or one is lost. */
const BRIDGED_S = 5;

/** @param focus - one model in its own units, else all in comparison */
export function chartsOf({ models }: Pick<History, "models">, colour: Colours, focus: string | undefined): Chart[] {
  const one = focus === undefined ? undefined : models.get(focus);
  if (focus !== undefined && one !== undefined) return focused(focus, one, colour(focus));
  const chosen = [...models].sort(([, a], [, b]) => sum(b.good) - sum(a.good)).slice(0, LINES_SHOWN);
  const lines = (read: (history: ModelHistory) => (number | null)[]): Line[] =>
    chosen.map(([name, history]) => ({ label: name, colour: colour(name), isReference: false, values: read(history) }));
  return [
    {
      title: "In time",
      unit: "%",
      least: 100,
      most: 100,
      mark: 99,
      lines: lines(({ goodShare }) => goodShare.map((share) => times(share, 100))),
    },
    { title: "Queue", unit: "requests", least: 4, mark: undefined, lines: lines(({ queue }) => queue) },
    {
      title: "Batch size, of its target",
      unit: "%",
      least: 100,
      most: SHARE_MOST,
      mark: 100,
      lines: lines(({ batch, target }) => batch.map((size, i) => ratio(size, target[i] ?? null))),
    },
    {
      title: "p99 latency, of the SLO",
      unit: "%",
      least: 100,
      most: SHARE_MOST,
      mark: 100,
      lines: lines(({ p99, slo }) => p99.map((ms) => ratio(ms, slo))),
    },
  ];
}

function focused(name: string, history: ModelHistory, colour: string): Chart[] {
  const line = (values: readonly (number | null)[]): Line => ({ label: name, colour, isReference: false, values });
  const reference = (label: string, values: readonly (number | null)[]): Line => ({
    label,
    colour: "",
    isReference: true,
    values,
  });
  return [
    { title: "Answered in time", unit: "r/s", least: 1, mark: undefined, lines: [line(history.good)] },
    { title: "Queue", unit: "requests", least: 4, mark: undefined, lines: [line(history.queue)] },
    {
      title: "Batch size",
      unit: "requests",
      least: 2,
      mark: undefined,
      lines: [line(history.batch), reference("target", history.target)],
    },
    {
      title: "p99 latency",
      unit: "ms",
      least: history.slo,
      mark: undefined,
      lines: [
        line(history.p99),
        reference(
          "SLO",
          history.p99.map(() => history.slo),
        ),
      ],
    },
  ];
}

export type Column = (number | null | undefined)[];

/** Columns as uPlot wants them: times, and values by line. A line is broken at null, and goes on across undefined. */
export function plotted({ lines, most = Infinity }: Pick<Chart, "lines" | "most">, at: readonly number[]): Column[] {
  // A pause of the page, or of the gateway, has no points: one without values breaks the lines.
  const times: number[] = [];
  const places: (number | undefined)[] = [];
  for (const [i, second] of at.entries()) {
    const last = times.at(-1);
    if (last !== undefined && second - last > BRIDGED_S) {
      times.push(last + 1);
      places.push(undefined);
    }
    times.push(second);
    places.push(i);
  }
  const columns = lines.map(({ values }) => {
    const column: Column = places.map((place) => (place === undefined ? null : (values[place] ?? null)));
    bridge(column, times);
    return column.map((value) => (typeof value === "number" ? Math.min(most, value) : value));
  });
  return [times, ...columns];
}

function bridge(column: Column, times: readonly number[]): void {
  let last: number | undefined;
  for (const [i, value] of column.entries()) {
    if (value === null) continue;
    if (last !== undefined && times[i]! - times[last]! <= BRIDGED_S + 1) column.fill(undefined, last + 1, i);
    last = i;
  }
}

/** Points that stand alone: a line has no length there. */
export function lonelyPoints(column: Column): number[] {
  const isBroken = (i: number): boolean => i < 0 || i >= column.length || column[i] === null;
  return column.flatMap((value, i) => (typeof value === "number" && isBroken(i - 1) && isBroken(i + 1) ? [i] : []));
}

/** Where a line leaves the axis, how far it goes. */
export function beyondText({ lines, most = Infinity }: Pick<Chart, "lines" | "most">): string {
  const highest = Math.max(0, ...lines.flatMap(({ values }) => values.map((value) => value ?? 0)));
  return highest > most ? `, up to ${figure(highest)}` : "";
}

/** The chart in words: each line's last value and its range. */
export function chartText({ title, unit, lines }: Chart): string {
  const said = lines.map(({ label, values }) => {
    const known = values.filter((value) => value !== null);
    if (known.length === 0) return `${label} unknown`;
    const [least, most] = [known.reduce((a, b) => Math.min(a, b)), known.reduce((a, b) => Math.max(a, b))];
    return `${label} ${figure(known.at(-1))}, between ${figure(least)} and ${figure(most)} so far`;
  });
  return `${title} in ${unit}, now: ${said.length === 0 ? "nothing yet" : said.join("; ")}`;
}

const times = (value: number | null, factor: number): number | null => (value === null ? null : value * factor);
const ratio = (value: number | null, of: number | null): number | null =>
  value === null || of === null || of === 0 ? null : (100 * value) / of;
const sum = (values: readonly (number | null)[]): number =>
  values.reduce<number>((total, value) => total + (value ?? 0), 0);
