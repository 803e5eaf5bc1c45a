import {
  DecisionRecorder,
  type RunListener,
  type Scenario,
  StoryTeller,
  decisionHeader,
  simulate as runScenario,
} from "@tutti/simulator";
import { CommandError } from "@tutti/admin";
import { type ScenarioFlags, LineFile, scenarioFrom, whole } from "@tutti/sim-report/scenarios";
import { allOf } from "../simulate/listeners.ts";
import { checkOutput, typedCommand, writeOutput } from "../present/output-file.ts";
import { renderResult } from "../simulate/result-text.ts";
import { RunProgress } from "../simulate/run-progress.ts";

export interface SimulateOptions extends ScenarioFlags {
  readonly policy?: string;
  readonly json?: boolean;
  readonly log?: string;
  readonly explain?: string;
  readonly html?: string;
}

/** `tutti simulate <scenario.yaml>`: runs one scenario in the simulator. */
export async function simulate(path: string, options: SimulateOptions): Promise<void> {
  const asked = options.explain === undefined ? undefined : requestId(options.explain);
  const scenario = await scenarioFrom(path, options, { policy: options.policy });
  const teller = asked === undefined ? undefined : new StoryTeller(decisionHeader(scenario), asked);
  const log = options.log === undefined ? undefined : new LineFile(options.log);
  checkOutput(options.html);
  const page = options.html === undefined ? undefined : await pageOf(scenario);
  const progress = RunProgress.of(scenario);
  const listener = allOf([progress, page?.recorder, decisionListener(scenario, log, teller)]);
  const result = runScenario(scenario, listener === undefined ? {} : { listener });
  progress?.end();
  log?.close();
  if (options.html !== undefined && page !== undefined) writeOutput(options.html, page.render(result));
  if (teller === undefined) {
    process.stdout.write(`${options.json === true ? JSON.stringify(result) : renderResult(scenario, result)}\n`);
    return;
  }
  const { sentences } = teller;
  if (sentences.length === 0) {
    throw new CommandError(`no request ${asked} arrived; they are numbered from 1 in order of arrival`);
  }
  const story = options.json === true ? JSON.stringify({ request: asked, story: sentences }) : sentences.join("\n");
  process.stdout.write(`${story}\n`);
}

const requestId = (text: string): number => whole("--explain", text, { min: 1, max: Number.MAX_SAFE_INTEGER });

/** One recorder for the log and for the story: both receive the same decisions in the same order. */
function decisionListener(
  scenario: Scenario,
  log: LineFile | undefined,
  teller: StoryTeller | undefined,
): RunListener | undefined {
  log?.write(JSON.stringify(decisionHeader(scenario)));
  if (log === undefined && teller === undefined) return undefined;
  return new DecisionRecorder((decision) => {
    log?.write(JSON.stringify(decision));
    teller?.hear(decision);
  });
}

async function pageOf(scenario: Scenario) {
  // Load the plotting library only for a page.
  const { TimelineRecorder, simulationPage } = await import("@tutti/sim-report");
  const recorder = new TimelineRecorder(scenario);
  const render = (result: Parameters<typeof simulationPage>[0]["result"]): string =>
    simulationPage({ scenario, result, recording: recorder.recording(), source: typedCommand() });
  return { recorder, render };
}
