/**
 * `tutti plan pack`: streams that share nodes, as JSON with public field names. Rates are in requests per second, times
 * in ms.
 */
import {
  type EpochPlan,
  type PackedNode,
  type PackingPlan,
  type PackingStep,
  batchOblivious,
  nextEpoch,
  pack,
  saturated,
} from "@tutti/planning";
import type { PackInput } from "./pack-input.ts";

export interface PackResult {
  readonly kind: "pack";
  /** Every stream is served in full. */
  readonly feasible: boolean;
  /** Total work in accelerators, with every stream in its largest batches. No plan needs fewer. */
  readonly work: number;
  readonly nodes: readonly NodeResult[];
  readonly unplaced: readonly { readonly stream: string; readonly rate: number; readonly reason: string }[];
  /**
   * Nodes per stream if the same number were divided by throughput alone, at least one each (docs/algorithms.md, C8).
   */
  readonly batchOblivious: readonly { readonly stream: string; readonly nodes: number }[];
  /** Set if an epoch before was given. */
  readonly epoch?: {
    readonly nodesBefore: number;
    readonly loads: readonly MoveResult[];
    readonly unloads: readonly MoveResult[];
  };
}
export interface NodeResult {
  readonly node: number;
  /** The node runs one stream, batch after batch. */
  readonly dedicated: boolean;
  readonly dutyCycleMs: number;
  /** Share of the duty cycle that batches fill: 0 … 1. */
  readonly occupancy: number;
  readonly memoryMb: number;
  readonly streams: readonly ItemResult[];
}
export interface ItemResult {
  readonly stream: string;
  readonly rate: number;
  readonly batchSize: number;
  readonly batchMs: number;
  /** Worst latency from arrival to answer: the duty cycle plus the batch. */
  readonly worstMs: number;
  readonly sloMs: number;
}
export interface MoveResult {
  readonly stream: string;
  readonly node: number;
}

export interface PackRun {
  readonly result: PackResult;
  readonly plan: PackingPlan;
  /** Steps of the last epoch. */
  readonly steps: readonly PackingStep[];
}

export function runPack(input: PackInput): PackRun {
  const { streams, before, names } = input;
  const memory = { memory: input.memoryMb };
  const steps: PackingStep[] = [];
  const options = { ...memory, onStep: (step: PackingStep) => void steps.push(step) };
  const first = before === undefined ? undefined : pack(before, memory);
  const plan = first === undefined ? pack(streams, options) : nextEpoch(first, streams, options);
  const work = streams.reduce((sum, stream) => sum + stream.rate / (saturated(stream)?.rate ?? Infinity), 0);
  const result: PackResult = {
    kind: "pack",
    feasible: plan.unplaced.length === 0,
    work,
    nodes: plan.nodes.map((node) => nodeResult(node, names)),
    unplaced: plan.unplaced.map(({ stream, rate, reason }) => ({
      ...{ stream: names[stream.id]!, rate: 1000 * rate, reason },
    })),
    batchOblivious: batchOblivious(streams, plan.nodes.length).map((nodes, id) => ({ stream: names[id]!, nodes })),
    ...(first !== undefined && {
      epoch: {
        nodesBefore: first.nodes.length,
        loads: movesOf(plan, "loads", names),
        unloads: movesOf(plan, "unloads", names),
      },
    }),
  };
  return { result, plan, steps };
}

function nodeResult(
  { id, dutyCycle, occupancy, isDedicated, items }: PackedNode,
  names: readonly string[],
): NodeResult {
  return {
    ...{ node: id, dedicated: isDedicated, dutyCycleMs: dutyCycle, occupancy },
    memoryMb: items.reduce((sum, { stream }) => sum + (stream.memory ?? 0), 0),
    streams: items.map(({ stream, rate, batchSize }): ItemResult => {
      const batchMs = stream.latency.latency(batchSize);
      const named = { stream: names[stream.id]!, rate: 1000 * rate, batchSize, batchMs };
      return { ...named, worstMs: dutyCycle + batchMs, sloMs: stream.slo };
    }),
  };
}

const movesOf = (plan: PackingPlan, which: "loads" | "unloads", names: readonly string[]): MoveResult[] =>
  (plan as EpochPlan)[which].map(({ stream, node }) => ({ stream: names[stream]!, node }));
