/** Figures of finish rates: the share of requests answered by their deadlines, by policy, case and SLO. */
import type { SimulationResult } from "@tutti/simulator";
import { type AxisOptions, chart, line } from "../../charts/axes.ts";
import { colourOf } from "../../palette.ts";
import { type Bench, type Chart, type Point, type Row, type Scale, type System, pick } from "../figure.ts";
import { PRINTED_SLOS, printed } from "./printed.ts";

/** A seed on which nothing was tuned. */
export const SEED = 101;
export const QUICK_DURATION_S = 12;

/** Labels on the axes of a scenario's family, all but the SLO. */
export interface Case {
  /** Name as in the paper's tables, where they have it. */
  readonly name: string;
  readonly set: Readonly<Record<string, string>>;
}

export interface Rate {
  readonly system: System;
  readonly of: Case;
  readonly sloP99: string;
  readonly point: Point;
  /** 0 … 100. */
  readonly percent: number;
}

export interface RateSearch {
  readonly file: string;
  readonly cases: readonly Case[];
  readonly systems: readonly System[];
  readonly slos: readonly string[];
  readonly scale: Scale;
  /** Default: that of the file. */
  readonly load?: number;
  /** Duration at full scale, in seconds. */
  readonly durationS: number;
}

export const finishPercent = ({ badRate }: SimulationResult): number => 100 * (1 - badRate);

/** Every system on every case and SLO, on the same arrivals. */
export async function finishRates(bench: Bench, search: RateSearch): Promise<readonly Rate[]> {
  const { file, cases, systems, slos, scale, load, durationS } = search;
  const asked = systems.flatMap((system) =>
    cases.flatMap((of) =>
      slos.map((sloP99) => {
        const set = { ...of.set, sloP99 };
        const seconds = pick(scale, durationS, QUICK_DURATION_S);
        const common = { file, set, policy: system.policy, ...(load !== undefined && { load }) };
        return { system, of, sloP99, point: { ...common, seed: SEED, durationS: seconds } };
      }),
    ),
  );
  const results = await bench.simulate(asked.map(({ point }) => point));
  return asked.map((one, i) => ({ ...one, percent: finishPercent(results[i]!) }));
}

export const slosOf = (scale: Scale): readonly string[] => pick<readonly string[]>(scale, PRINTED_SLOS, ["3"]);

export const rateRow = ({ system, of, sloP99, point, percent }: Rate, what: string): Row => ({
  ...{ what: `${what}, SLO ${sloP99} × P99`, policy: system.policy, ours: percent, unit: "%" },
  ...{ paper: printed(of.name, system.policy, sloP99), verb: "simulate", point },
});

interface PictureOptions {
  readonly name: string;
  readonly title: string;
  readonly note: string;
}

export const FINISHED = { name: "finished in time (%)", min: 0, max: 100 };

/** Chart of one case, by SLO. */
export function bySlo(rates: readonly Rate[], { name, title, note }: PictureOptions): Chart {
  return picture(rates, ({ sloP99 }) => Number(sloP99), { name, title, note, x: { name: "SLO (× 99th percentile)" } });
}

interface CurvesOptions extends PictureOptions {
  readonly x: AxisOptions;
}

/** Chart with one line for each system, over a number of each rate. */
export function picture(
  rates: readonly Rate[],
  at: (rate: Rate) => number,
  { name, title, note, x }: CurvesOptions,
): Chart {
  const systems = [...new Set(rates.map(({ system }) => system))];
  const series = systems.map((system, i) => {
    const own = rates.filter((rate) => rate.system === system);
    const points = own.map((rate) => [at(rate), rate.percent] as const);
    return line({ name: system.label, colour: colourOf(i, systems.length), place: i, points });
  });
  return { name, option: chart({ title, note, x, y: FINISHED, series, legend: true }) };
}

/** Most groups of bars in one picture; with more, their names don't fit below the bars. */
const GROUPS_MAX = 5;

/** Charts of one SLO, with a group of bars for each case; several pictures where there are many. */
export function byCase(rates: readonly Rate[], options: PictureOptions): readonly Chart[] {
  const cases = [...new Set(rates.map(({ of }) => of.name))];
  const pictures = Math.ceil(cases.length / GROUPS_MAX);
  return Array.from({ length: pictures }, (_, i) => {
    const own = cases.slice(i * GROUPS_MAX, (i + 1) * GROUPS_MAX);
    return bars(rates, own, i === 0 ? options : { ...options, name: `${options.name}-${i + 1}` });
  });
}

function bars(rates: readonly Rate[], cases: readonly string[], { name, title, note }: PictureOptions): Chart {
  const systems = [...new Set(rates.map(({ system }) => system))];
  const series = systems.map((system, i) => ({
    ...{ type: "bar", name: system.label, color: colourOf(i, systems.length), barMaxWidth: 20 },
    data: cases.map((one) => rates.find((rate) => rate.system === system && rate.of.name === one)?.percent ?? null),
  }));
  const x = { name: "", categories: cases };
  return { name, option: chart({ title, note, x, y: FINISHED, series, legend: true }) };
}
