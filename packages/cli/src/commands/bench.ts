import { performance } from "node:perf_hooks";
import {
  type ArrivalProcess,
  type BenchReport,
  type Plan,
  type TrialReport,
  benchPage,
  measure,
  reportOf,
  runTrial,
} from "@tutti/bench";
import { NodeClock } from "@tutti/node/clock";
import { NAME_RULE, isName } from "@tutti/protocol";
import { recordedRate } from "@tutti/simulator";
import { type Micros, seconds } from "@tutti/units";
import { type Destination, overHttp, overNats } from "../bench/bench-target.ts";
import { progressNote, renderBench } from "../bench/bench-text.ts";
import { type MixEntry, mixOfTrace, readMix } from "../bench/mix.ts";
import { EXIT, print, usageError } from "@tutti/admin";
import { type ClusterOptions } from "@tutti/admin/cluster";
import { checkOutput, typedCommand, writeOutput } from "../present/output-file.ts";
import { sloOption } from "../present/slo-option.ts";
import { Progress } from "../simulate/progress.ts";
import { amount, whole } from "@tutti/sim-report/scenarios";
import { readTrace } from "@tutti/sim-report/trace";
import { StopSignal } from "@tutti/host";

export interface BenchCommandOptions extends ClusterOptions {
  readonly mix?: string;
  readonly rate?: string;
  readonly rates?: string;
  readonly findGoodput?: boolean;
  readonly seconds?: string;
  readonly warmup: string;
  readonly arrivals: string;
  readonly slo?: string;
  readonly input?: readonly string[];
  readonly app: string;
  readonly seed: string;
  readonly grace: string;
  readonly http?: string;
  readonly connections: string;
  readonly html?: string;
  readonly json?: boolean;
}

const RATE_DEFAULT = 100;
const SECONDS_DEFAULT = 10;
const CONNECTIONS_MAX = 10_000;
const RATES_MAX = 100;

/**
 * `tutti bench`: sends an open loop of requests and measures the answers. It ends with 1 if the client was the
 * bottleneck, or if the run was interrupted.
 */
export async function bench(model: string | undefined, options: BenchCommandOptions): Promise<void> {
  const load = await loadOf(model, options);
  const plan = planOf(options, load);
  checkOutput(options.html);
  const startedAt = new Date().toISOString();
  const destination = await destinationOf(load.mix, options);
  const stop = new StopSignal(() => process.exit(EXIT.failed));
  const clock = new NodeClock();
  const progress = new Progress();
  try {
    await clock.ready();
    let trialsSoFar = 0;
    const attempt = async (rate: number): Promise<TrialReport> => {
      const target = destination.target();
      const utilization = threadUse();
      try {
        return await runTrial({
          ...{ clock, target, streams: destination.streams, arrivals: load.arrivals, rate, utilization },
          ...{ seed: load.seed, warmup: load.warmup, duration: load.duration(rate), grace: load.grace },
          signal: stop.signal,
          onProgress: (seen) =>
            progress.update({
              done: Math.floor(100 * (trialsSoFar + seen.done)),
              total: 100 * trialsOf(plan, trialsSoFar),
              note: progressNote(seen),
            }),
        });
      } finally {
        trialsSoFar++;
        target.close();
      }
    };
    const findings = await measure(plan, attempt);
    progress.end();
    conclude(
      reportOf({
        ...{ startedAt, command: typedCommand(), target: destination.name, arrivals: options.arrivals },
        ...{ seed: load.seed, warmupSeconds: load.warmup / 1e6, streams: destination.streams, findings },
      }),
      options,
    );
  } finally {
    progress.end();
    stop.release();
    clock.close();
    await destination.close();
  }
}

function conclude(report: BenchReport, { json, html }: BenchCommandOptions): void {
  print(json === true ? JSON.stringify(report) : renderBench(report));
  if (html !== undefined) writeOutput(html, benchPage(report));
  process.exitCode = report.wasBottleneck || report.interrupted ? EXIT.failed : EXIT.ok;
}

interface Load {
  readonly mix: readonly MixEntry[];
  readonly arrivals: ArrivalProcess;
  readonly seed: number;
  readonly warmup: Micros;
  readonly grace: Micros;
  /** Duration of the measurement at this rate. */
  duration(rate: number): Micros;
  /** Recorded rate of a trace; 0 for other arrivals. */
  readonly ownRate: number;
}

async function loadOf(model: string | undefined, options: BenchCommandOptions): Promise<Load> {
  const { app, arrivals } = options;
  if (!isName(app)) throw usageError(`--app ${app}: ${NAME_RULE}`);
  const common = {
    seed: whole("--seed", options.seed, { min: 0, max: 0xffff_ffff }),
    warmup: duration("--warmup", options.warmup, 0),
    grace: duration("--grace", options.grace, 0),
  };
  const given = options.seconds === undefined ? undefined : duration("--seconds", options.seconds, 1e-3);
  const named = [model, options.mix].filter((one) => one !== undefined);
  if (arrivals.startsWith("trace:")) {
    if (named.length > 0)
      throw usageError("a trace says itself which models it asks for: leave out the model and --mix");
    const { mix, entries } = mixOfTrace(await readTrace(arrivals.slice("trace:".length)), app);
    const ownRate = recordedRate(entries);
    const own = (entries.at(-1)?.at ?? 0) + 1;
    const whole = (rate: number): number => (rate > 0 && ownRate > 0 ? Math.ceil((own * ownRate) / rate) + 1 : own);
    return {
      ...common,
      ...{ mix, ownRate, arrivals: { process: "trace", entries } },
      duration: (rate) => given ?? (Math.max(1, whole(rate) - common.warmup) as Micros),
    };
  }
  const [mix, second] = named;
  if (mix === undefined || second !== undefined)
    throw usageError("name a model, or several with --mix model.app:weight,…: `tutti models` lists them");
  const measured = given ?? seconds(SECONDS_DEFAULT);
  return {
    ...common,
    ...{ mix: await readMix(mix, app), ownRate: 0, arrivals: processOf(arrivals), duration: () => measured },
  };
}

function processOf(text: string): ArrivalProcess {
  if (text === "poisson" || text === "uniform") return { process: text };
  const shape = Number(/^gamma:([\d.]+)$/.exec(text)?.[1]);
  if (shape >= 0.01 && shape <= 1_000) return { process: "gamma", shape };
  throw usageError(`--arrivals ${text}: poisson, uniform, gamma:<shape from 0.01 to 1000>, or trace:<file>`);
}

function planOf({ rate, rates, findGoodput }: BenchCommandOptions, { ownRate }: Load): Plan {
  if (rates !== undefined && (rate !== undefined || findGoodput === true))
    throw usageError("--rates says it all: leave out --rate and --find-goodput");
  const wanted = "requests per second, such as 200";
  const one = rate === undefined ? undefined : amount("--rate", rate, wanted);
  if (findGoodput === true) return { kind: "goodput", first: one ?? (ownRate > 0 ? ownRate : RATE_DEFAULT) };
  const list = rates?.split(",").map((part) => amount("--rates", part, wanted));
  if (list !== undefined && list.length > RATES_MAX) throw usageError(`--rates: at most ${RATES_MAX}`);
  return { kind: "rates", rates: list ?? [one ?? (ownRate > 0 ? 0 : RATE_DEFAULT)] };
}

/** Expected number of trials of a search, which has no fixed number. */
const SEARCH_EXPECTED = 8;
const trialsOf = (plan: Plan, done: number): number =>
  plan.kind === "rates" ? plan.rates.length : Math.max(SEARCH_EXPECTED, done + 1);

function destinationOf(mix: readonly MixEntry[], options: BenchCommandOptions): Promise<Destination> {
  const slo = options.slo === undefined ? undefined : sloOption(options.slo);
  const inputs = new Map((options.input ?? []).map(inputOf));
  const common = { mix, slo, inputs, seed: Number(options.seed) };
  if (options.http === undefined) return overNats(common, options);
  if (!/^https?:\/\//.test(options.http) || !URL.canParse(options.http))
    throw usageError(`--http ${options.http}: a URL, such as http://127.0.0.1:8000`);
  const connections = whole("--connections", options.connections, { min: 1, max: CONNECTIONS_MAX });
  return overHttp(common, { url: options.http, connections });
}

/** Parses `model=file`, or a file for all models. */
function inputOf(text: string): [string, string] {
  const [, model, file] = /^([\w-]+(?:\/[\w-]+)?)=(.+)$/.exec(text) ?? [];
  return model === undefined || file === undefined ? ["*", text] : [model, file];
}

function duration(flag: string, text: string, least: number): Micros {
  const value = Number(text);
  if (text.trim() !== "" && value >= least && value <= 1e6) return seconds(value);
  throw usageError(`${flag} ${text}: a number of seconds from ${least} to 1000000`);
}

/** Returns a function that gives this thread's utilization since its last call. */
function threadUse(): () => number {
  let last = performance.eventLoopUtilization();
  return () => {
    const now = performance.eventLoopUtilization();
    const { utilization } = performance.eventLoopUtilization(now, last);
    last = now;
    return utilization;
  };
}
