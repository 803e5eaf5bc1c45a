import { type Scenario, subClusterChoice } from "@tutti/simulator";
import { usageError } from "@tutti/admin";
import {
  type Headroom,
  type SearchOptions,
  findGoodput,
  findHeadroom,
  findMinGpus,
} from "../simulate/goodput-search.ts";
import { renderGoodput, renderMinGpus } from "../simulate/goodput-text.ts";
import { Progress } from "../simulate/progress.ts";
import { type ScenarioFile, type ScenarioFlags, scenarioFrom, whole } from "@tutti/sim-report/scenarios";
import { type ModelFlags, modelScenario } from "../scenario/model-scenario.ts";
import { Sweep } from "../simulate/sweep.ts";

export interface GoodputCommandOptions extends ScenarioFlags, ModelFlags {
  readonly policy?: string;
  readonly seeds: string;
  readonly precision?: string;
  readonly minGpus?: boolean;
  readonly workers?: string;
  readonly json?: boolean;
}

/**
 * `tutti goodput`: finds the highest rate at which every model keeps its SLO, or the fewest accelerators for a rate. Of
 * a scenario file, or of one model.
 */
export async function goodput(path: string | undefined, options: GoodputCommandOptions): Promise<void> {
  const inverse = options.minGpus === true;
  if (inverse && options.gpus !== undefined)
    throw usageError("--gpus is what --min-gpus looks for: leave one of them out");
  if (!inverse && options.rate !== undefined) {
    throw usageError("--rate goes with --min-gpus: without that the rate is what is looked for");
  }
  if (inverse && options.precision !== undefined)
    throw usageError("--precision is of rates: with --min-gpus it is accelerators that are looked for");
  const seeds = whole("--seeds", options.seeds, { min: 1, max: 1000 });
  const precision = precisionOf(options.precision ?? "1");
  const workers = options.workers === undefined ? undefined : whole("--workers", options.workers, { min: 1, max: 512 });
  // The value that is searched for may be missing from the file.
  const given = await scenarioFrom(await sourceOf(path, options), options, {
    policy: options.policy,
    ...(!inverse && { rateDefault: 1 }),
  });
  if (inverse && given.types !== undefined)
    throw usageError("--min-gpus is for accelerators that are alike: which of the types are to be fewer?");
  const scenarios = Array.from({ length: seeds }, (_, i): Scenario => ({ ...given, seed: given.seed + i }));
  const sweep = new Sweep({ ...(workers !== undefined && { workers }) });
  const progress = new Progress();
  try {
    const how = { sweep, progress, short: options.duration !== undefined, precision };
    if (inverse) {
      const result = await findMinGpus(scenarios, how);
      const headroom = await headroomOf(scenarios, result.found.minGpus, how);
      progress.end();
      const found = { ...result.found, headroom };
      print(options.json === true ? JSON.stringify(found) : renderMinGpus(given, result, headroom));
    } else {
      const result = await findGoodput(scenarios, { ...how, nonPreemptive: true });
      progress.end();
      const subClusters = subClusterChoice(given);
      const found = { ...result.found, ...(subClusters !== undefined && { subClusters }) };
      print(options.json === true ? JSON.stringify(found) : renderGoodput(given, result));
    }
  } finally {
    progress.end();
    await sweep.close();
  }
}

function sourceOf(path: string | undefined, options: GoodputCommandOptions): string | Promise<ScenarioFile> {
  const { model, slo, profile, gpus, minGpus } = options;
  if ((path === undefined) === (model === undefined))
    throw usageError(
      path === undefined ? "name a scenario file, or a model with --model" : "--model needs no scenario file",
    );
  if (model === undefined) {
    if (slo !== undefined || profile !== undefined) throw usageError("--slo and --profile go with --model");
    return path!;
  }
  if (profile !== undefined && minGpus !== true && gpus === undefined)
    throw usageError("of how many accelerators? Give --gpus, or look for them with --min-gpus");
  return modelScenario(model, options);
}

/**
 * Empty where no number of accelerators is enough, and of a recording: above its rate soon too little of it is left.
 */
async function headroomOf(
  scenarios: readonly Scenario[],
  gpus: number | undefined,
  how: SearchOptions,
): Promise<Headroom[]> {
  if (gpus === undefined || scenarios[0]!.arrivals.process === "trace") return [];
  return findHeadroom(scenarios, gpus, how);
}

/** Parses a percentage into a share of 1. */
function precisionOf(text: string): number {
  const percent = Number(text);
  if (text.trim() !== "" && percent >= 0.01 && percent <= 50) return percent / 100;
  throw usageError(`--precision ${text}: percent, from 0.01 to 50, such as 0.2`);
}

const print = (text: string): void => void process.stdout.write(`${text}\n`);
