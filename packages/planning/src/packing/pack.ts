/** Squishy bin packing: saturate, then merge what remains (Nexus, algorithm 1; docs/algorithms.md, C1 to C3). */
import { floorE } from "@tutti/profile";
import { type Obstacle, type PackedNode, type Share, dedicated, fitted, mergedOr } from "./node.ts";
import type { OnPackingStep } from "./steps.ts";
import { type Alone, type Stream, residual, saturated } from "./stream.ts";

export interface PackingOptions {
  /** Memory of a node, in the streams' unit. Default: enough. */
  readonly memory?: number;
  /** Called with each step, which says why a share goes where it goes. */
  readonly onStep?: OnPackingStep;
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

/** Share of a stream's rate below which nothing is left of it. */
const NOTHING = 1e-9;

export function pack(streams: readonly Stream[], options: PackingOptions = {}): PackingPlan {
  return place(
    streams.map((stream) => ({ stream, rate: stream.rate })),
    [],
    options,
  );
}

/**
 * Places shares of streams, with the existing nodes as open bins.
 *
 * @param nextId - of new nodes
 */
export function place(
  shares: readonly Share[],
  existing: readonly PackedNode[],
  options: PackingOptions,
  nextId = existing.reduce((most, { id }) => Math.max(most, id), -1) + 1,
): PackingPlan {
  const { memory = Infinity, onStep } = options;
  const nodes = [...existing];
  const unplaced: Unplaced[] = [];
  const residues: (Share & { readonly alone: Alone })[] = [];
  let id = nextId;
  const dedicate = (kind: "saturated" | "just-below", share: Share): void => {
    const node = dedicated(id++, share)!;
    nodes.push(node);
    onStep?.({ ...share, kind, node: node.id, batchSize: node.items[0]!.batchSize });
  };
  for (const { stream, rate } of shares) {
    const alone = saturated(stream);
    if (alone === undefined || (stream.memory ?? 0) > memory) {
      unplaced.push({ stream, rate, reason: alone === undefined ? "slo-too-short" : "too-large" });
      continue;
    }
    const full = floorE(rate / alone.rate);
    for (let i = 0; i < full; i++) dedicate("saturated", { stream, rate: alone.rate });
    const rest = rate - full * alone.rate;
    if (rest <= NOTHING * stream.rate) continue;
    const item = residual(stream, rest);
    // Just below T smaller batches can't sustain it.
    if (item === undefined) dedicate("just-below", { stream, rate: rest });
    else residues.push({ stream, rate: rest, alone: item });
  }
  residues.sort((a, b) => b.alone.occupancy - a.alone.occupancy || a.stream.id - b.stream.id);
  for (const { alone, ...share } of residues) {
    if (bestFit(nodes, share, options)) continue;
    const node = fitted(id++, [share], memory)!;
    if (onStep !== undefined) {
      const refusals = nodes.map((open) => ({ node: open.id, why: mergedOr(open, share, memory) as Obstacle }));
      onStep({ ...share, kind: "opened", alone, node: node.id, refusals });
    }
    nodes.push(node);
  }
  return { nodes, unplaced };
}

/** Adds a share to the node that it fills most; the older one of equals. @returns whether there was one */
export function bestFit(nodes: PackedNode[], share: Share, { memory = Infinity, onStep }: PackingOptions): boolean {
  let best = -1;
  let found: PackedNode | undefined;
  let choices = 0;
  for (const [i, node] of nodes.entries()) {
    const together = mergedOr(node, share, memory);
    if (typeof together === "string") continue;
    choices++;
    if (found !== undefined && together.occupancy <= found.occupancy + 1e-12) continue;
    best = i;
    found = together;
  }
  if (found === undefined) return false;
  const before = nodes[best]!;
  nodes[best] = found;
  const { stream, rate } = share;
  if (onStep !== undefined) {
    const alone = residual(stream, rate)!;
    onStep({ stream, rate, kind: "merged", alone, before, after: found, choices });
  }
  return true;
}
