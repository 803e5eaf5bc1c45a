/**
 * A run with a changing number of accelerators: the same workload and the same judge, with the closed loop between
 * them.
 */
import { Judge } from "../results/metrics.ts";
import { policyNamed } from "../cluster/policies.ts";
import type { PlannerResult, PlannerWindow } from "../results/result.ts";
import type { DetailedRun, RunListener, RunOptions } from "../run.ts";
import type { Scenario } from "../scenario/scenario.ts";
import { type SimListener, type SimRequest, isElastic } from "../cluster/simulated-cluster.ts";
import { createWorkload } from "../scenario/workload.ts";
import { ClosedLoop, type EpochEnd } from "./closed-loop.ts";

/** @throws Error for a policy whose accelerators can't come and go */
export function simulatePlanned(scenario: Scenario, options: RunOptions): DetailedRun {
  const { models, gpus, gather, network, seed, policy } = scenario;
  // A planner gives accelerators back that are not in use, so as few as possible should be.
  const { prefer = "accelerators" } = scenario;
  const judge = new Judge(scenario);
  const windows = new Windows(scenario);
  const hearers: RunListener[] = [judge, windows, ...(options.listener === undefined ? [] : [options.listener])];
  const listener = toAll(hearers);
  const create = options.cluster ?? policyNamed(policy);
  const cluster = create({ models, gpus, gather, prefer, network, seed, listener });
  if (!isElastic(cluster)) {
    throw new Error(`policy '${policy}' plans for all accelerators once; with a planner use one of Tutti's own`);
  }
  const loop = new ClosedLoop(scenario, cluster, (end) => windows.ended(end));
  hearers.push(loop);
  const workload = createWorkload(scenario);
  for (let request = workload.next(); request !== undefined; request = workload.next()) {
    loop.advance(request.arrivedAt);
    for (const hearer of hearers) hearer.arrived?.(request);
    cluster.arrive(request);
  }
  loop.advance(scenario.duration);
  cluster.runUntilIdle();
  return { result: { ...judge.result(), planner: windows.result() }, streams: judge.streams() };
}

function toAll(hearers: readonly RunListener[]): SimListener {
  return {
    dispatched: (batch, at) => {
      for (const hearer of hearers) hearer.dispatched?.(batch, at);
    },
    refused: (request, cause, at) => {
      for (const hearer of hearers) hearer.refused(request, cause, at);
    },
    finished: (batch, begin, end, completed) => {
      for (const hearer of hearers) hearer.finished(batch, begin, end, completed);
    },
  };
}

/** Outcomes of the requests of each epoch, by their arrival. The planner can't know them; they are for readers. */
class Windows implements RunListener {
  readonly #epoch: number;
  readonly #warmup: number;
  readonly #respond: number;
  readonly #offered: Float64Array;
  readonly #bad: Float64Array;
  readonly #ends: EpochEnd[] = [];

  constructor({ planner, duration, warmup, network }: Scenario) {
    this.#epoch = planner!.epoch;
    this.#warmup = warmup;
    this.#respond = network.respond;
    const count = Math.ceil(duration / this.#epoch);
    this.#offered = new Float64Array(count);
    this.#bad = new Float64Array(count);
  }

  arrived({ arrivedAt }: SimRequest): void {
    this.#offered[Math.floor(arrivedAt / this.#epoch)]!++;
  }
  refused({ arrivedAt }: SimRequest): void {
    this.#bad[Math.floor(arrivedAt / this.#epoch)]!++;
  }
  finished({ requests }: { readonly requests: readonly SimRequest[] }, _begin: number, end: number): void {
    for (const { arrivedAt, deadline } of requests) {
      if (end + this.#respond > deadline) this.#bad[Math.floor(arrivedAt / this.#epoch)]!++;
    }
  }
  ended(end: EpochEnd): void {
    this.#ends.push(end);
  }

  result(): PlannerResult {
    const counted = this.#ends.filter(({ from }) => from >= this.#warmup);
    const time = counted.reduce((sum, { from, until }) => sum + until - from, 0);
    const paid = counted.reduce((sum, end) => sum + end.paid, 0);
    return { gpusMean: time > 0 ? paid / time : 0, windows: this.#ends.map((end, i) => this.#window(end, i)) };
  }

  #window({ from, until, paid, busy, advice }: EpochEnd, i: number): PlannerWindow {
    const seconds = (until - from) / 1e6;
    const [offered, bad] = [this.#offered[i]!, this.#bad[i]!];
    return {
      fromS: from / 1e6,
      untilS: until / 1e6,
      offeredRps: offered / seconds,
      goodRps: (offered - bad) / seconds,
      badRate: offered > 0 ? bad / offered : 0,
      gpus: paid / (until - from),
      busy: busy / (until - from),
      advice,
    };
  }
}
