/** The least number of nodes there is, by trying everything. docs/algorithms.md, C3. */
import { type PackedNode, type Share, dedicated, inCycle } from "../packing/node.ts";
import type { Stream } from "../packing/stream.ts";

/**
 * The least number of nodes that serve streams whose rates are below T. It tries every partition into sets, and every
 * duty cycle in which some item gathers a whole batch, so it is for a handful of streams.
 */
export function leastNodes(streams: readonly Stream[], memory = Infinity): number {
  const shares = streams.map((stream): Share => ({ stream, rate: stream.rate }));
  let least = Infinity;
  const parts: Share[][] = [];
  const known = new Map<string, boolean>();
  const fits = (part: readonly Share[]): boolean => {
    const key = part.map(({ stream }) => stream.id).join();
    let answer = known.get(key);
    if (answer === undefined) known.set(key, (answer = anyCycle(part, memory) !== undefined));
    return answer;
  };
  const place = (i: number): void => {
    if (parts.length >= least) return;
    if (i === shares.length) return void (least = parts.length);
    for (const part of parts) {
      part.push(shares[i]!);
      if (fits(part)) place(i + 1);
      part.pop();
    }
    parts.push([shares[i]!]);
    if (fits(parts.at(-1)!)) place(i + 1);
    parts.pop();
  };
  place(0);
  return least;
}

function anyCycle(part: readonly Share[], memory: number): PackedNode | undefined {
  if (part.length === 1) {
    const alone = dedicated(0, part[0]!);
    if (alone !== undefined) return alone;
  }
  for (const { stream, rate } of part) {
    const cycles = stream.latency.batchSizes.map((b) => b / rate);
    for (const dutyCycle of [...cycles, stream.slo - stream.latency.latency(1)]) {
      const node = dutyCycle > 0 ? inCycle(0, part, dutyCycle, memory) : undefined;
      if (node !== undefined) return node;
    }
  }
  return undefined;
}
