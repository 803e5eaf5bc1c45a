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
  /** Least upper end of the axis, and the value of a line that should not be crossed. */
  readonly least: number;
  readonly mark: number | undefined;
  readonly lines: readonly Line[];
}

/** Lines in one chart: more can't be told apart. */
export const LINES_SHOWN = 8;

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
      mark: 99,
      lines: lines(({ goodShare }) => goodShare.map((share) => times(share, 100))),
    },
    { title: "Queue", unit: "requests", least: 4, mark: undefined, lines: lines(({ queue }) => queue) },
    {
      title: "Batch size, of its target",
      unit: "%",
      least: 100,
      mark: 100,
      lines: lines(({ batch, target }) => batch.map((size, i) => ratio(size, target[i] ?? null))),
    },
    {
      title: "p99 latency, of the SLO",
      unit: "%",
      least: 100,
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
