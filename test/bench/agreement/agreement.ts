/**
 * One load, served and simulated. `tutti up` serves it with emulated accelerators while `tutti record` listens. The
 * simulator replays the recording with the delays that the running system measured. No parameter is fitted.
 */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { readTrace } from "@tutti/sim-report/trace";
import { LatencyTable } from "@tutti/profile";
import type { Policy, Preference } from "@tutti/scheduling";
import { type Scenario, type SimulationResult, TuttiCluster, simulate } from "@tutti/simulator";
import { type Micros, micros, millis, seconds } from "@tutti/units";
import type { LoadReport } from "../load/open-loop.ts";
import { type Delay, type Measure, RunningSystem, type StatusEvent } from "../system/running-system.ts";
import { watchLatencies } from "./planned-latencies.ts";
import { startRecording } from "./recording.ts";

/** ResNet50 of Symphony's Table 2. */
const RESNET50 = { name: "resnet50", alphaMs: 1.053, betaMs: 5.072, batchMax: 64, sloMs: 25 };

/**
 * Seconds of load before the measurement. Rates and burstiness are measured over 5 s. Before the load they were those
 * of the system's warm-up requests and then of silence, which the recording doesn't contain. Until they are out of the
 * window the live scheduler plans for other arrivals than the simulated one.
 */
const WARMUP_S = 6;

const TYPICAL = 8;

export interface AgreementOptions {
  readonly rate: number;
  /** Measured seconds; WARMUP_S come before. */
  readonly seconds: number;
  readonly gpus: number;
  readonly policy: "adaptive" | "deferred" | "eager";
  /**
   * Preference for batches or accelerators. Where batches wait for their deferred start, their size says more of the
   * scheduler and less of the machine's noise.
   */
  readonly prefer: Preference;
  /**
   * Factor of slow motion. Every time of the model is so much longer and the rate so much lower, while the machine's
   * own delays stay the same.
   */
  readonly slowdown: number;
  /** How long the system sends itself warm-up requests before it is ready, such as `10s`. */
  readonly warmup: string;
}

export interface Seen {
  /** Answered in time, per second. */
  readonly goodRps: number;
  readonly batchMean: number;
  /** Busy share of all accelerators together, 0 … 1. */
  readonly busyShare: number;
}

export interface Agreement {
  readonly offeredRps: number;
  readonly slowdown: number;
  /**
   * Time that live runs have added to l(b) in plans, at a batch of 8. The planned quantile includes every stall of an
   * executor's process.
   */
  readonly inflationUs: number;
  /** Mean delays that the scheduler set aside. */
  readonly reservedUs: Readonly<Record<Delay, number>>;
  /** Mean delays that it measured. */
  readonly measuredUs: Readonly<Record<Measure, number>>;
  /**
   * Share of batches that started later than the delay that was set aside. It is 0.05 by the quantile, and more on a
   * busy machine.
   */
  readonly lateStarts: number;
  readonly live: Seen;
  readonly simulated: Seen;
  /** Live over simulated, less 1. */
  readonly differences: Seen;
  /** Lag of the load generator. Where it is large the machine is short of processors, and the run says little. */
  readonly sendLagMs: LoadReport["sendLagMs"];
  readonly refused: LoadReport["refused"];
  readonly late: number;
}

export async function measureAgreement(options: AgreementOptions): Promise<Agreement> {
  const folder = mkdtempSync(join(tmpdir(), "tutti-agreement-"));
  try {
    return await measureIn(folder, options);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

async function measureIn(folder: string, options: AgreementOptions): Promise<Agreement> {
  const { gpus, policy, prefer, warmup, slowdown } = options;
  const rate = options.rate / slowdown;
  const model = modelOf(slowdown);
  const profiles = join(folder, "profiles.yaml");
  const trace = join(folder, "trace.jsonl");
  writeFileSync(profiles, JSON.stringify({ models: [model] })); // JSON is YAML, too
  const system = await RunningSystem.start([
    "--emulate",
    profiles,
    "--gpus",
    `${gpus}`,
    "--policy",
    policy,
    "--prefer",
    prefer,
    "--warmup",
    warmup,
  ]);
  try {
    const recording = await startRecording(system.url, trace);
    const latencies = await watchLatencies(system.url, model.name);
    const { report, during } = await system.load<LoadReport>([
      ...["--model", model.name, "--rate", `${rate}`, "--seconds", `${options.seconds}`, "--warmup", `${WARMUP_S}`],
      ...["--slo", `${model.sloMs}ms`],
    ]);
    await recording.stop();
    const planned = await latencies.stop(performance.now() - 1000 * options.seconds);
    const steady = during.slice(WARMUP_S, WARMUP_S + options.seconds);
    const live: Seen = {
      goodRps: report.inTime / options.seconds,
      batchMean: sum(steady, "items") / Math.max(1, sum(steady, "batches")),
      busyShare: busyShareOf(steady, gpus),
    };
    const reservedUs = reservedIn(steady);
    const measuredUs = measuredIn(steady);
    const { simulated, offeredRps } = await simulateTrace(trace, options, { reservedUs, measuredUs, planned });
    const differences = {
      goodRps: live.goodRps / simulated.goodRps - 1,
      batchMean: live.batchMean / simulated.batchMean - 1,
      busyShare: live.busyShare / simulated.busyShare - 1,
    };
    const { sendLagMs, refused, late } = report;
    const lateStarts = lateStartsIn(steady);
    const both = { live, simulated, differences };
    const inflationUs = Math.round(planned.latency(TYPICAL) - 1000 * (model.alphaMs * TYPICAL + model.betaMs));
    return { slowdown, inflationUs, offeredRps, reservedUs, measuredUs, lateStarts, ...both, sendLagMs, refused, late };
  } finally {
    await system.stop();
  }
}

const modelOf = (slowdown: number): typeof RESNET50 => ({
  ...RESNET50,
  alphaMs: slowdown * RESNET50.alphaMs,
  betaMs: slowdown * RESNET50.betaMs,
  sloMs: slowdown * RESNET50.sloMs,
});

interface Given {
  readonly planned: LatencyTable;
  readonly reservedUs: Readonly<Record<Delay, Micros>>;
  readonly measuredUs: Readonly<Record<Measure, Micros>>;
}

async function simulateTrace(
  path: string,
  options: AgreementOptions,
  { reservedUs, measuredUs, planned }: Given,
): Promise<{ readonly simulated: Seen; readonly offeredRps: number }> {
  const policy: Policy = { kind: options.policy };
  const { name, alphaMs, betaMs, batchMax, sloMs } = modelOf(options.slowdown);
  const runs = LatencyTable.affine({ alpha: 1000 * alphaMs, beta: 1000 * betaMs, batchSizeMax: batchMax });
  const scenario: Scenario = {
    seed: 1,
    duration: seconds(WARMUP_S + options.seconds),
    warmup: seconds(WARMUP_S),
    gpus: options.gpus,
    policy: options.policy,
    gather: "target",
    rate: 0, // as it was recorded
    arrivals: { process: "trace", entries: await readTrace(path) },
    network: {
      // A request joins a batch if it is known when the grant comes. The simulator's grants take no time, so its
      // requests have as long as a real grant takes.
      arrive: micros(Math.max(0, measuredUs.arrive - measuredUs.grant)),
      ctrl: reservedUs.ctrl,
      data: reservedUs.perItem,
      respond: reservedUs.respond,
      jitter: 0,
    },
    models: [{ name, slo: millis(sloMs), profile: planned, runs, classes: [], share: 1 }],
    phases: [],
  };
  const result: SimulationResult = simulate(scenario, {
    cluster: (given) =>
      new TuttiCluster(given, {
        policy,
        prefer: options.prefer,
        gather: "target",
        guard: micros(reservedUs.guard + reservedUs.reserve),
      }),
  });
  const { goodRps, batchSize, gpu, offeredRps } = result;
  return { simulated: { goodRps, batchMean: batchSize.mean, busyShare: gpu.busyFraction }, offeredRps };
}

const sum = (statuses: readonly StatusEvent[], name: "items" | "batches"): number =>
  statuses.reduce((total, status) => total + status[name], 0);

function busyShareOf(statuses: readonly StatusEvent[], gpus: number): number {
  let [busy, time] = [0, 0];
  for (const status of statuses) {
    time += status.seconds;
    for (const gpu of status.gpus) busy += gpu.busyUs / 1e6;
  }
  return busy / Math.max(1e-9, time * gpus);
}

function reservedIn(statuses: readonly StatusEvent[]): Record<Delay, Micros> {
  const all = statuses.flatMap(({ threads }) => threads.map(({ delaysUs }) => delaysUs));
  const mean = (delay: Delay): Micros => rounded(all.reduce((total, each) => total + each[delay], 0) / all.length);
  return {
    ctrl: mean("ctrl"),
    perItem: mean("perItem"),
    respond: mean("respond"),
    guard: mean("guard"),
    reserve: mean("reserve"),
  };
}

/** Means weighted with the items of each line. */
function measuredIn(statuses: readonly StatusEvent[]): Record<Measure, Micros> {
  const all = statuses.flatMap(({ threads }) => threads);
  const items = all.reduce((total, thread) => total + thread.items, 0);
  const mean = (measure: Measure): Micros =>
    rounded(all.reduce((total, thread) => total + thread.items * thread.measuredUs[measure], 0) / items);
  return { arrive: mean("arrive"), grant: mean("grant"), start: mean("start") };
}

function lateStartsIn(statuses: readonly StatusEvent[]): number {
  const threads = statuses.flatMap((status) => status.threads);
  const late = threads.reduce((total, thread) => total + thread.lateStarts, 0);
  return (
    late /
    Math.max(
      1,
      threads.reduce((total, thread) => total + thread.batches, 0),
    )
  );
}

const rounded = (us: number): Micros => micros(Number.isFinite(us) ? Math.round(us) : 0);
