/** Runs scenarios: a workload into a cluster, with a judge as its listener. */
import { Judge, type StreamResult } from "./results/metrics.ts";
import { clusterOf } from "./cluster/policies.ts";
import type { DivisionResult, SimulationResult } from "./results/result.ts";
import type { Scenario } from "./scenario/scenario.ts";
import {
  type SimCluster,
  type SimClusterFactory,
  type SimListener,
  type SimRequest,
  isSliced,
} from "./cluster/simulated-cluster.ts";
import { perSecond } from "@tutti/profile";
import type { Instant } from "@tutti/units";
import { divisionFor } from "./parts/halves.ts";
import { simulatePipelined } from "./pipelines/pipelined-run.ts";
import { simulatePlanned } from "./planner/planned-run.ts";
import { subClusterChoice } from "./cluster/sub-cluster-choice.ts";
import { meanShares } from "./results/mean-shares.ts";
import { type Workload, createWorkload } from "./scenario/workload.ts";

/**
 * A listener that also receives arrivals, each as it is handed to the cluster. The cluster then reports the events that
 * were due before it.
 */
export interface RunListener extends SimListener {
  arrived?(request: SimRequest): void;
}

export interface RunOptions {
  /** Receives all events, for logs, stories and pictures. */
  readonly listener?: RunListener;
  /** Replaces the scenario's policy. */
  readonly cluster?: SimClusterFactory;
}

export interface DetailedRun {
  readonly result: SimulationResult;
  /** One for each (model, SLO class) that had requests. */
  readonly streams: readonly StreamResult[];
}

/** Runs a scenario to its end. Deterministic: equal scenarios, equal results, whatever the machine. */
export function simulate(scenario: Scenario, options: RunOptions = {}): SimulationResult {
  const { result } = simulateDetailed(scenario, options);
  if (result.jobs === undefined) return result;
  const { jobs: _, ...alone } = scenario;
  const { listener: _listener, ...quiet } = options;
  const { badRate, gpu, models } = simulateDetailed(alone, quiet).result;
  const without = { badRate, busyFraction: gpu.busyFraction, p99Ms: models.map(({ p99Ms }) => p99Ms) };
  return { ...result, jobs: { ...result.jobs, without } };
}

/** As `simulate`, with the counts by which goodput is judged. */
export function simulateDetailed(scenario: Scenario, options: RunOptions = {}): DetailedRun {
  if (scenario.planner !== undefined) return simulatePlanned(scenario, options);
  if (scenario.pipelines !== undefined) return simulatePipelined(scenario, options);
  const { models, gpus, types, gather, prefer, network, noise, learned, seed, interference, jobs } = scenario;
  const judge = new Judge(scenario);
  const { listener } = options;
  const create = options.cluster ?? clusterOf(scenario);
  const cluster = create({
    models,
    shares: meanShares(scenario),
    gpus,
    ...(types !== undefined && { types }),
    gather,
    ...(prefer !== undefined && { prefer }),
    network,
    seed,
    listener: both(judge, listener),
    ...(noise !== undefined && { noise }),
    ...(learned !== undefined && { learned }),
    ...(interference !== undefined && { interference }),
    ...(jobs !== undefined && { backlog: { jobs, until: scenario.duration as number as Instant } }),
  });
  const workload = createWorkload(scenario);
  const takesTime = network.arrive !== undefined || network.gather !== undefined;
  const isOneByOne = listener !== undefined || noise !== undefined || learned !== undefined || takesTime;
  if (isOneByOne || !runSlices(workload, judge, cluster)) {
    for (let request = workload.next(); request !== undefined; request = workload.next()) {
      judge.arrived(request);
      listener?.arrived?.(request);
      cluster.arrive(request);
    }
  }
  cluster.runUntilIdle();
  const subClusters = options.cluster === undefined ? subClusterChoice(scenario) : undefined;
  const chooses = options.cluster === undefined && jobs === undefined;
  const division = chooses ? divisionResult(scenario, subClusters?.used ?? 1) : undefined;
  const result = {
    ...judge.result(),
    ...(division !== undefined && { division }),
    ...(subClusters !== undefined && { subClusters }),
  };
  return { result, streams: judge.streams() };
}

/** Sub-clusters choose one by one: there is no one result. */
function divisionResult(scenario: Scenario, subClusters: number): DivisionResult | undefined {
  const { models, types } = scenario;
  const division = subClusters === 1 ? divisionFor(scenario) : undefined;
  if (division === undefined) return undefined;
  const { divided, whole, halves } = division;
  return {
    kind: divided.includes(true) ? "halves" : "whole",
    ...(types !== undefined && { types: types.filter((_, i) => divided[i]).map(({ name }) => name) }),
    wholeRps: perSecond(whole.carried),
    halvesRps: perSecond(halves.carried),
    waitsOnWhole: whole.waits === undefined ? null : models[whole.waits]!.name,
  };
}

/**
 * Runs a workload in slices, the fast way, as long as only the judge listens. @returns whether workload and cluster
 * both support it
 */
function runSlices(workload: Workload, judge: Judge, cluster: SimCluster): boolean {
  if (workload.nextSlice === undefined || !isSliced(cluster)) return false;
  for (let slice = workload.nextSlice(); slice !== undefined; slice = workload.nextSlice()) {
    const { requests, ends } = slice;
    const count = ends[ends.length - 1]!;
    for (let i = 0; i < count; i++) judge.arrived(requests[i]!);
    cluster.runSlice(slice);
  }
  return true;
}

function both(judge: Judge, listener: RunListener | undefined): SimListener {
  if (listener === undefined) return judge;
  return {
    jobsFinished: (batch, begin, end) => {
      judge.jobsFinished(batch, begin, end);
      listener.jobsFinished?.(batch, begin, end);
    },
    dispatched: (batch, at) => listener.dispatched?.(batch, at),
    refused: (request, cause, at) => {
      judge.refused(request);
      listener.refused(request, cause, at);
    },
    finished: (batch, begin, end, completed) => {
      judge.finished(batch, begin, end, completed);
      listener.finished(batch, begin, end, completed);
    },
  };
}
