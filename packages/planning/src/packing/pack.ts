/** Squishy bin packing: saturate, then merge what remains (Nexus, algorithm 1; docs/algorithms.md, C1 to C3). */
import { floorE } from "@tutti/profile";
import { type PackedNode, type Share, dedicated, fitted, merged } from "./node.ts";
import { type Stream, residual, saturated } from "./stream.ts";

export interface PackingOptions {
  /** Memory of a node, in the streams' unit. Default: enough. */
  readonly memory?: number;
}

export interface Unplaced {
  readonly stream: Stream;
  readonly rate: number;
  readonly reason: "slo-too-short" | "too-large";
}

export interface PackingPlan {
  readonly nodes: readonly PackedNode[];
  readonly unplaced: readonly Unplaced[];
}

/** Below so small a part of its rate nothing is left of a stream. */
const NOTHING = 1e-9;

export function pack(streams: readonly Stream[], options: PackingOptions = {}): PackingPlan {
  return place(
    streams.map((stream) => ({ stream, rate: stream.rate })),
    [],
    options,
  );
}

/**
 * Places shares of streams, with nodes that are there already as open bins.
 *
 * @param nextId - of new nodes
 */
export function place(
  shares: readonly Share[],
  existing: readonly PackedNode[],
  { memory = Infinity }: PackingOptions,
  nextId = existing.reduce((most, { id }) => Math.max(most, id), -1) + 1,
): PackingPlan {
  const nodes = [...existing];
  const unplaced: Unplaced[] = [];
  const residues: (Share & { readonly occupancy: number })[] = [];
  let id = nextId;
  for (const share of shares) {
    const alone = saturated(share.stream);
    if (alone === undefined || (share.stream.memory ?? 0) > memory) {
      unplaced.push({ ...share, reason: alone === undefined ? "slo-too-short" : "too-large" });
      continue;
    }
    const full = floorE(share.rate / alone.rate);
    for (let i = 0; i < full; i++) nodes.push(dedicated(id++, { stream: share.stream, rate: alone.rate })!);
    const rest = share.rate - full * alone.rate;
    if (rest <= NOTHING * share.stream.rate) continue;
    const item = residual(share.stream, rest);
    // Just below T smaller batches can't sustain it.
    if (item === undefined) nodes.push(dedicated(id++, { stream: share.stream, rate: rest })!);
    else residues.push({ stream: share.stream, rate: rest, occupancy: item.occupancy });
  }
  residues.sort((a, b) => b.occupancy - a.occupancy || a.stream.id - b.stream.id);
  for (const share of residues) {
    if (bestFit(nodes, share, memory)) continue;
    nodes.push(fitted(id++, [share], memory)!);
  }
  return { nodes, unplaced };
}

/** Into the node that it fills most; the older one of equals. @returns whether there was one */
export function bestFit(nodes: PackedNode[], share: Share, memory: number, not?: PackedNode): boolean {
  let best = -1;
  let found: PackedNode | undefined;
  for (const [i, node] of nodes.entries()) {
    if (node === not) continue;
    const together = merged(node, share, memory);
    if (together === undefined || (found !== undefined && together.occupancy <= found.occupancy + 1e-12)) continue;
    best = i;
    found = together;
  }
  if (found === undefined) return false;
  nodes[best] = found;
  return true;
}
