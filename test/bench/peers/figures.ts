/** The ratios by which the system is judged, each with its target. */
import type { PeersResult, Row } from "./results.ts";
import { type SystemName, type WorkloadName, isPeer } from "./workloads.ts";

export const TUTTI_NAMES = ["tutti", "tutti-binary", "tutti-nats"] as const;
export type TuttiName = (typeof TUTTI_NAMES)[number];

export interface Figure {
  readonly what: string;
  readonly wanted: string;
  /** Measured values. */
  readonly values: Readonly<Partial<Record<TuttiName, number>>>;
  readonly unit: "ratio" | "%" | "MB";
}

/** Least share of good requests of the bare server: below it the machine was too busy. */
const QUIET = 0.995;

export function figuresOf(result: PeersResult): Figure[] {
  const rows = (name: WorkloadName): readonly Row[] =>
    result.workloads.find(({ workload }) => workload === name)?.rows ?? [];
  const byBare = (name: WorkloadName, value: (row: Row) => number | undefined): Figure["values"] =>
    valuesOf(rows(name), (row) => ratio(value(row), valueIn(rows(name), "bare", value)));
  const byPeer = (name: WorkloadName): Figure["values"] => {
    const best = bestPeer(rows(name));
    return valuesOf(rows(name), ({ goodput }) => ratio(goodput, best?.goodput));
  };
  const costAt = (rate: number) => (row: Row) =>
    row.cost?.find(({ perSecond, isOverloaded }) => perSecond === rate && !isOverloaded)?.cpuUs;
  const rates = new Set(rows("cost").flatMap(({ cost = [] }) => cost.map(({ perSecond }) => perSecond)));
  const goodputs = (["mlp", "ctr", "mixed", "table2", "picture"] as const).flatMap((name): Figure[] => [
    { what: `${name}: goodput ÷ best peer's`, wanted: WANTED_BY_PEER[name] ?? "", values: byPeer(name), unit: "ratio" },
    {
      ...{ what: `${name}: goodput ÷ bare server's`, wanted: name === "picture" ? "≥ 0.7" : "" },
      ...{ values: byBare(name, ({ goodput }) => goodput), unit: "ratio" },
    },
  ]);
  const all: Figure[] = [
    ...goodputs,
    ...[...rates].map((rate): Figure => {
      const what = `processor time a request ÷ bare server's, at ${rate} r/s`;
      return { what, wanted: "≤ 1.5", values: byBare("cost", costAt(rate)), unit: "ratio" };
    }),
    {
      what: "lone: p50 ÷ bare server's",
      wanted: "≤ 1.3",
      values: byBare("lone", (row) => row.lone?.p50Ms),
      unit: "ratio",
    },
    {
      what: "lone: p99 ÷ bare server's",
      wanted: "≤ 1.5",
      values: byBare("lone", (row) => row.lone?.p99Ms),
      unit: "ratio",
    },
    {
      ...{ what: "least in time at 10 to 70 % of its goodput, bare server ≥ 99.5 %", wanted: "≥ 99.5", unit: "%" },
      values: valuesOf(rows("share"), leastInTime),
    },
    {
      what: "idle: of a core",
      wanted: "≤ 3",
      values: valuesOf(rows("idle"), ({ idle }) => idle?.corePercent),
      unit: "%",
    },
    { what: "idle: memory", wanted: "≤ 600", values: valuesOf(rows("idle"), ({ idle }) => idle?.memoryMb), unit: "MB" },
  ];
  return all.filter(({ values }) => Object.keys(values).length > 0);
}

const WANTED_BY_PEER: Readonly<Partial<Record<WorkloadName, string>>> = {
  mlp: "≥ 1.0",
  mixed: "≥ 1.5",
  table2: "≥ 2.0",
};

/**
 * The peer with the highest goodput by a search. Estimates don't count: they are of peers that were far behind, perhaps
 * in a better minute.
 */
export function bestPeer(rows: readonly Row[]): Row | undefined {
  return rows
    .filter(({ system, goodput = 0, isEstimate }) => isPeer(system) && goodput > 0 && isEstimate !== true)
    .sort((a, b) => b.goodput! - a.goodput!)[0];
}

function leastInTime({ share = [] }: Row): number | undefined {
  const counted = share.filter(({ bareGood = 1 }) => bareGood >= QUIET);
  return counted.length === 0 ? undefined : 100 * Math.min(...counted.map(({ good }) => good));
}

function valuesOf(rows: readonly Row[], value: (row: Row) => number | undefined): Figure["values"] {
  const found = TUTTI_NAMES.map((name) => [name, valueIn(rows, name, value)] as const);
  return Object.fromEntries(found.filter(([, one]) => one !== undefined));
}

function valueIn(rows: readonly Row[], name: SystemName, value: (row: Row) => number | undefined): number | undefined {
  const row = rows.find(({ system }) => system === name);
  return row === undefined ? undefined : value(row);
}

function ratio(value: number | undefined, of: number | undefined): number | undefined {
  return value === undefined || of === undefined || of === 0 ? undefined : value / of;
}
