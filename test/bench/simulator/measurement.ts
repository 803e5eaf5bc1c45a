import { simulate } from "@tutti/simulator";
import { type Shape, scenarioOf } from "./workload.ts";

export interface Measurement extends Shape {
  /** Arrived in one run. */
  readonly requests: number;
  readonly badRate: number;
  readonly batchMean: number;
  /** Of the fastest run; CPU includes the collector's threads. */
  readonly wallSeconds: number;
  readonly cpuSeconds: number;
  readonly requestsPerWallSecond: number;
  readonly requestsPerCpuSecond: number;
}

/** Runs a shape `repeat` times and keeps the fastest: what the machine does besides only ever slows a run. */
export function measure(shape: Shape, requests: number, repeat: number): Measurement {
  simulate(scenarioOf(shape, Math.min(requests, 50_000), 1)); // compiled before it is measured
  const runs = Array.from({ length: repeat }, (_, i) => measureOnce(shape, requests, i + 1));
  return runs.toSorted((a, b) => a.wallSeconds - b.wallSeconds)[0]!;
}

function measureOnce(shape: Shape, requests: number, seed: number): Measurement {
  const scenario = scenarioOf(shape, requests, seed);
  const cpuBefore = process.cpuUsage();
  const before = performance.now();
  const result = simulate(scenario);
  const wallSeconds = (performance.now() - before) / 1000;
  const { user, system } = process.cpuUsage(cpuBefore);
  const cpuSeconds = (user + system) / 1e6;
  const count = Math.round((result.offeredRps * scenario.duration) / 1e6);
  return {
    ...shape,
    requests: count,
    badRate: result.badRate,
    batchMean: result.batchSize.mean,
    wallSeconds,
    cpuSeconds,
    requestsPerWallSecond: Math.round(count / wallSeconds),
    requestsPerCpuSecond: Math.round(count / cpuSeconds),
  };
}
