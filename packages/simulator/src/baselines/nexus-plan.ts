/**
 * Squishy bin packing: which streams share an accelerator, in batches of what size. docs/algorithms.md, C1 to C3;
 * Nexus, §6.1, algorithm 1. Times in µs, rates in requests per µs.
 */
import { type LatencyTable, ceilE, floorE } from "@tutti/profile";
import { largestWithin } from "./gathering.ts";

/** A load to pack: the worst latency of its requests, a duty cycle plus a batch, is at most `limit`. */
export interface Load {
  readonly profile: LatencyTable;
  readonly limit: number;
  readonly rate: number;
}

export interface PlacedLoad {
  /** Index of the load in the input. */
  readonly load: number;
  readonly batchSize: number;
  readonly rate: number;
}

export interface PlannedNode {
  readonly dutyCycle: number;
  readonly items: readonly PlacedLoad[];
  /** Share of the duty cycle that is spent running. */
  readonly occupancy: number;
}

/** Slack of comparisons of times (docs/algorithms.md, section 0: 1e-6 ms). */
const SLACK = 1e-3;

/**
 * Packs loads (C1 and C2). A load that no accelerator can serve within its limit gets a node for itself, in batches of
 * 1.
 */
export function packSquishy(loads: readonly Load[]): PlannedNode[] {
  const dedicated: PlannedNode[] = [];
  const residues: PlannedNode[] = [];
  for (const [load, { profile, limit, rate }] of loads.entries()) {
    const largest = Math.max(1, largestWithin(profile, limit / 2));
    const latency = profile.latency(largest);
    const throughput = largest / latency;
    const count = floorE(rate / throughput);
    const full = (share: number): PlannedNode => ({
      dutyCycle: latency,
      items: [{ load, batchSize: largest, rate: share }],
      occupancy: 1,
    });
    for (let i = 0; i < count; i++) dedicated.push(full(throughput));
    const rest = rate - count * throughput;
    if (rest <= 1e-9 * rate) continue;
    const residue = residueNode(load, loads[load]!, rest);
    if (residue === undefined) dedicated.push(full(rest));
    else residues.push(residue);
  }
  residues.sort((a, b) => b.occupancy - a.occupancy || a.items[0]!.load - b.items[0]!.load);
  const shared: PlannedNode[] = [];
  for (const residue of residues) placeBestFit(residue, shared, loads);
  return [...dedicated, ...shared];
}

/**
 * A node that gathers as large batches of one load as its limit allows; undefined where it takes a whole accelerator.
 */
function residueNode(load: number, { profile, limit }: Load, rate: number): PlannedNode | undefined {
  let batchSize = 0;
  for (let b = 1; b <= profile.batchSizeMax && profile.byBatchSize[b]! + b / rate <= limit + SLACK; b++) batchSize = b;
  // The rate is so low that requests would wait too long even one at a time: a shorter cycle, in which most batches are
  // empty.
  const dutyCycle = batchSize > 0 ? batchSize / rate : limit - profile.latency(1);
  batchSize = Math.max(1, batchSize);
  const occupancy = profile.latency(batchSize) / dutyCycle;
  if (dutyCycle <= 0 || occupancy > 1 + 1e-9 || dutyCycle * rate > batchSize * (1 + 1e-9)) return undefined;
  return { dutyCycle, items: [{ load, batchSize, rate }], occupancy };
}

function placeBestFit(residue: PlannedNode, nodes: PlannedNode[], loads: readonly Load[]): void {
  let best: PlannedNode | undefined;
  let place = -1;
  for (const [i, node] of nodes.entries()) {
    const merged = mergeNodes(node, residue, loads);
    if (merged === undefined || (best !== undefined && merged.occupancy <= best.occupancy)) continue;
    best = merged;
    place = i;
  }
  if (best === undefined) nodes.push(residue);
  else nodes[place] = best;
}

/**
 * Merges two nodes (C3): the shorter duty cycle for all, with batches that keep up with the rates. Undefined if that
 * doesn't fit.
 */
export function mergeNodes(a: PlannedNode, b: PlannedNode, loads: readonly Load[]): PlannedNode | undefined {
  const dutyCycle = Math.min(a.dutyCycle, b.dutyCycle);
  const items: PlacedLoad[] = [];
  let busy = 0;
  for (const { load, rate } of [...a.items, ...b.items]) {
    const { profile, limit } = loads[load]!;
    const batchSize = Math.max(1, ceilE(dutyCycle * rate));
    const latency = profile.latency(batchSize);
    busy += latency;
    if (!(dutyCycle + latency <= limit + SLACK) || busy > dutyCycle + SLACK) return undefined;
    items.push({ load, batchSize, rate });
  }
  return { dutyCycle, items, occupancy: busy / dutyCycle };
}

/**
 * The plan of the largest total rate that fits `nodes` accelerators, in the proportions of `loads`. Accelerators that
 * are left over repeat the fullest nodes; surplus nodes (loads that can't share so few accelerators) double up.
 *
 * @param loads - rates in any unit: only their proportions count
 */
export function fillNodes(loads: readonly Load[], nodes: number): PlannedNode[] {
  const perUnit = loads.reduce((sum, { profile, limit, rate }) => {
    const largest = Math.max(1, largestWithin(profile, limit / 2));
    return sum + (rate * profile.latency(largest)) / largest;
  }, 0);
  const planAt = (scale: number) => packSquishy(loads.map((load) => ({ ...load, rate: load.rate * scale })));
  // With full batches only; no plan for a higher rate fits.
  let high = nodes / perUnit;
  let best = planAt(high);
  if (best.length > nodes) {
    let low = high / 4096;
    best = planAt(low);
    for (let i = 0; i < 24 && high > low * 1.0005; i++) {
      const middle = (low + high) / 2;
      const plan = planAt(middle);
      if (plan.length <= nodes) [low, best] = [middle, plan];
      else high = middle;
    }
  }
  return spread(best, nodes, loads);
}

function spread(plan: readonly PlannedNode[], nodes: number, loads: readonly Load[]): PlannedNode[] {
  const fullest = plan.toSorted((a, b) => b.occupancy - a.occupancy);
  const spread = fullest.slice(0, nodes);
  for (let i = spread.length; i < nodes; i++) spread.push(fullest[i % fullest.length]!);
  for (const [i, extra] of fullest.slice(nodes).entries()) {
    const host = spread[i % nodes]!;
    const items = [...host.items, ...extra.items];
    const busy = items.reduce((sum, { load, batchSize }) => sum + loads[load]!.profile.latency(batchSize), 0);
    spread[i % nodes] = { dutyCycle: Math.max(busy, host.dutyCycle), items, occupancy: 1 };
  }
  return spread;
}
