import { PARTS, type Part } from "./nodes-under-test.ts";

/** One rate at one cluster. */
export interface Measured {
  readonly nodes: number;
  readonly perSecond: number;
  readonly offered: number;
  /** Correct and within the SLO. */
  readonly good: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
  /** Processor time of the processes of each part, µs. */
  readonly cpuUs: Readonly<Record<Part, number>>;
  readonly batches: number;
  readonly items: number;
  readonly natsMessages: number;
  readonly natsBytes: number;
  readonly linkMessages: number;
  readonly linkBytes: number;
  /** The load generator limited the figures. */
  readonly wasBottleneck: boolean;
}
/** Processor time a request, µs. */
export const costOf = ({ cpuUs, offered }: Measured): number =>
  PARTS.reduce((total, part) => total + cpuUs[part], 0) / offered;

/** Costs of an idle cluster. */
export interface Idle {
  readonly nodes: number;
  readonly corePercent: number;
  readonly natsMessagesPerSecond: number;
}

/** Figures over all rounds together; costs are per request. */
export interface ScaleRow {
  readonly nodes: number;
  readonly perSecond: number;
  readonly cpuUs: number;
  readonly parts: Readonly<Record<Part, number>>;
  /** Cost relative to that of the fewest nodes at the same rate. */
  readonly ratio: number;
  /** Cost relative to that of the fewest nodes at the same rate a node; undefined where that was not measured. */
  readonly ratioANode?: number;
  readonly goodShare: number;
  readonly meanBatch: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
  readonly natsMessages: number;
  readonly natsBytes: number;
  readonly linkMessages: number;
  readonly linkBytes: number;
  readonly wasBottleneck: boolean;
}
export interface ScaleResult {
  readonly sloMs: number;
  readonly rows: readonly ScaleRow[];
  readonly idle: readonly Idle[];
  readonly bounds: readonly Bound[];
  readonly crossing?: MeanCrossing;
}
/** One model through each of two nodes alone, of which one has its batcher: µs a request. */
export interface Crossing {
  readonly perSecond: number;
  readonly ways: readonly { readonly cpuUs: number; readonly linkMessages: number }[];
}
export interface MeanCrossing {
  readonly perSecond: number;
  /** Cost of a request through the node that has the batcher, and through another. */
  readonly localUs: number;
  readonly remoteUs: number;
  readonly localMessages: number;
  readonly remoteMessages: number;
}
/** The most requests a second that a resource carries. */
export interface Bound {
  readonly what: string;
  readonly requestsPerSecond: number;
  readonly why: string;
}

/** Least share of good requests with the fewest nodes at which a rate counts as carried. */
export const CARRIED_SHARE = 0.99;

export function rowsOf(measured: readonly Measured[]): ScaleRow[] {
  const groups = Map.groupBy(measured, ({ nodes, perSecond }) => `${nodes} ${perSecond}`);
  const rows = [...groups.values()].map((group) => rowOf(group));
  const fewest = Math.min(...rows.map(({ nodes }) => nodes));
  return rows
    .map((row) => {
      const at = (perSecond: number): number | undefined =>
        rows.find((one) => one.nodes === fewest && one.perSecond === perSecond)?.cpuUs;
      const asBusy = at((row.perSecond * fewest) / row.nodes);
      const ratio = round(row.cpuUs / (at(row.perSecond) ?? NaN), 2);
      return { ...row, ratio, ...(asBusy !== undefined && { ratioANode: round(row.cpuUs / asBusy, 2) }) };
    })
    .sort((a, b) => a.perSecond - b.perSecond || a.nodes - b.nodes);
}

function rowOf(group: readonly Measured[]): Omit<ScaleRow, "ratio" | "ratioANode"> {
  const [{ nodes, perSecond }] = group as [Measured];
  const sum = (read: (one: Measured) => number): number => group.reduce((total, one) => total + read(one), 0);
  const offered = sum((one) => one.offered);
  const perRequest = (read: (one: Measured) => number, digits = 2): number => round(sum(read) / offered, digits);
  const parts = Object.fromEntries(PARTS.map((part) => [part, perRequest((one) => one.cpuUs[part], 0)]));
  return {
    ...{ nodes, perSecond },
    cpuUs: perRequest((one) => PARTS.reduce((total, part) => total + one.cpuUs[part], 0), 0),
    parts: parts as Record<Part, number>,
    goodShare: perRequest((one) => one.good, 4),
    meanBatch: round(sum((one) => one.items) / sum((one) => one.batches), 2),
    p50Ms: round(sum((one) => one.p50Ms) / group.length, 1),
    p99Ms: round(sum((one) => one.p99Ms) / group.length, 1),
    natsMessages: perRequest((one) => one.natsMessages),
    natsBytes: perRequest((one) => one.natsBytes, 0),
    linkMessages: perRequest((one) => one.linkMessages),
    linkBytes: perRequest((one) => one.linkBytes, 0),
    wasBottleneck: group.some(({ wasBottleneck }) => wasBottleneck),
  };
}

/**
 * Bounds of a core of a NATS server, the ranker's one thread, and a network interface. They follow from what a request
 * of the most nodes at the highest rate takes of each.
 */
export function boundsOf(
  rows: readonly ScaleRow[],
  { grantsPerSecond, networkGbit }: { readonly grantsPerSecond: number; readonly networkGbit: number },
): Bound[] {
  const carried = rows.filter(({ perSecond }) => isCarried(rows, perSecond));
  const row = carried.at(-1);
  if (row === undefined) return [];
  const { natsMessages, parts, meanBatch, linkBytes, natsBytes } = row;
  const bound = (what: string, requestsPerSecond: number, why: string): Bound => ({
    what,
    requestsPerSecond: Math.round(requestsPerSecond),
    why,
  });
  const bytes = linkBytes + natsBytes;
  return [
    bound(
      "a core of nats-server",
      1e6 / parts.nats,
      `${parts.nats} µs and ${natsMessages} messages a request, upkeep included`,
    ),
    bound(
      "the ranker",
      grantsPerSecond * meanBatch,
      `${grantsPerSecond} grants a second (bench:scheduler), ${meanBatch} requests a grant`,
    ),
    bound(
      `a network of ${networkGbit} Gbit/s`,
      (networkGbit * 1e9) / 8 / bytes,
      `${bytes} bytes a request if all of it crossed hosts`,
    ),
    bound("a core of nodes", 1e6 / parts.nodes, `${parts.nodes} µs a request`),
  ];
}

/** Mean costs through both ways; the way with more messages between processes is the remote one. */
export function crossingOf(crossings: readonly Crossing[]): MeanCrossing | undefined {
  const [first] = crossings;
  if (first === undefined) return undefined;
  const sorted = crossings.map(({ ways }) => [...ways].sort((a, b) => a.linkMessages - b.linkMessages));
  const mean = (at: number, what: "cpuUs" | "linkMessages", digits: number): number =>
    round(sorted.reduce((sum, ways) => sum + ways.at(at)![what], 0) / sorted.length, digits);
  return {
    perSecond: first.perSecond,
    ...{ localUs: mean(0, "cpuUs", 0), remoteUs: mean(-1, "cpuUs", 0) },
    ...{ localMessages: mean(0, "linkMessages", 1), remoteMessages: mean(-1, "linkMessages", 1) },
  };
}

function isCarried(rows: readonly ScaleRow[], perSecond: number): boolean {
  const fewest = Math.min(...rows.map(({ nodes }) => nodes));
  return rows.some((row) => row.perSecond === perSecond && row.nodes === fewest && row.goodShare >= CARRIED_SHARE);
}

/** The result as text: a line for each rate and number of nodes. */
export function tableOf({ sloMs, rows, idle, bounds, crossing }: ScaleResult): string {
  const head = [
    "r/s",
    "nodes",
    "µs a request",
    "ratio",
    "at the same rate a node",
    "nodes/executors/nats/rest",
    `good in ${sloMs} ms`,
    "batch",
    "p50/p99 ms",
    "NATS msgs",
    "NATS B",
    "link msgs",
    "link B",
  ];
  const lines = rows.map((row) => [
    `${row.perSecond}${isCarried(rows, row.perSecond) ? "" : " *"}`,
    String(row.nodes),
    `${row.cpuUs}${row.wasBottleneck ? " !" : ""}`,
    row.ratio.toFixed(2),
    row.ratioANode?.toFixed(2) ?? "-",
    PARTS.map((part) => row.parts[part]).join("/"),
    `${(100 * row.goodShare).toFixed(2)} %`,
    row.meanBatch.toFixed(2),
    `${row.p50Ms}/${row.p99Ms}`,
    row.natsMessages.toFixed(2),
    String(row.natsBytes),
    row.linkMessages.toFixed(2),
    String(row.linkBytes),
  ]);
  const notes = [
    ...(lines.some(([rate]) => rate?.endsWith("*"))
      ? [`* less than ${100 * CARRIED_SHARE} % good with the fewest nodes: not carried`]
      : []),
    ...(rows.some(({ wasBottleneck }) => wasBottleneck) ? ["! the load generator was late itself"] : []),
    ...idle.map(
      ({ nodes, corePercent, natsMessagesPerSecond }) =>
        `idle, ${nodes} ${nodes === 1 ? "node" : "nodes"}: ${corePercent} % of a core, ${natsMessagesPerSecond} NATS messages a second`,
    ),
    ...(crossing === undefined
      ? []
      : [
          `one model at ${crossing.perSecond} r/s: ${crossing.localUs} µs and ${crossing.localMessages} messages a request through the node that has its batcher, ${crossing.remoteUs} and ${crossing.remoteMessages} through another`,
        ]),
    ...bounds.map(({ what, requestsPerSecond, why }) => `${what} carries ${requestsPerSecond} r/s: ${why}`),
  ];
  return `${[...aligned([head, ...lines]), ...notes].join("\n")}\n`;
}

function aligned(rows: readonly (readonly string[])[]): string[] {
  const widths = rows[0]!.map((_, i) => Math.max(...rows.map((row) => row[i]!.length)));
  return rows.map((row) =>
    row
      .map((cell, i) => cell.padEnd(widths[i]!))
      .join("  ")
      .trimEnd(),
  );
}

export function round(value: number, digits: number): number {
  return Math.round(value * 10 ** digits) / 10 ** digits;
}
