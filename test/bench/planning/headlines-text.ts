/** The papers' headlines beside ours, as rows: for the terminal, and for the page. */
import type { GpuletWorkload } from "./headlines/gpulet.ts";
import type { NexusMix } from "./headlines/nexus.ts";
import type { IdealShare } from "./ideal-share.ts";
import type { GpuletResult, NexusResult } from "./planning-text.ts";
import { table } from "./text-table.ts";

type Rows = readonly (readonly string[])[];

const rate = (value: number): string => Math.round(value).toLocaleString("en-US");
const percent = (value: number, digits = 1): string => `${(100 * value).toFixed(digits)} %`;
const more = (ratio: number): string => `${ratio >= 1 ? "+" : "−"}${Math.abs(100 * (ratio - 1)).toFixed(1)} %`;

export function gpuletRows({ workloads }: GpuletResult): Rows {
  const row = ({ workload, whole, greedy, blind, fractions, ideal, badRate, blindBadRate }: GpuletWorkload) => [
    workload,
    ...[whole, greedy, blind, fractions].map(({ carried }) => rate(carried)),
    ...[more(fractions.carried / whole.carried), more(fractions.carried / greedy.carried)],
    ...[percent(badRate, 2), percent(blindBadRate, 2), percent(fractions.planned / ideal)],
  ];
  return [
    [
      ...["workload", "whole", "greedy", "interference ignored", "fractions", "over whole", "over greedy"],
      ...["bad rate", "ignored", "of the ideal"],
    ],
    ...workloads.map(row),
  ];
}

export const gpuletSummaryRows = (result: GpuletResult): Rows => [
  ["mean over the seven workloads", "here", "gpulet"],
  ["throughput over whole accelerators", more(result.overWhole), "+61.7 %"],
  ["over greedy best-fit", more(result.overGreedy), "+81.2 %"],
  ["over fractions that ignore interference (here the median)", more(result.overBlind), "+7.5 %"],
  ["of the ideal's largest rate", percent(result.ofIdeal), "92.6 %"],
  ["workloads whose bad rate is above 1 % where interference is ignored", `${crowded(result)} of 7`, "3 of 7"],
  ["error of predicted interference, p90", percent(result.error.p90, 2), "10.26 %"],
  ["p95", percent(result.error.p95, 2), "13.98 %"],
];
const crowded = ({ workloads }: GpuletResult): number =>
  workloads.filter(({ blindBadRate }) => blindBadRate > 0.01).length;

export function pairRows({ pairs }: GpuletResult): Rows {
  const mean = (values: readonly number[]): number => values.reduce((sum, value) => sum + value, 0) / values.length;
  const overWhole = pairs.map(({ greedy, whole }) => greedy / whole);
  const overGreedy = pairs.map(({ fractions, greedy }) => fractions / greedy);
  return [
    ["pair", "whole", "greedy", "fractions", "greedy over whole", "fractions over greedy"],
    ...pairs.map(({ pair, whole, greedy, fractions }, i) => [
      ...[pair, rate(whole), rate(greedy), rate(fractions), more(overWhole[i]!), more(overGreedy[i]!)],
    ]),
    ["mean", "", "", "", more(mean(overWhole)), more(mean(overGreedy))],
    ["gpulet, Figure 5", "", "", "", "+51 %", "+23 % (best fixed split)"],
  ];
}

export function nexusRows({ all, worst }: NexusResult): Rows {
  const cells = ({ squishy, oblivious, gain }: NexusMix) => [rate(squishy.carried), rate(oblivious), more(gain)];
  return [
    ["mix", "squishy", "oblivious", "gain", "squishy, every session", "oblivious", "gain"],
    ...all.map((mix, i) => [`${mix.mix} (${mix.text})`, ...cells(mix), ...cells(worst[i]!)]),
  ];
}

export const idealRows = ({ ideal, elastic, portfolio, thorough }: IdealShare): Rows => {
  const row = (name: string, count: number) => [
    name,
    rate(count),
    percent(count / ideal, 2),
    percent(1 - count / ideal, 2),
  ];
  return [
    ["", "scenarios", "of the ideal", "fewer"],
    row("exhaustive search", ideal),
    row("elastic partitioning (gpulet's algorithm 1)", elastic),
    row("portfolio", portfolio),
    row("portfolio, thoroughly", thorough),
  ];
};

export const gpuletText = (result: GpuletResult): string =>
  [
    `gpulet's headlines: requests per second on ${result.executors} accelerators with at most 1 % bad, and bad rates at the rate of the fractions`,
    table(gpuletRows(result)),
    "",
    table(gpuletSummaryRows(result)),
    "",
    "gpulet's Figure 5: pairs on two accelerators, by planning alone",
    table(pairRows(result)),
  ].join("\n");

export const nexusText = (result: NexusResult): string =>
  [
    "Nexus' Figure 15: requests per second with at most 1 % bad of all requests, and of every session's",
    table(nexusRows(result)),
  ].join("\n");

export const idealText = (share: IdealShare): string =>
  [
    `Of ${rate(share.scenarios)} scenarios on ${share.executors} accelerators with interference so many fit (${share.cpuS.toFixed(1)} s)`,
    table(idealRows(share)),
  ].join("\n");
