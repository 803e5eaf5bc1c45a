/** Text of `tutti goodput`. */
import {
  type Goodput,
  type GoodputBound,
  type MinGpus,
  type Scenario,
  type Trial,
  subClusterChoice,
} from "@tutti/simulator";
import { renderTable } from "@tutti/admin";
import type { Found, Headroom } from "./goodput-search.ts";
import { subClusterText } from "./result-text.ts";

export function renderGoodput(scenario: Scenario, { found, perSeed }: Found<Goodput>): string {
  const { goodputRps, worstModelBadRate, bound } = found;
  const rows = boundRows(bound, goodputRps);
  const lines = [
    heading(scenario, plural(scenario.gpus, "accelerator"), found.trials),
    "",
    renderTable(
      ["", "r/s", "goodput is"],
      [["goodput", grouped(goodputRps), `worst model ${percent(worstModelBadRate)} bad`], ...rows],
    ),
  ];
  if (perSeed.length > 1) {
    const seeds = perSeed.map((one) => [
      String(one.trials[0]?.seed ?? "-"),
      grouped(one.goodputRps),
      percent(one.worstModelBadRate),
      String(one.trials.length),
    ]);
    lines.push("", renderTable(["seed", "goodput", "worst model bad", "trials"], seeds));
  }
  for (const one of perSeed) {
    const above = one.trials.filter(({ good, rateRps }) => good && rateRps > one.goodputRps);
    const bad = one.trials.filter(({ good, rateRps }) => !good && rateRps < one.goodputRps);
    if (above.length + bad.length > 0)
      lines.push("", `seed ${one.trials[0]!.seed}: the good rate isn't monotone: ${trialsText(one.trials)}`);
  }
  const divided = subClusterText(subClusterChoice(scenario));
  if (divided !== undefined) lines.push("", `Divided: ${divided}.`);
  if (scenario.arrivals.process === "trace" && 2 * goodputRps < bound.clairvoyantRps)
    lines.push(
      "",
      "The arrivals are a recording, which another rate only stretches: requests that came at one moment still do. Its bursts",
      "are what limits the goodput; `tutti simulate` shows the recording at its own rate.",
    );
  if (goodputRps === 0)
    lines.push("", "No rate was good: some model can't meet its SLO, or its requests are too few to judge by 1 %.");
  return lines.join("\n");
}

/** @param headroom - of that number of accelerators and of one more */
export function renderMinGpus(
  scenario: Scenario,
  { found, perSeed }: Found<MinGpus>,
  headroom: readonly Headroom[] = [],
): string {
  const { minGpus, worstModelBadRate, bound, trials } = found;
  const lines = [heading(scenario, `${grouped(scenario.rate)} r/s`, trials), ""];
  if (minGpus === undefined)
    lines.push(
      `No number of accelerators up to ${most(trials)} is enough: ${percent(worstModelBadRate)} bad at the most.`,
    );
  else {
    lines.push(
      `${plural(minGpus, "accelerator")} ${minGpus === 1 ? "is" : "are"} enough (worst model ${percent(worstModelBadRate)} bad)${headroomText(headroom)}.`,
      "",
    );
    lines.push(renderTable([`so many carry`, "r/s", "the rate is"], boundRows(bound, scenario.rate)));
  }
  if (perSeed.length > 1) {
    const seeds = perSeed.map((one) => [
      String(one.trials[0]?.seed ?? "-"),
      one.minGpus === undefined ? "-" : String(one.minGpus),
      percent(one.worstModelBadRate),
      String(one.trials.length),
    ]);
    lines.push("", renderTable(["seed", "accelerators", "worst model bad", "trials"], seeds));
  }
  return lines.join("\n");
}

function headroomText([least, ...more]: readonly Headroom[]): string {
  if (least === undefined) return "";
  const text = ({ share }: Headroom): string => `${Math.floor(100 * share)} % headroom`;
  const rest = more.map((one) => `; ${one.gpus} leave ${text(one)}`).join("");
  return ` and leave${least.gpus === 1 ? "s" : ""} ${text(least)}${rest}`;
}

function boundRows(bounds: GoodputBound, rate: number): string[][] {
  const { nonPreemptiveRps, clairvoyantRps, staggeredRps, uncoordinatedRps } = bounds;
  const row = (name: string, bound: number): string[] => [
    name,
    grouped(bound),
    bound > 0 ? `${((100 * rate) / bound).toFixed(1)} % of it` : "",
  ];
  return [
    ...(nonPreemptiveRps === undefined ? [] : [row("non-preemptive bound", nonPreemptiveRps)]),
    row("clairvoyant bound", clairvoyantRps),
    row("staggered bound", staggeredRps),
    row("uncoordinated bound", uncoordinatedRps),
  ];
}

function heading({ policy, models }: Scenario, what: string, trials: readonly Trial[]): string {
  const seeds = new Set(trials.map(({ seed }) => seed)).size;
  const named = models.length === 1 ? models[0]!.name : `${models.length} models`;
  return `${named}, policy ${policy}, ${what}: ${plural(trials.length, "trial")} of ${plural(seeds, "seed")}`;
}

const trialsText = (trials: readonly Trial[]): string =>
  trials
    .toSorted((a, b) => a.rateRps - b.rateRps)
    .map(({ rateRps, worstModelBadRate }) => `${grouped(rateRps)} r/s ${percent(worstModelBadRate)}`)
    .join(", ");

const plural = (count: number, what: string): string => `${count} ${what}${count === 1 ? "" : "s"}`;
const most = (trials: readonly Trial[]): number => Math.max(...trials.map(({ gpus }) => gpus));
const percent = (share: number): string => `${(share * 100).toFixed(2)} %`;
const grouped = (rate: number): string => Math.round(rate).toLocaleString("en-US");
