/** Finish rates over b_τ, over the length of requests, with size hints, and with static models beside dynamic ones. */
import type { SimulationResult } from "@tutti/simulator";
import { chart, line } from "../../charts/axes.ts";
import { colourOf } from "../../palette.ts";
import { type Chart, type Drawing, type Figure, type Point, type Row, pick, systems } from "../figure.ts";
import {
  type Case,
  FINISHED,
  QUICK_DURATION_S,
  type Rate,
  SEED,
  finishPercent,
  finishRates,
  picture,
  rateRow,
  slosOf,
} from "./finish-rates.ts";

/** The load of the file's costs, and the one at which three modes reach the rates that the paper prints. */
const CHANCES_LOADS = [1.3, 0.9];
const THREE_MODES = { modes: "3", costs: "separating", hints: "none" };

export const chances: Figure = {
  name: "dynamic-b",
  title: "Orloj's finish rate by b_τ",
  paper: "Figure 11: stable from 1e-6 to 1e-1 per ms, under every SLO",
  draw: async (bench, scale) => {
    const values = pick(scale, ["1e-6", "1e-5", "1e-4", "1e-3", "1e-2", "1e-1"], ["1e-6", "1e-2"]);
    const own = values.map((value) => ({ policy: `orloj:${value}`, label: `b_τ ${value}` }));
    const slos = slosOf(scale);
    const cases: readonly Case[] = [{ name: "b", set: THREE_MODES }];
    const search = { file: "dynamic-modes", cases, systems: own, slos, scale, durationS: 605 };
    const drawings = await Promise.all(
      CHANCES_LOADS.map(async (load): Promise<Drawing> => {
        const rates = await finishRates(bench, { ...search, load });
        const what = (rate: Rate): string =>
          `three modes, load ${load}, b_τ ${rate.system.policy.split(":")[1]} per ms`;
        return { charts: [byChances(rates, load, slos)], rows: rates.map((rate) => rateRow(rate, what(rate))) };
      }),
    );
    return { charts: drawings.flatMap(({ charts }) => charts), rows: drawings.flatMap(({ rows }) => rows) };
  },
};

function byChances(rates: readonly Rate[], load: number, slos: readonly string[]): Chart {
  const series = slos.map((slo, i) => {
    const points = rates
      .filter(({ sloP99 }) => sloP99 === slo)
      .map(({ system, percent }) => [Number(system.policy.split(":")[1]), percent] as const);
    return line({ name: `SLO ${slo} × P99`, colour: colourOf(i, slos.length), place: i, points });
  });
  const x = { name: "b_τ (per ms)", scale: "log" } as const;
  const note = `three modes on 50 to 500 ms, c0 25 ms, c1 0.2, load ${load}`;
  const option = chart({ title: chances.title, note, x, y: FINISHED, series, legend: true });
  return { name: `dynamic-b-load-${load}`, option };
}

export const overhead: Figure = {
  name: "dynamic-overhead",
  title: "Finish rate by how long requests take",
  paper: "Figure 12: stable until the 99th percentile comes near 20 ms",
  draw: async (bench, scale) => {
    const lengths = pick(scale, ["500", "200", "100", "50", "20", "10", "5", "2", "1"], ["50", "2"]);
    const cases = lengths.map((maxMs): Case => ({ name: maxMs, set: { maxMs } }));
    const own = systems("default", "orloj");
    const search = { file: "dynamic-overhead", cases, systems: own, slos: slosOf(scale), scale, durationS: 105 };
    const rates = await finishRates(bench, search);
    const note = "three modes on a tenth of the longest and up, a network of 0.1 ms a message; SLO 3 × P99";
    const atThree = rates.filter(({ sloP99 }) => sloP99 === "3");
    const about = {
      name: "dynamic-overhead",
      title: overhead.title,
      note,
      x: { name: "longest requests (ms)", scale: "log" } as const,
    };
    return {
      charts: [picture(atThree, ({ of }) => Number(of.name), about)],
      rows: rates.map((rate) => rateRow(rate, `longest requests of ${rate.of.name} ms`)),
    };
  },
};

export const hints: Figure = {
  name: "dynamic-hints",
  title: "Finish rate with exact size hints",
  paper: "none: there requests say nothing of their size. A greedy scheduler that knows all lengths is the reference",
  draw: async (bench, scale) => {
    const counts = pick(scale, ["1", "2", "3", "4", "5", "6", "7", "8"], ["3"]);
    const casesWith = (kind: string) =>
      counts.map((modes): Case => ({ name: modes, set: { modes, costs: "separating", hints: kind } }));
    const common = { file: "dynamic-modes", slos: slosOf(scale), scale, durationS: 605 };
    const known = await finishRates(bench, {
      ...common,
      cases: casesWith("exact"),
      systems: systems("default").map((system) => ({ ...system, label: "Tutti, exact hints" })),
    });
    const others = systems("default", "knows-lengths", "knows-lengths:similar", "knows-lengths:throughput");
    const unknown = await finishRates(bench, { ...common, cases: casesWith("none"), systems: others });
    const atThree = [...known, ...unknown].filter(({ sloP99 }) => sloP99 === "3");
    const note = "c0 25 ms, c1 0.2, load 1.3; SLO 3 × P99";
    const about = { name: "dynamic-hints", title: hints.title, note, x: { name: "modes" } };
    return {
      charts: [picture(atThree, ({ of }) => Number(of.name), about)],
      rows: [...known, ...unknown].map((rate) => rateRow(rate, `${rate.of.name} modes, hints ${rate.of.set["hints"]}`)),
    };
  },
};

const KINDS = ["static", "dynamic"] as const;

/** Finish rate of the models of one kind, in percent. */
function percentOf(kind: string, result: SimulationResult): number {
  const own = result.models.filter(({ name }) => name.startsWith(kind));
  const offered = own.reduce((sum, { offeredRps }) => sum + offeredRps, 0);
  const good = own.reduce((sum, { goodRps }) => sum + goodRps, 0);
  return offered > 0 ? (100 * good) / offered : finishPercent(result);
}

export const mixed: Figure = {
  name: "dynamic-mixed",
  title: "Static and dynamic models together",
  paper: "none: one model on one accelerator there",
  draw: async (bench, scale) => {
    const loads = pick(scale, ["0.7", "0.9", "1.1", "1.3"], ["1.1"]);
    const own = systems("default", "deferred", "orloj", "eager", "clockwork", "nexus");
    const durationS = pick(scale, 60, QUICK_DURATION_S);
    const points = own.flatMap(({ policy }) =>
      loads.map((load): Point => ({ file: "dynamic-mixed", set: { load }, policy, seed: SEED, durationS })),
    );
    const results = await bench.simulate(points);
    const charts = KINDS.map((kind) => {
      const series = own.map(({ label }, i) => {
        const values = loads.map((load, k) => {
          return [Number(load), percentOf(kind, results[i * loads.length + k]!)] as const;
        });
        return line({ name: label, colour: colourOf(i, own.length), place: i, points: values });
      });
      const note = `${kind} models, of four like ResNet50 (SLO 50 ms) and four of three modes on 5 to 50 ms; 8 accelerators`;
      const x = { name: "load" };
      const option = chart({ title: mixed.title, note, x, y: FINISHED, series, legend: true });
      return { name: `dynamic-mixed-${kind}`, option };
    });
    const rows = points.flatMap((point, i) =>
      KINDS.map((kind): Row => {
        const what = `${kind} models, load ${point.set!["load"]}`;
        const ours = percentOf(kind, results[i]!);
        return { what, policy: point.policy, ours, unit: "%", paper: "", verb: "simulate", point };
      }),
    );
    return { charts, rows };
  },
};
