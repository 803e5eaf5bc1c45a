/** One thread: ModelThreads, RankThread and emulated executors in virtual time, as fast as one core goes. */
import { Cluster } from "@tutti/scheduling";
import { micros } from "@tutti/units";
import { type Arrivals, type Shape, boundOf, drawArrivals, modelConfig, requestAt } from "./workload.ts";

export interface Result extends Shape {
  readonly threads: number;
  readonly requests: number;
  /** Offered rate in virtual time, in requests per second. */
  readonly offeredPerSecond: number;
  readonly servedShare: number;
  readonly meanBatch: number;
  readonly busyShare: number;
  readonly cpuSeconds: number;
  readonly requestsPerCpuSecond: number;
}

const none = { ctrl: micros(0), perItem: micros(0), guard: micros(0) };

/** Runs the arrivals and measures their cost: CPU of the whole process, garbage collection included. */
export function measure(shape: Shape, arrivals: Arrivals): Result {
  const count = arrivals.at.length;
  let refused = 0;
  let late = 0;
  let batches = 0;
  const cluster = new Cluster({
    models: Array.from({ length: shape.models }, (_, m) => modelConfig(m, none)),
    gpus: shape.gpus,
    listener: {
      refused: () => refused++,
      finished: ({ requests }, _begin, end) => {
        batches++;
        if (end > requests[0]!.deadline) late += requests.length;
      },
    },
  });
  const before = process.cpuUsage();
  for (let i = 0; i < count; i++) cluster.arrive(arrivals.model[i]!, requestAt(arrivals.at[i]!, i + 1));
  const idleAt = cluster.runUntilIdle();
  const { user, system } = process.cpuUsage(before);
  const cpuSeconds = (user + system) / 1e6;
  const span = arrivals.at[count - 1]! - arrivals.at[0]!;
  return {
    ...shape,
    threads: 1,
    requests: count,
    offeredPerSecond: Math.round((count / span) * 1e6),
    servedShare: 1 - (refused + late) / count,
    meanBatch: (count - refused) / batches,
    busyShare: cluster.busyTime / (shape.gpus * (idleAt - arrivals.at[0]!)),
    cpuSeconds,
    requestsPerCpuSecond: Math.round(count / cpuSeconds),
  };
}

const SERVED_MIN = 0.992;
const STEP = 0.95;

/** The highest load, in steps of 5 % below the bound, at which the served share is at least SERVED_MIN. */
export function servedLoad(shape: Shape, seed: number): number {
  // The run is long enough that the rates are measured and the first second's ramp doesn't count much.
  for (let perMicro = boundOf(shape) * STEP; ; perMicro *= STEP) {
    const count = Math.min(600_000, Math.max(40_000, Math.round(perMicro * 3e6)));
    if (measure(shape, drawArrivals(shape, perMicro, count, seed)).servedShare >= SERVED_MIN) return perMicro;
  }
}
