/** The result as text: a table for each workload, and the ratios by which the system is judged. */
import { TUTTI_NAMES, bestPeer, figuresOf } from "./figures.ts";
import { RATE_MAX } from "./load-plan.ts";
import type { CostPoint, PeersResult, Row, Turns, WorkloadResult } from "./results.ts";
import { workloadOf } from "./workloads.ts";

/** Lines of a table; the first is the head. */
type Lines = readonly (readonly string[])[];

export function tableOf(result: PeersResult): string {
  const parts = result.workloads.flatMap((one) => [
    titleOf(one),
    aligned(linesOf(one)),
    ...notesOf(one).map(newLine),
    "\n",
  ]);
  return [...parts, "Figures\n", aligned(figureLines(result)), newLine(footOf(result))].join("");
}

export function markdownOf(result: PeersResult): string {
  const parts = result.workloads.flatMap((one) => {
    const notes = notesOf(one).map((note) => `- ${note}\n`);
    const processes = processLines(one);
    const shares = processes.length < 2 ? [] : ["\nµs a request by process:\n\n", piped(processes)];
    return [`## ${titleOf(one)}\n`, piped(linesOf(one)), ...shares, "\n", ...notes, "\n"];
  });
  const head = ["# Tutti beside its peers\n\n", newLine(footOf(result)), "\n", piped(figureLines(result)), "\n"];
  return [...head, ...parts].join("").trimEnd() + "\n";
}

const newLine = (text: string): string => `${text}\n`;
const titleOf = ({ title, sloMs }: WorkloadResult): string => `${title}, SLO ${sloMs} ms\n`;

function footOf({ cores, node, seconds, tookSeconds }: PeersResult): string {
  return `${cores} cores, load generator and systems on the same machine, Node ${node}, trials of ${seconds} s, ${Math.round(tookSeconds / 60)} minutes in all; good: right and within the SLO, from when the request was due`;
}

function linesOf(result: WorkloadResult): Lines {
  const { rows } = result;
  switch (workloadOf(result.workload).measure) {
    case "goodput":
      return goodputLines(rows);
    case "lone":
      return [
        ["system", "setting", "p50 ms", "p99 ms", "requests", "generator late, p50 / p99 ms"],
        ...rows.map(({ system, setting, lone }) => [
          ...[system, setting ?? "", text(lone?.p50Ms), text(lone?.p99Ms), text(lone?.requests)],
          `${text(lone?.lagP50Ms)} / ${text(lone?.lagP99Ms)}`,
        ]),
      ];
    case "cost":
      return costLines(rows);
    case "share":
      return shareLines(rows);
    case "idle": {
      const kinds = [...new Set(rows.map(({ idle }) => idle?.memoryKind ?? "PSS"))].join(" or ");
      return [
        ["system", "% of a core", `memory, MB (${kinds} of all its processes)`],
        ...rows.map(({ system, idle }) => [system, text(idle?.corePercent), text(idle?.memoryMb)]),
      ];
    }
  }
}

function goodputLines(rows: readonly Row[]): Lines {
  const bare = rows.find(({ system }) => system === "bare")?.goodput;
  const best = bestPeer(rows);
  const byPeer = `÷ best peer (${best?.system ?? "none"})`;
  return [
    ["system", "setting", "goodput r/s", "÷ bare", byPeer, "at 70 %: p50 ms", "p99 ms", "good"],
    ...rows.map((row) => {
      const { system, setting = "", goodput, at70 } = row;
      const rates = [rateOf(row), over(goodput, bare), over(goodput, best?.goodput)];
      return [system, setting, ...rates, text(at70?.p50Ms), text(at70?.p99Ms), percent(at70?.good)];
    }),
  ];
}

/** Ratio of the lowest failed rate to the goodput above which a search was cut short. */
const GAP = 1.2;
/** Difference in requests per second below which no search decides. */
const LEAST_GAP = 20;

function rateOf({ goodput = 0, failedAt = 0, isEstimate = false }: Row): string {
  if (isEstimate) return `about ${goodput}`;
  if (goodput === RATE_MAX) return `≥ ${goodput}, where the search ends`;
  const isCut = failedAt > GAP * goodput && failedAt - goodput > LEAST_GAP;
  return isCut ? `${goodput}, cut short before ${failedAt}` : String(goodput);
}

function costLines(rows: readonly Row[]): Lines {
  const rates = ratesOf(rows);
  const bare = rows.find(({ system }) => system === "bare");
  return [
    ["system", "setting", ...rates.flatMap((rate) => [`µs at ${rate}/s`, "÷ bare", "good"])],
    ...rows.map((row) => [
      ...[row.system, row.setting ?? ""],
      ...rates.flatMap((rate) => {
        const [own, least] = [costAt(row, rate), bare === undefined ? undefined : costAt(bare, rate)];
        if (own?.isOverloaded === true) return ["overloaded", "-", percent(own.good)];
        return [text(own?.cpuUs), over(own?.cpuUs, least?.cpuUs), percent(own?.good)];
      }),
    ]),
  ];
}

function shareLines(rows: readonly Row[]): Lines {
  const shares = [...new Set(rows.flatMap(({ share = [] }) => share.map((point) => point.share)))];
  return [
    ["system", ...shares.map((share) => `at ${Math.round(100 * share)} %: in time (bare beside it), r/s`)],
    ...rows.map(({ system, share = [] }) => [
      system,
      ...shares.map((wanted) => {
        const point = share.find((one) => one.share === wanted);
        return point === undefined ? "-" : `${percent(point.good)} (${percent(point.bareGood)}), ${point.perSecond}`;
      }),
    ]),
  ];
}

/** Processor time by process, at the highest rate of each. */
function processLines({ rows }: WorkloadResult): Lines {
  const rates = ratesOf(rows);
  const lines = rows.flatMap((row) => {
    const names = [...new Set((row.cost ?? []).flatMap(({ byProcess }) => Object.keys(byProcess)))];
    const us = (name: string): string[] => rates.map((rate) => text(costAt(row, rate)?.byProcess[name]));
    return names
      .map((name) => [row.system, name, ...us(name)])
      .filter((line) => line.slice(2).some((one) => Number(one) > 0));
  });
  return [["system", "process", ...rates.map((rate) => `at ${rate}/s`)], ...lines];
}

function figureLines(result: PeersResult): Lines {
  return [
    ["figure", ...TUTTI_NAMES, "wanted"],
    ...figuresOf(result).map(({ what, values, unit, wanted }) => [
      what,
      ...TUTTI_NAMES.map((name) => {
        const value = values[name];
        if (value === undefined) return "-";
        return unit === "ratio" ? value.toFixed(2) : `${value.toFixed(unit === "MB" ? 0 : 2)} ${unit}`;
      }),
      wanted,
    ]),
  ];
}

function notesOf({ skipped, rows, tried }: WorkloadResult): string[] {
  const bySystem = Map.groupBy(tried, ({ system }) => system);
  return [
    ...Object.entries(skipped).map(([name, why]) => `${name} was skipped: ${why}`),
    ...rows.flatMap(({ system, bottlenecks = 0 }) =>
      bottlenecks === 0 ? [] : [`${system}: the load generator was the bottleneck in ${bottlenecks} trials`],
    ),
    ...rows.flatMap(({ system, turns }) => (turns === undefined ? [] : [turnsText(system, turns)])),
    ...[...bySystem].map(([system, each]) => {
      const shown = each.map(({ setting, carried }) => `${setting}: about ${carried}/s`);
      return `${system} was tried with ${shown.join("; ")}`;
    }),
  ];
}

const turnsText = (system: string, { p999Ms, maxMs, gcShare }: Turns): string =>
  `${system}: turns of the event loop that schedules, in the last minute of its trials: p99.9 ${p999Ms.toFixed(1)} ms, longest ${maxMs.toFixed(1)} ms, ${Math.round(100 * gcShare)} % garbage collection`;

const ratesOf = (rows: readonly Row[]): number[] => [
  ...new Set(rows.flatMap(({ cost = [] }) => cost.map(({ perSecond }) => perSecond))),
];
const costAt = ({ cost = [] }: Row, rate: number): CostPoint | undefined =>
  cost.find(({ perSecond }) => perSecond === rate);

const text = (value: number | undefined): string => (value === undefined ? "-" : String(value));
const percent = (value: number | undefined): string => (value === undefined ? "-" : `${(100 * value).toFixed(2)} %`);
function over(value: number | undefined, of: number | undefined): string {
  return value === undefined || of === undefined || of === 0 ? "-" : (value / of).toFixed(2);
}

function aligned(lines: Lines): string {
  const widths = lines[0]!.map((_, i) => Math.max(...lines.map((line) => line[i]!.length)));
  const shown = lines.map((line) =>
    line
      .map((cell, i) => cell.padEnd(widths[i]!))
      .join("  ")
      .trimEnd(),
  );
  return shown.map(newLine).join("");
}

function piped([head = [], ...lines]: Lines): string {
  const row = (cells: readonly string[]): string => `| ${cells.join(" | ")} |\n`;
  return [row(head), row(head.map(() => "---")), ...lines.map(row)].join("");
}
