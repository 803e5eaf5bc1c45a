/** A node: streams that take turns in one duty cycle. docs/algorithms.md, C2 and C3. */
import { type Stream, atMost, batchIn, residual, saturated } from "./stream.ts";

export interface Item {
  readonly stream: Stream;
  /** What of the stream's rate is served here. */
  readonly rate: number;
  readonly batchSize: number;
}

export interface PackedNode {
  readonly id: number;
  /** d in ms: in the worst case an item takes d + l(b). */
  readonly dutyCycle: number;
  readonly items: readonly Item[];
  /** Σ l(b)/d; 1 for a dedicated node. */
  readonly occupancy: number;
  /** One stream that runs batch after batch. */
  readonly isDedicated: boolean;
}

export type Share = Pick<Item, "stream" | "rate">;

/** C1 and the second hole of C2: one stream, batch after batch of B. */
export function dedicated(id: number, { stream, rate }: Share): PackedNode | undefined {
  const alone = saturated(stream);
  if (alone === undefined || rate > alone.rate * (1 + 1e-9)) return undefined;
  const dutyCycle = stream.latency.latency(alone.batchSize);
  return { id, dutyCycle, occupancy: 1, isDedicated: true, items: [{ stream, rate, batchSize: alone.batchSize }] };
}

/**
 * A node of these shares, by Merge's tests: the duty cycle is the least of what each would have alone, and everything must still fit.
 *
 * @param memory - of the node, in the streams' unit
 */
export function fitted(id: number, shares: readonly Share[], memory: number): PackedNode | undefined {
  let dutyCycle = Infinity;
  for (const { stream, rate } of shares) {
    const alone = residual(stream, rate);
    if (alone === undefined) return undefined;
    dutyCycle = Math.min(dutyCycle, alone.dutyCycle);
  }
  return inCycle(id, shares, dutyCycle, memory);
}

/** The same in a given duty cycle. */
export function inCycle(
  id: number,
  shares: readonly Share[],
  dutyCycle: number,
  memory: number,
): PackedNode | undefined {
  let [busy, resident] = [0, 0];
  const items: Item[] = [];
  for (const { stream, rate } of shares) {
    const batchSize = batchIn(dutyCycle, rate);
    const latency = stream.latency.latency(batchSize);
    if (latency === Infinity || !atMost(dutyCycle + latency, stream.slo)) return undefined;
    busy += latency;
    resident += stream.memory ?? 0;
    items.push({ stream, rate, batchSize });
  }
  if (!atMost(busy, dutyCycle) || resident > memory * (1 + 1e-9)) return undefined;
  return { id, dutyCycle, items, occupancy: busy / dutyCycle, isDedicated: false };
}

/** C3. Undefined where it doesn't fit; two shares of one stream don't take turns with one another. */
export function merged(node: PackedNode, share: Share, memory: number): PackedNode | undefined {
  if (node.isDedicated || node.items.some(({ stream }) => stream.id === share.stream.id)) return undefined;
  const alone = residual(share.stream, share.rate);
  if (alone === undefined) return undefined;
  return inCycle(node.id, [...node.items, share], Math.min(node.dutyCycle, alone.dutyCycle), memory);
}
