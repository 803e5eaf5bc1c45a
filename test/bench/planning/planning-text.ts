/** The text output of `npm run bench:planning`. */
import type { GpuletHeadlines, GpuletPair } from "./headlines/gpulet.ts";
import type { NexusMix } from "./headlines/nexus.ts";
import { gpuletText, idealText, nexusText } from "./headlines-text.ts";
import type { IdealShare } from "./ideal-share.ts";
import type { Packing, Partitioning, Placing, WayName } from "./measurements.ts";
import { table } from "./text-table.ts";

export interface PlanningResult {
  readonly subClusters?: Placing;
  readonly packing?: Packing;
  readonly fractions?: Partitioning;
  readonly ideal?: IdealShare;
  readonly gpulet?: GpuletResult;
  readonly nexus?: NexusResult;
}
export interface GpuletResult extends GpuletHeadlines {
  readonly pairs: readonly GpuletPair[];
}
/** Results by the requests whose bad rate counts: all, or the worst model's. */
export interface NexusResult {
  readonly all: readonly NexusMix[];
  readonly worst: readonly NexusMix[];
}

export function renderPlanning({ subClusters, packing, fractions, ideal, gpulet, nexus }: PlanningResult): string {
  return [
    ...(subClusters === undefined ? [] : [placingText(subClusters)]),
    ...(packing === undefined ? [] : [packingText(packing)]),
    ...(fractions === undefined ? [] : [partitioningText(fractions)]),
    ...(ideal === undefined ? [] : [idealText(ideal)]),
    ...(gpulet === undefined ? [] : [gpuletText(gpulet)]),
    ...(nexus === undefined ? [] : [nexusText(nexus)]),
  ].join("\n\n");
}

const SHARES = [0.1, 0.5, 0.9];
/** Nearest-rank quantile. @param ascending - at least one value */
export const quantile = (ascending: readonly number[], share: number): number =>
  ascending[Math.min(ascending.length - 1, Math.floor(share * ascending.length))]!;

const gap = (value: number | null): string => (value === null ? "infeasible" : value.toExponential(1));
const seconds = (value: number): string => `${value.toFixed(2)} s`;

const placingText = ({ first, afterDrift, imbalance }: Placing): string =>
  [
    "Sub-clusters: objective over mean rate",
    table([
      ["models", "sub-clusters", "random", "greedy", "search", "processor"],
      ...first.map((one) => [
        ...[String(one.models), String(one.subClusters), gap(one.random), gap(one.greedy), gap(one.search)],
        seconds(one.cpuS),
      ]),
    ]),
    "",
    "After rates have drifted (lognormal 0.5), within a share of the cost of moving everything",
    table([
      ["budget", "before", "search", "models moved", "of the budget", "processor"],
      ...afterDrift.map((one) => [
        ...[`${100 * one.budgetShare} %`, gap(one.before), gap(one.search), String(one.moved)],
        ...[`${(100 * one.spent).toFixed(1)} %`, seconds(one.cpuS)],
      ]),
    ]),
    "",
    `Imbalance of rates and of memory, (max − min)/mean, over ${imbalance[0]?.rate.length ?? 0} draws of 800 models`,
    table([
      ["plan", ...["rate", "memory"].flatMap((what) => SHARES.map((share) => `${what} p${100 * share}`))],
      ...imbalance.map(({ plan, rate, memory }) => [
        plan,
        ...[rate, memory].flatMap((values) => SHARES.map((share) => quantile(values, share).toPrecision(2))),
      ]),
    ]),
  ].join("\n");

const packingText = ({ streams, nodes, work, cpuS, epoch, loadsAnew }: Packing): string =>
  [
    `Packing: ${streams} streams on ${nodes} nodes in ${seconds(cpuS)}; no plan needs fewer than ${work.toFixed(1)}`,
    `The next epoch, rates times lognormal(0.2): ${epoch.nodes} nodes, ${epoch.loads} loads and ${epoch.unloads} unloads in ${seconds(epoch.cpuS)}; packed anew: ${loadsAnew} loads`,
  ].join("\n");

const HEADINGS: Readonly<Record<WayName, string>> = {
  whole: "whole",
  halves: "halves",
  greedy: "greedy best-fit",
  elastic: "elastic",
  elasticBeside: "with interference",
  portfolio: "portfolio",
  portfolioBeside: "with interference",
};

function partitioningText({ scenarios, byExecutors }: Partitioning): string {
  const names = Object.keys(HEADINGS) as WayName[];
  return [
    `Fractions: of ${scenarios.toLocaleString("en-US")} scenarios so many fit, and below the processor time`,
    table([
      ["accelerators", ...names.map((name) => HEADINGS[name])],
      ...byExecutors.flatMap(({ executors, fits, cpuS }) => [
        [String(executors), ...names.map((name) => String(fits[name]))],
        ["", ...names.map((name) => seconds(cpuS[name]))],
      ]),
    ]),
  ].join("\n");
}
