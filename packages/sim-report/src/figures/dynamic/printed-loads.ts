/**
 * The load at which Orloj's rates come out. Its paper prints none: here it is the greatest at which the `orloj`
 * baseline reaches the printed finish rate of a case, and the default policy is shown at the same load.
 */
import { type Bench, type Drawing, type Figure, type Point, type Scale, pick, systems } from "../figure.ts";
import { type Case, QUICK_DURATION_S, type Rate, SEED, byCase, finishPercent, rateRow } from "./finish-rates.ts";
import { printed } from "./printed.ts";
import { SEPARATING, modes, staticModels, tasks } from "./tables.ts";

const SLO = "3";
/** 0.3 to 1.4. */
const LOADS = Array.from({ length: 23 }, (_, i) => (6 + i) / 20);
const QUICK_CASES = ["gpt-cornell"];

interface LoadCase extends Case {
  readonly file: string;
  readonly durationS: number;
  /** Printed rate in percent. */
  readonly rate: number;
}

const CASES: readonly LoadCase[] = [modes, tasks, staticModels].flatMap(({ table }) =>
  table.cases.map((name): LoadCase => {
    const { file, durationS } = table;
    const settings = table === staticModels.table ? { load: "0.9" } : SEPARATING.set;
    const hints = table === modes.table ? { hints: "none" } : {};
    const set = { ...settings, ...hints, ...table.setOf(name), sloP99: SLO };
    return { name, set, file, durationS, rate: Number.parseFloat(printed(name, "orloj", SLO)) };
  }),
);

const pointOf = ({ file, set, durationS }: LoadCase, policy: string, load: number, scale: Scale): Point => ({
  ...{ file, set, policy, load, seed: SEED, durationS: pick(scale, durationS, QUICK_DURATION_S) },
});

/** The greatest load of each case at which Orloj's rate, rounded as the paper rounds, is the printed one. */
async function loadsOf(cases: readonly LoadCase[], bench: Bench, scale: Scale): Promise<readonly number[]> {
  const places = cases.map((one) => ({ one, reached: 0, missed: LOADS.length }));
  for (;;) {
    const open = places.filter(({ reached, missed }) => missed - reached > 1);
    if (open.length === 0) return places.map(({ reached }) => LOADS[reached]!);
    const middles = open.map(({ reached, missed }) => (reached + missed) >> 1);
    const points = open.map(({ one }, i) => pointOf(one, "orloj", LOADS[middles[i]!]!, scale));
    for (const [i, result] of (await bench.simulate(points)).entries()) {
      const place = open[i]!;
      if (Math.round(finishPercent(result)) >= place.one.rate) place.reached = middles[i]!;
      else place.missed = middles[i]!;
    }
  }
}

export const printedLoads: Figure = {
  name: "dynamic-loads",
  title: "The load at which Orloj's printed rates come out",
  paper:
    "Tables 3 to 5 give no load: it is the greatest, in steps of 0.05, at which our Orloj reaches the printed rate",
  draw: async (bench, scale): Promise<Drawing> => {
    const cases = pick(
      scale,
      CASES,
      CASES.filter(({ name }) => QUICK_CASES.includes(name)),
    );
    const loads = await loadsOf(cases, bench, scale);
    const both = systems("orloj", "default");
    const points = both.flatMap(({ policy }) => cases.map((one, i) => pointOf(one, policy, loads[i]!, scale)));
    const results = await bench.simulate(points);
    const rates = both.map((system, k) =>
      cases.map((of, i): Rate => {
        const at = k * cases.length + i;
        return { system, of, sloP99: SLO, point: points[at]!, percent: finishPercent(results[at]!) };
      }),
    );
    const [orloj, ours] = rates as [Rate[], Rate[]];
    const paper = { policy: "printed", label: "Orloj, printed" };
    const print = orloj.map((rate, i): Rate => ({ ...rate, system: paper, percent: cases[i]!.rate }));
    const note = "each case at its own load, costs as in the pictures called separating; SLO 3 × P99";
    const options = { name: "dynamic-loads", title: printedLoads.title, note };
    const rows = ours.map((rate, i) =>
      rateRow(rate, `${rate.of.name}, load ${loads[i]!}, at which Orloj has ${orloj[i]!.percent.toFixed(1)} %`),
    );
    return { charts: byCase([...print, ...orloj, ...ours], options), rows };
  },
};
