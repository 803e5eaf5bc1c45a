import { simulate } from "@tutti/simulator";
import { type Shape, scenarioOf } from "./workload.ts";

export interface Measurement extends Shape {
  /** Arrivals in one run. */
  readonly requests: number;
  readonly badRate: number;
  readonly batchMean: number;
  /**
   * The least wall time of any run, since other load on the machine only adds. CPU includes the collector's threads.
   */
  readonly wallSeconds: number;
  readonly cpuSeconds: number;
  readonly requestsPerWallSecond: number;
  readonly requestsPerCpuSecond: number;
}

/** Runs the shapes in turn, `repeat` times. So a busy minute of the machine doesn't fall on one of them alone. */
export function measure<Name extends string>(
  shapes: Readonly<Record<Name, Shape>>,
  requests: number,
  repeat: number,
): Record<Name, Measurement> {
  const names = Object.keys(shapes) as Name[];
  const best = {} as Record<Name, Measurement>;
  // Warm-up: the code is compiled before it is measured.
  for (const name of names) simulate(scenarioOf(shapes[name], Math.min(requests, 50_000), 1));
  for (let i = 0; i < repeat; i++) {
    for (const name of names) {
      const run = measureOnce(shapes[name], requests, i + 1);
      best[name] = i === 0 ? run : better(best[name], run);
    }
  }
  return best;
}

function better(a: Measurement, b: Measurement): Measurement {
  return {
    ...a,
    wallSeconds: Math.min(a.wallSeconds, b.wallSeconds),
    cpuSeconds: Math.min(a.cpuSeconds, b.cpuSeconds),
    requestsPerWallSecond: Math.max(a.requestsPerWallSecond, b.requestsPerWallSecond),
    requestsPerCpuSecond: Math.max(a.requestsPerCpuSecond, b.requestsPerCpuSecond),
  };
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
