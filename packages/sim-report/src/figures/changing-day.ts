/**
 * A day with a planner in the loop: what came and was good, accelerators, advice and bad rate over time. Symphony v2,
 * Figure 15; Nexus, Figure 12.
 */
import type { PlannerWindow } from "@tutti/simulator";
import { type LineOptions, line } from "../charts/axes.ts";
import { panelChart } from "../charts/panels.ts";
import { BAD, GOOD, NEUTRAL, colourOf } from "../palette.ts";
import { type Chart, type Figure, type PlannedRun, type Point, type Row, type Scale, pick } from "./figure.ts";

const FILE = "changing-day";
const RULES = ["work", "advice"] as const;

const pointOf = (rule: string, scale: Scale): Point => {
  return { file: FILE, set: { rule }, policy: "default", durationS: pick(scale, 192, 12) };
};

export const changingDay: Figure = {
  name: "changing-day",
  title: "A changing workload, with the planner in the loop",
  paper:
    "Figure 15, and Nexus' Figure 12: accelerators follow the load, bad rates stay low while the cluster can carry it, " +
    "and Nexus has 32 % more accelerators than its lower bound",
  draw: async (bench, scale) => {
    const points = RULES.map((rule) => pointOf(rule, scale));
    const runs = await bench.planned(points);
    const rows = runs.flatMap((run, i) => rowsOf(run, points[i]!, RULES[i]!));
    return { charts: [pictureOf(runs[0]!)], rows };
  },
};

/** Epochs that a phase begins in or just before: the step shows in them first. */
function isAfterStep({ fromS, untilS }: PlannerWindow, least: PlannedRun["least"]): boolean {
  const epochS = untilS - fromS;
  return least.some(({ from }) => from / 1e6 < untilS && from / 1e6 > fromS - epochS + 1e-9);
}

function leastAt({ fromS, untilS }: PlannerWindow, least: PlannedRun["least"]): number {
  const overlaps = least.map(({ from, until, gpus }) => {
    const time = Math.max(0, Math.min(until / 1e6, untilS) - Math.max(from / 1e6, fromS));
    return gpus * time;
  });
  return overlaps.reduce((sum, one) => sum + one, 0) / (untilS - fromS);
}

function rowsOf({ result, least }: PlannedRun, point: Point, rule: string): Row[] {
  // The first phase begins with whatever number of accelerators the scenario has.
  const windows = result.planner!.windows.filter((window) => window.fromS >= 2);
  const used = windows.reduce((sum, { gpus }) => sum + gpus, 0);
  const needed = windows.reduce((sum, window) => sum + leastAt(window, least), 0);
  const settled = windows.filter((window) => !isAfterStep(window, least));
  const over = settled.filter(({ badRate }) => badRate > 0.01).length;
  const worst = Math.max(0, ...settled.map(({ badRate }) => badRate));
  const row = (what: string, ours: number, unit: string, paper = ""): Row => ({
    ...{ what: `${what} (rule ${rule})`, policy: point.policy, ours, unit, paper, verb: "simulate", point },
  });
  return [
    row("accelerators used, of the clairvoyant bound", needed > 0 ? used / needed : 0, "×", "Nexus: 1.32×"),
    row("worst epoch's bad rate, the first after each step aside", 100 * worst, "%"),
    row(`epochs over 1 % bad of ${settled.length}, the first after each step aside`, over, "epochs"),
    row("bad rate of the whole day", 100 * result.badRate, "%"),
  ];
}

/** A line that keeps its value from one moment to the next. */
const steps = (windows: readonly PlannerWindow[], value: (window: PlannerWindow, i: number) => number) =>
  windows.flatMap((window, i): [number, number][] => [
    [window.fromS, value(window, i)],
    [window.untilS, value(window, i)],
  ]);

const plain = (options: Omit<LineOptions, "marks">): object => line({ ...options, marks: false });

function pictureOf({ result, goodByModel, least, gpusMax }: PlannedRun): Chart {
  const { windows } = result.planner!;
  const requests = goodByModel.map(({ name, goodRps }, i) => {
    const colour = colourOf(i, goodByModel.length);
    const points = steps(windows, (_, k) => goodRps[k] ?? 0);
    return { ...area(name, points, colour), stack: "requests" };
  });
  const unsatisfied = steps(windows, ({ offeredRps, goodRps }) => offeredRps - goodRps);
  const { option, size } = panelChart({
    title: changingDay.title,
    note: "requests by model; accelerators used (green), busy (grey), the clairvoyant bound (black); an epoch over 1 % bad is red",
    x: { name: "time (s)", min: 0, max: windows.at(-1)?.untilS ?? 1 },
    panels: [
      {
        height: 180,
        y: { name: "requests per second", min: 0 },
        series: [...requests, { ...area("unsatisfied", unsatisfied, "#b8bec4"), stack: "requests" }],
      },
      {
        height: 150,
        y: { name: "accelerators", min: 0, max: gpusMax },
        series: [
          plain({ name: "busy", points: steps(windows, ({ busy }) => busy), colour: "#a8b0b8", place: 2 }),
          plain({ name: "used", points: steps(windows, ({ gpus }) => gpus), colour: GOOD, place: 1 }),
          plain({ name: "clairvoyant", points: steps(windows, (one) => leastAt(one, least)), colour: "#20262c" }),
        ],
      },
      {
        height: 90,
        y: { name: "advice" },
        series: [bars(windows, ({ advice }) => ({ value: advice, colour: advice > 0 ? BAD : GOOD }))],
      },
      {
        height: 90,
        y: { name: "bad (%)", min: 0 },
        series: [bars(windows, ({ badRate }) => ({ value: 100 * badRate, colour: badRate > 0.01 ? BAD : NEUTRAL }))],
      },
    ],
  });
  return { name: "changing-day", option, size };
}

const area = (name: string, points: readonly (readonly [number, number])[], colour: string): object => ({
  ...{ type: "line", name, data: points, color: colour, showSymbol: false, lineStyle: { width: 0 } },
  areaStyle: { color: colour, opacity: 1 },
});

function bars(
  windows: readonly PlannerWindow[],
  look: (window: PlannerWindow) => { readonly value: number; readonly colour: string },
): object {
  const data = windows.map((window) => {
    const { value, colour } = look(window);
    return { value: [(window.fromS + window.untilS) / 2, value], itemStyle: { color: colour } };
  });
  return { type: "bar", data, barWidth: 3 };
}
