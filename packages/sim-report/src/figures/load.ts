/** Good requests and busy accelerators against offered load: the two halves of Figure 2. */
import type { SimulationResult } from "@tutti/simulator";
import { chart, line } from "../charts/axes.ts";
import { NEUTRAL, colourOf } from "../palette.ts";
import {
  type Bench,
  type Drawing,
  type Figure,
  type Point,
  type Scale,
  type System,
  pick,
  baselines,
} from "./figure.ts";

const GPUS = 24;
const NOTE = `10 models like ResNet50, SLO 100 ms, ${GPUS} accelerators, Poisson arrivals`;

interface Loaded {
  readonly system: System;
  readonly point: Point;
  readonly result: SimulationResult;
}

async function runs(bench: Bench, scale: Scale): Promise<readonly (readonly Loaded[])[]> {
  const rates = pick(scale, { from: 1500, to: 30_000, step: 1500 }, { from: 6000, to: 30_000, step: 12_000 });
  const loads = Array.from({ length: 1 + (rates.to - rates.from) / rates.step }, (_, i) => rates.from + i * rates.step);
  const asked = baselines().map((system) =>
    loads.map((rate) => ({ system, point: { file: "figure2", policy: system.policy, rate } })),
  );
  const results = await bench.simulate(asked.flat().map(({ point }) => point));
  return asked.map((series, i) => series.map((one, k) => ({ ...one, result: results[i * loads.length + k]! })));
}

export const goodByLoad: Figure = {
  name: "goodput-by-load",
  title: "Good requests against offered load",
  paper: "Figure 2, left: Symphony and Nexus stay at their peak when overloaded, Clockwork falls, Shepherd sways",
  draw: async (bench, scale) => {
    const series = await runs(bench, scale);
    const top = Math.max(...series.flat().map(({ point }) => point.rate!));
    const ideal = [[0, 0] as const, [top, top] as const];
    const drawn = curves(series, ({ goodRps }) => goodRps);
    const option = chart({
      ...{ title: goodByLoad.title, note: NOTE },
      x: { name: "offered (requests per second)", min: 0, max: top },
      y: { name: "good (requests per second)", min: 0 },
      series: [line({ name: "all good", points: ideal, colour: NEUTRAL, marks: false, dashed: true }), ...drawn],
    });
    return { charts: [{ name: "goodput-by-load", option }], rows: overloadRows(series) };
  },
};

/** Good rate at the highest load, as a share of the best. */
function overloadRows(series: readonly (readonly Loaded[])[]): Drawing["rows"] {
  return series.map((runsOfOne) => {
    const peak = Math.max(...runsOfOne.map(({ result }) => result.goodRps));
    const { point, result, system } = runsOfOne.at(-1)!;
    const steady = ["deferred", "default", "nexus"].includes(system.policy);
    return {
      what: `good rate at ${point.rate} r/s offered, of the best at any load`,
      policy: system.policy,
      ours: (100 * result.goodRps) / Math.max(1, peak),
      unit: "%",
      paper: steady ? "flat" : system.policy === "clockwork" ? "falls as soon as overloaded" : "",
      verb: "simulate",
      point,
    };
  });
}

export const busyByLoad: Figure = {
  name: "utilisation-by-load",
  title: "Use of the accelerators against offered load",
  paper: "Figure 2, right: at 3,000 r/s the others keep all accelerators busy, Symphony 20 % of them",
  draw: async (bench, scale) => {
    const series = await runs(bench, scale);
    const top = Math.max(...series.flat().map(({ point }) => point.rate!));
    const option = chart({
      ...{ title: busyByLoad.title, note: NOTE },
      x: { name: "offered (requests per second)", min: 0, max: top },
      y: { name: "busy accelerator time (%)", min: 0, max: 100 },
      series: curves(series, ({ gpu }) => 100 * gpu.busyFraction),
    });
    return { charts: [{ name: "utilisation-by-load", option }], rows: series.map(lowLoadRow) };
  },
};

function lowLoadRow(series: readonly Loaded[]): Drawing["rows"][number] {
  const { point, result, system } = series.find(({ point: { rate } }) => rate! >= 3000)!;
  const atPapers = point.rate === 3000;
  return {
    what: `busy accelerator time at ${point.rate} r/s offered`,
    policy: system.policy,
    ours: 100 * result.gpu.busyFraction,
    unit: "%",
    paper: !atPapers
      ? ""
      : system.policy === "deferred"
        ? "20"
        : ["default", "eager"].includes(system.policy)
          ? ""
          : "about 100",
    verb: "simulate",
    point,
  };
}

const curves = (series: readonly (readonly Loaded[])[], value: (result: SimulationResult) => number): object[] =>
  series.map((runsOfOne, i) =>
    line({
      name: runsOfOne[0]!.system.label,
      colour: colourOf(i, series.length),
      place: i,
      points: runsOfOne.map(({ point, result }) => [point.rate!, value(result)] as const),
    }),
  );
