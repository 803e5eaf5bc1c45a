/** A node: streams that take turns in one duty cycle. docs/algorithms.md, C2 and C3. */
import { type Stream, atMost, batchIn, residual, saturated } from "./stream.ts";

export interface Item {
  readonly stream: Stream;
  /** Part of the stream's rate that this node serves. */
  readonly rate: number;
  readonly batchSize: number;
}

export interface PackedNode {
  readonly id: number;
  /** d in ms: an item takes at most d + l(b). */
  readonly dutyCycle: number;
  readonly items: readonly Item[];
  /** Σ l(b)/d; 1 for a dedicated node. */
  readonly occupancy: number;
  /** Whether it is one stream that runs batch after batch. */
  readonly isDedicated: boolean;
}

export type Share = Pick<Item, "stream" | "rate">;

/** Reason why a share doesn't join a node: the first of Merge's tests that fails. */
export type Obstacle = "dedicated" | "same-stream" | "rate" | "slo" | "time" | "memory";

/** A dedicated node (C1 and the second hole of C2): one stream, batch after batch of B. */
export function dedicated(id: number, { stream, rate }: Share): PackedNode | undefined {
  const alone = saturated(stream);
  if (alone === undefined || rate > alone.rate * (1 + 1e-9)) return undefined;
  const dutyCycle = stream.latency.latency(alone.batchSize);
  return { id, dutyCycle, occupancy: 1, isDedicated: true, items: [{ stream, rate, batchSize: alone.batchSize }] };
}

/**
 * Builds a node of these shares, by Merge's tests. The duty cycle is the least of those that each share would have
 * alone, and all shares must fit into it.
 *
 * @param memory - of the node, in the streams' unit
 */
export function fitted(id: number, shares: readonly Share[], memory: number): PackedNode | undefined {
  return nodeOnly(fittedOr(id, shares, memory));
}

/** The same as `fitted`, with the reason where the shares don't fit. */
export function fittedOr(id: number, shares: readonly Share[], memory: number): PackedNode | Obstacle {
  let dutyCycle = Infinity;
  for (const { stream, rate } of shares) {
    const alone = residual(stream, rate);
    if (alone === undefined) return "rate";
    dutyCycle = Math.min(dutyCycle, alone.dutyCycle);
  }
  return cycleOr(id, shares, dutyCycle, memory);
}

/** The same as `fitted`, with a given duty cycle. */
export function inCycle(
  id: number,
  shares: readonly Share[],
  dutyCycle: number,
  memory: number,
): PackedNode | undefined {
  return nodeOnly(cycleOr(id, shares, dutyCycle, memory));
}

function cycleOr(id: number, shares: readonly Share[], dutyCycle: number, memory: number): PackedNode | Obstacle {
  let [busy, resident] = [0, 0];
  const items: Item[] = [];
  for (const { stream, rate } of shares) {
    const batchSize = batchIn(dutyCycle, rate);
    const latency = stream.latency.latency(batchSize);
    if (latency === Infinity || !atMost(dutyCycle + latency, stream.slo)) return "slo";
    busy += latency;
    resident += stream.memory ?? 0;
    items.push({ stream, rate, batchSize });
  }
  if (!atMost(busy, dutyCycle)) return "time";
  if (resident > memory * (1 + 1e-9)) return "memory";
  return { id, dutyCycle, items, occupancy: busy / dutyCycle, isDedicated: false };
}

/**
 * Merges a share into a node (C3), or gives the reason why it doesn't fit; two shares of one stream don't take turns
 * with one another.
 */
export function mergedOr(node: PackedNode, share: Share, memory: number): PackedNode | Obstacle {
  if (node.isDedicated) return "dedicated";
  if (node.items.some(({ stream }) => stream.id === share.stream.id)) return "same-stream";
  const alone = residual(share.stream, share.rate);
  if (alone === undefined) return "rate";
  return cycleOr(node.id, [...node.items, share], Math.min(node.dutyCycle, alone.dutyCycle), memory);
}

const nodeOnly = (answer: PackedNode | Obstacle): PackedNode | undefined =>
  typeof answer === "string" ? undefined : answer;
