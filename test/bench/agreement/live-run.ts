/**
 * A workload as a running system serves it. `tutti up` has emulated accelerators, `tutti bench` asks, `tutti record`
 * listens, and `tutti record-noise` watches the machine meanwhile. All counts are those of the ingress, which sees
 * requests when the recording does.
 */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import type { BenchReport } from "@tutti/bench";
import { readTrace } from "@tutti/sim-report/trace";
import type { TraceEntry } from "@tutti/simulator";
import { RunningSystem } from "../system/running-system.ts";
import { Command } from "../system/command.ts";
import type { Seen } from "./comparison.ts";
import { type Delays, type Window, delaysIn, meanOf, seenIn, windowOf } from "./live-figures.ts";
import type { Workload } from "./workloads.ts";

/**
 * Seconds of load before the measurement. Rates and burstiness are measured over 5 s. Before the load they were those
 * of the system's warm-up requests and then of silence, which the recording doesn't contain.
 */
const WARMUP_S = 6;

/**
 * Statuses until the last requests are in one: actors report once a second, and `tutti up` reads that once a second.
 */
const STATUSES_BEHIND = 3;

/** The ingress's p99 is that of up to so many seconds: earlier readings would look back into the warm-up. */
export const LOOKS_BACK_S = 10;

export interface LiveOptions {
  /** Measured seconds, more than LOOKS_BACK_S; WARMUP_S come before. */
  readonly seconds: number;
  /** How long the system sends itself warm-up requests before it is ready, such as `10s`. */
  readonly warmup: string;
}

export interface LiveRun {
  readonly live: Seen;
  readonly delays: Delays;
  readonly window: Window;
  readonly trace: readonly TraceEntry[];
  /** Path of the recording of the machine's noise. */
  readonly noise: string;
  /** Lag of the load generator: where it is large the machine is short of processors. */
  readonly sendLagMs: number;
}

export async function serve(folder: string, workload: Workload, { seconds, warmup }: LiveOptions): Promise<LiveRun> {
  const { models, gpus, rate, arrivals } = workload;
  const [profiles, trace, noise] = ["profiles.yaml", "trace.jsonl", "noise.jsonl"].map((name) => join(folder, name));
  writeFileSync(profiles!, JSON.stringify({ models })); // JSON is YAML, too
  const ports = ["http", "grpc", "metrics"].flatMap((name) => [`--${name}-port`, "0"]);
  const system = await RunningSystem.start(["--emulate", profiles!, "--gpus", `${gpus}`, "--warmup", warmup, ...ports]);
  const commands: Command[] = [];
  const started = (args: readonly string[]): Command => {
    const command = new Command(args);
    commands.push(command);
    return command;
  };
  let reading: NodeJS.Timeout | undefined;
  try {
    const { metrics } = await system.next("child-ready", "metrics");
    const recorder = started(["record", "--nats", system.url, "--out", trace!, "--json"]);
    await recorder.says("recording to");
    const p99s: Promise<number>[] = [];
    const { outcomes, during } = await system.watch(async () => {
      reading = setInterval(() => p99s.push(readP99(String(metrics)).catch(() => NaN)), 1_000);
      const watcher = started(["record-noise", noise!, "--light", "--seconds", `${WARMUP_S + seconds}`]);
      const load = started([
        ...["bench", "--nats", system.url, "--mix", models.map(({ name }) => name).join(","), "--arrivals", arrivals],
        ...["--rate", `${rate}`, "--seconds", `${seconds}`, "--warmup", `${WARMUP_S}`, "--json"],
      ]);
      const said = await load.ended(1); // 1: it was a bottleneck itself, which its lag tells
      clearInterval(reading);
      await watcher.ended();
      for (let i = 0; i < STATUSES_BEHIND; i++) await system.nextStatus();
      return JSON.parse(said) as BenchReport;
    });
    recorder.interrupt();
    await recorder.ended();
    const entries = await readTrace(trace!);
    const window = windowOf(during, entries, WARMUP_S);
    const p99Ms = 1e3 * meanOf((await Promise.all(p99s)).slice(LOOKS_BACK_S - seconds));
    return {
      ...{ live: { ...seenIn(window), p99Ms }, delays: delaysIn(window.statuses), window },
      ...{ trace: entries, noise: noise!, sendLagMs: outcomes.trials[0]!.client.sendLagMs.p99 ?? NaN },
    };
  } finally {
    clearInterval(reading);
    for (const command of commands) command.interrupt();
    await system.stop();
  }
}

/** The models' p99 at the ingress over the last 5 to 10 s, in seconds: their mean. */
async function readP99(metrics: string): Promise<number> {
  const text = await (await fetch(`${metrics}/metrics`)).text();
  const values = [...text.matchAll(/^tutti_answer_p99_seconds\{[^}]*\} (\S+)$/gm)].map(([, value]) => Number(value));
  return meanOf(values);
}
