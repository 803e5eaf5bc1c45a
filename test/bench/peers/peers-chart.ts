/** The result as one picture: a panel of bars for each workload, the systems side by side. */
import { type Panel, colourOf, panelChart, toSvg } from "@tutti/sim-report/picture";
import type { PeersResult, Row, WorkloadResult } from "./results.ts";
import { SYSTEM_NAMES, type SystemName, workloadOf } from "./workloads.ts";

const HEIGHT = 110;

interface Bars {
  readonly name: string;
  readonly value: (row: Row) => number | undefined;
}

export function pictureOf(result: PeersResult): string {
  const present = new Set(result.workloads.flatMap(({ rows }) => rows.map(({ system }) => system)));
  const systems = SYSTEM_NAMES.filter((name) => present.has(name));
  const panels = result.workloads.flatMap((one) => barsOf(one).map((bars) => panelOf(bars, one.rows, systems)));
  const { option, size } = panelChart({
    title: "Tutti beside its peers and a bare server",
    note: `${result.cores} cores, trials of ${result.seconds} s; paler: an estimate from a rising rate`,
    x: { name: "", categories: systems },
    panels,
  });
  return toSvg(option, size);
}

function barsOf({ workload, rows }: WorkloadResult): Bars[] {
  switch (workloadOf(workload).measure) {
    case "goodput":
      return [{ name: `${workload} (r/s)`, value: ({ goodput }) => goodput }];
    case "lone":
      return [
        { name: "lone p50 (ms)", value: ({ lone }) => lone?.p50Ms },
        { name: "lone p99 (ms)", value: ({ lone }) => lone?.p99Ms },
      ];
    case "cost": {
      const rates = new Set(rows.flatMap(({ cost = [] }) => cost.map(({ perSecond }) => perSecond)));
      return [...rates].map((rate) => ({
        name: `µs at ${rate}/s`,
        value: ({ cost = [] }) =>
          cost.find(({ perSecond, isOverloaded }) => perSecond === rate && !isOverloaded)?.cpuUs,
      }));
    }
    case "share":
      return [
        {
          name: "in time (least %)",
          value: ({ share = [] }) =>
            share.length === 0 ? undefined : 100 * Math.min(...share.map(({ good }) => good)),
        },
      ];
    case "idle":
      return [
        { name: "idle (% of core)", value: ({ idle }) => idle?.corePercent },
        { name: "memory (MB)", value: ({ idle }) => idle?.memoryMb },
      ];
  }
}

function panelOf({ name, value }: Bars, rows: readonly Row[], systems: readonly SystemName[]): Panel {
  const data = systems.map((system, i) => {
    const row = rows.find((one) => one.system === system);
    const shown = row === undefined ? undefined : value(row);
    const itemStyle = { color: colourOf(i, systems.length), opacity: row?.isEstimate === true ? 0.45 : 1 };
    return shown === undefined ? null : { value: Math.round(100 * shown) / 100, itemStyle };
  });
  const label = { show: true, position: "top", formatter: "{c}", fontSize: 11 };
  return { height: HEIGHT, y: { name, min: 0 }, series: [{ type: "bar", barMaxWidth: 44, label, data }] };
}
