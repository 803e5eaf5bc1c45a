import type { TimelineRecording } from "@tutti/sim-report";
import { type Scenario, type SimulationResult, simulate } from "@tutti/simulator";
import { usageError } from "@tutti/admin";
import { findGoodput } from "../simulate/goodput-search.ts";
import { allOf } from "../simulate/listeners.ts";
import { checkOutput, typedCommand, writeOutput } from "../present/output-file.ts";
import { Progress } from "../simulate/progress.ts";
import { type ComparedRun, renderComparison, settingOf } from "../simulate/result-text.ts";
import { RunProgress } from "../simulate/run-progress.ts";
import { type ScenarioFlags, checkFit, checkPolicy, scenarioFrom } from "@tutti/sim-report/scenarios";
import { Sweep } from "../simulate/sweep.ts";

export interface CompareOptions extends ScenarioFlags {
  readonly policies: string;
  readonly goodput?: boolean;
  readonly parts?: boolean;
  readonly json?: boolean;
  readonly html?: string;
}

interface Run {
  readonly result: SimulationResult;
  readonly recording?: TimelineRecording;
}

const POLICIES_MAX = 64;

/** `tutti compare <scenario.yaml> --policies a,b,c`: the same arrivals under each policy. */
export async function compare(path: string | undefined, options: CompareOptions): Promise<void> {
  if (options.parts === true) throw usageError("--parts goes with --random");
  if (path === undefined) throw usageError("name a scenario file, or --random 50 for random mixes");
  const policies = [...new Set(options.policies.split(",").map((policy) => policy.trim()))];
  if (policies.length > POLICIES_MAX) throw usageError(`--policies: ${POLICIES_MAX} are the limit`);
  for (const policy of policies) checkPolicy(policy);
  const given = await scenarioFrom(path, options, { policy: policies[0] });
  for (const policy of policies) checkFit(given, policy);
  checkOutput(options.html);
  const scenarios = policies.map((policy): Scenario => ({ ...given, policy }));
  await using sweep = new Sweep();
  const runs = options.html === undefined ? await runOn(sweep, scenarios) : await runRecorded(scenarios);
  const goodputs = options.goodput === true ? await goodputsOf(sweep, scenarios, options) : [];
  const compared = rate(
    runs.map(({ result }, i) => ({
      ...{ policy: policies[i]!, result },
      ...(goodputs[i] !== undefined && { goodputRps: goodputs[i] }),
    })),
  );
  if (options.html !== undefined) {
    const { comparisonPage } = await import("@tutti/sim-report");
    const entries = compared.map((run, i) => ({ ...runs[i]!, ...run }));
    writeOutput(options.html, comparisonPage({ scenario: given, entries, source: typedCommand() }));
  }
  process.stdout.write(options.json === true ? asJson(compared) : asText(given, compared));
}

/** Runs all scenarios on all cores, with results in the order of `scenarios`. */
async function runOn(sweep: Sweep, scenarios: readonly Scenario[]): Promise<Run[]> {
  const progress = new Progress();
  const total = scenarios.length;
  progress.update({ done: 0, total, note: "" });
  try {
    return await sweep.runAll(scenarios, (done) => progress.update({ done, total, note: "" }));
  } finally {
    progress.end();
  }
}

/** Runs the scenarios one after the other on this thread, since pages record events during the run. */
async function runRecorded(scenarios: readonly Scenario[]): Promise<Run[]> {
  const { TimelineRecorder } = await import("@tutti/sim-report");
  return scenarios.map((scenario) => {
    const recorder = new TimelineRecorder(scenario);
    const progress = RunProgress.of(scenario);
    const listener = allOf([progress, recorder])!;
    const result = simulate(scenario, { listener });
    progress?.end();
    return { result, recording: recorder.recording() };
  });
}

async function goodputsOf(
  sweep: Sweep,
  scenarios: readonly Scenario[],
  { duration }: CompareOptions,
): Promise<number[]> {
  const progress = new Progress();
  const total = scenarios.length;
  let done = 0;
  const update = (policy: string): void => progress.update({ done, total, note: `goodput of ${policy}` });
  update("each");
  try {
    return await Promise.all(
      scenarios.map(async (scenario) => {
        const { found } = await findGoodput([scenario], { sweep, short: duration !== undefined });
        done++;
        update(scenario.policy);
        return found.goodputRps;
      }),
    );
  } finally {
    progress.end();
  }
}

function rate(runs: readonly Omit<ComparedRun, "ratioToBest">[]): ComparedRun[] {
  const valueOf = ({ goodputRps, result }: Omit<ComparedRun, "ratioToBest">): number => goodputRps ?? result.goodRps;
  const best = Math.max(...runs.map(valueOf));
  return runs.map((run) => ({ ...run, ratioToBest: best > 0 ? valueOf(run) / best : 1 }));
}

/** Each run as `tutti simulate --json` prints it, with the comparison. */
function asJson(runs: readonly ComparedRun[]): string {
  const list = runs.map(({ result, ratioToBest, goodputRps }) => ({
    ...result,
    ...(goodputRps !== undefined && { goodputRps }),
    ratioToBest,
  }));
  return `${JSON.stringify(list)}\n`;
}

const asText = (scenario: Scenario, runs: readonly ComparedRun[]): string =>
  `${settingOf(scenario)}, ${Math.round(runs[0]!.result.offeredRps).toLocaleString("en-US")} r/s offered\n\n${renderComparison(runs)}\n`;
