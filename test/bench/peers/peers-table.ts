export interface Latency {
  readonly p50Ms: number;
  readonly p99Ms: number;
}
export interface Row {
  readonly name: string;
  mlp?: { readonly goodput: number; readonly at70: Latency; readonly lagP99Ms: number };
  lone?: Latency;
  cost?: { readonly perSecond: number; readonly cpuUs: number; readonly good: number }[];
  idle?: { readonly corePercent: number; readonly rssMb: number };
}
export interface PeersResult {
  readonly sloMs: number;
  readonly rows: readonly Row[];
  /** Why not, by name. */
  readonly skipped: Readonly<Record<string, string>>;
}

/** The result for people: a line for each system. */
export function tableOf({ rows, skipped }: PeersResult): string {
  const rates = rows.flatMap(({ cost = [] }) => cost.map(({ perSecond }) => perSecond));
  const shown = [...new Set(rates)];
  const head = [
    "system",
    "goodput r/s",
    "p50/p99 ms at 70 %",
    "lone p50/p99 ms",
    ...shown.map((rate) => `µs a request at ${rate}/s (good)`),
    "idle, % of a core",
    "resident MB",
  ];
  const latency = (given: Latency | undefined): string => (given === undefined ? "-" : `${given.p50Ms}/${given.p99Ms}`);
  const lines = rows.map(({ name, mlp, lone, cost = [], idle }) => [
    name,
    String(mlp?.goodput ?? "-"),
    latency(mlp?.at70),
    latency(lone),
    ...shown.map((rate) => {
      const found = cost.find(({ perSecond }) => perSecond === rate);
      return found === undefined ? "-" : `${found.cpuUs} (${(100 * found.good).toFixed(1)} %)`;
    }),
    String(idle?.corePercent ?? "-"),
    String(idle?.rssMb ?? "-"),
  ]);
  const widths = head.map((title, i) => Math.max(title.length, ...lines.map((line) => line[i]!.length)));
  const text = [head, ...lines].map((line) =>
    line
      .map((cell, i) => cell.padEnd(widths[i]!))
      .join("  ")
      .trimEnd(),
  );
  const notes = Object.entries(skipped).map(([name, why]) => `${name} was skipped: ${why}`);
  return `${[...text, ...notes].join("\n")}\n`;
}
