/**
 * Reads scenario files (YAML) into the simulator's `Scenario`. They are checked against scenario.schema.json, then for
 * consistency. docs/simulator.md is the reference of the format.
 */
import { dirname, join } from "node:path";
import {
  type Arrivals,
  type Scenario,
  type ScenarioModel,
  policyNamed,
  rateOfLoad,
  recordedRate,
  recordedTime,
} from "@tutti/simulator";
import { type Micros, micros, millis, seconds } from "@tutti/units";
import { CommandError } from "@tutti/admin";
import { FamilyFile, type FileKind } from "./family-file.ts";
import type { Problem } from "./located-yaml.ts";
import type { Axis, Choice } from "./scenario-family.ts";
import {
  type ModelEntry,
  type Popularity,
  type Stream,
  type ZooEntry,
  readStreams,
  sharesOf,
} from "./scenario-models.ts";
import { type PipelineEntry, checkBesidePipelines, modelsBeside, pipelinesOf } from "./scenario-pipelines.ts";
import { type JobEntry, jobsOf } from "./scenario-jobs.ts";
import { type ProfilesEntry, learnedOf } from "./scenario-learned.ts";
import { type NoiseEntry, noiseOf } from "./scenario-noise.ts";
import { type PhaseEntry, phasesOf, phasesOfSteps, readRateSteps } from "./scenario-phases.ts";
import { type TypeEntry, typesOf } from "./scenario-types.ts";
import { type PlannerEntry, plannerOf, subClustersOf, unfitPolicy } from "./scenario-planner.ts";
import { meanRate } from "./rate-file.ts";
import { checkAgainstSchema } from "./scenario-schema.ts";
import { readTrace } from "./trace-file.ts";

/** Values from the command line that override the file. */
export interface ScenarioOverrides {
  readonly seed?: number;
  readonly durationS?: number;
  readonly gpus?: number;
  readonly policy?: string;
  readonly gather?: "target" | "head";
  readonly prefer?: NonNullable<Scenario["prefer"]>;
  readonly rate?: number;
  readonly load?: number;
}

/** The defaults that the schema declares; `scenario-file.test.ts` compares the two. */
export const SCENARIO_DEFAULTS = {
  seed: 1,
  durationS: 20,
  warmupS: 1,
  policy: "default",
  gather: "target",
  arrivals: { process: "poisson" },
} as const;
/** Default of `everyMs` for modulated arrivals, as in the schema. */
const EVERY_MS = 500;
/** The processes that each key of `arrivals` belongs to. */
const ARRIVAL_KEYS: Readonly<Record<"shape" | "everyMs" | "file", readonly Arrivals["process"][]>> = {
  shape: ["gamma", "modulated"],
  everyMs: ["modulated"],
  file: ["trace"],
};

/** A file after the schema check. */
interface ScenarioDocument {
  readonly seed?: number;
  readonly durationS?: number;
  readonly warmupS?: number;
  readonly gpus?: number;
  readonly gpusPerModel?: number;
  readonly types?: readonly TypeEntry[];
  readonly policy?: string;
  readonly gather?: "target" | "head";
  readonly prefer?: NonNullable<Scenario["prefer"]>;
  readonly rate?: number;
  readonly load?: number;
  readonly arrivals?: ArrivalsEntry;
  readonly popularity?: Popularity;
  readonly network?: Readonly<
    Record<"dArriveUs" | "gatherUs" | "dCtrlUs" | "dDataUs" | "dRespUs" | "jitter", number | undefined>
  >;
  readonly models: ZooEntry | readonly (ModelEntry | ZooEntry)[];
  readonly pipelines?: readonly PipelineEntry[];
  readonly phases?: readonly PhaseEntry[] | { readonly file: string };
  readonly noise?: NoiseEntry;
  readonly profiles?: ProfilesEntry;
  readonly planner?: PlannerEntry;
  readonly subClusters?: number;
  readonly subClustersMin?: number;
  readonly interference?: NonNullable<Scenario["interference"]>;
  readonly jobs?: readonly JobEntry[];
}

interface ArrivalsEntry {
  readonly process: Arrivals["process"];
  readonly shape?: number;
  readonly everyMs?: number;
  readonly file?: string;
}

const KIND: FileKind = {
  check: checkAgainstSchema,
  example: "a scenario file, such as test/bench/scenarios/two-slo-classes.yaml",
  advice: "a scenario is a map of keys: write gpus, rate and models",
};

/** A file with one scenario, or a family of scenarios. */
export class ScenarioFile {
  readonly axes: readonly Axis[];
  readonly #file: FamilyFile;

  private constructor(file: FamilyFile) {
    this.#file = file;
    this.axes = file.axes;
  }

  /** @throws {CommandError} there is no such file, or it is no YAML */
  static async read(path: string): Promise<ScenarioFile> {
    return new ScenarioFile(await FamilyFile.read(path, KIND));
  }

  static of(text: string, origin: string): ScenarioFile {
    return new ScenarioFile(FamilyFile.of(text, origin, KIND));
  }

  /**
   * @param choice - a label for each axis
   * @throws {CommandError} naming file, line and column of every error, and saying what to write instead
   */
  async scenario({ overrides = {}, choice = {}, rateDefault }: ScenarioOptions = {}): Promise<Scenario> {
    const document = this.#file.document(choice) as ScenarioDocument;
    return this.#assemble({ ...(rateDefault !== undefined && { rate: rateDefault }), ...document }, overrides);
  }

  async #assemble(document: ScenarioDocument, overrides: ScenarioOverrides): Promise<Scenario> {
    const problems: Problem[] = [];
    const { pipelines: entries } = document;
    const described = entries === undefined ? document.models : modelsBeside(entries, document.models);
    const streams = await readStreams(described, this.#file.origin, problems);
    const unshared = entries && pipelinesOf(entries, streams, problems);
    const shares = popularityOf(document, streams, problems);
    const pipelines = unshared?.map((pipeline, i) => ({ ...pipeline, share: shares[streams.length + i]! }));
    const arrivals = await this.#arrivals(document, problems);
    checkTraceModels(
      arrivals,
      [...streams.map(({ model }) => model.name), ...(entries ?? []).map(({ name }) => name)],
      problems,
    );
    this.#file.giveUpOn(problems);
    const steps = await readRateSteps(document.phases, this.#file.origin, streams, problems);
    this.#file.giveUpOn(problems);
    const models = streams.map(({ model }, i) => ({ ...model, share: shares[i]! }));
    const types = typesOf(document, overrides, problems);
    const gpus =
      types?.reduce((sum, one) => sum + one.gpus, 0) ?? gpusOf(document, overrides, streams.length, problems);
    const given = overrides.durationS ?? document.durationS ?? SCENARIO_DEFAULTS.durationS;
    const stepsMean = steps && meanRate(steps, given);
    const rate = rateOf({ document, overrides, arrivals, models, gpus, stepsMean }, problems);
    const duration = durationOf(document, overrides, arrivals, rate);
    const warmup = seconds(document.warmupS ?? SCENARIO_DEFAULTS.warmupS);
    const text = warmupFault(warmup, { duration, arrivals, rate });
    if (text !== undefined) problems.push({ path: ["warmupS"], text });
    const prefer = overrides.prefer ?? document.prefer;
    const planner = plannerOf(document, { gpus, duration }, problems);
    const scenario: Scenario = {
      seed: overrides.seed ?? document.seed ?? SCENARIO_DEFAULTS.seed,
      duration,
      warmup,
      gpus,
      ...(types !== undefined && { types }),
      policy: overrides.policy ?? document.policy ?? SCENARIO_DEFAULTS.policy,
      gather: overrides.gather ?? document.gather ?? SCENARIO_DEFAULTS.gather,
      ...(prefer !== undefined && { prefer }),
      rate,
      arrivals,
      network: networkOf(document),
      ...(await noiseOf(document.noise, this.#file.origin, problems)),
      ...learnedOf(document, models, problems),
      models,
      phases: steps === undefined ? phasesOf(document, streams, duration, problems) : phasesOfSteps(steps, stepsMean!),
      ...(pipelines !== undefined && { pipelines }),
      ...planner,
      ...(document.interference !== undefined && { interference: document.interference }),
      ...jobsOf(document, problems),
      ...subClustersOf(document, { gpus, models, ...planner }, problems),
    };
    checkBesidePipelines({ ...document }, scenario, problems);
    if (overrides.policy === undefined) checkPolicy(scenario, problems);
    this.#file.giveUpOn(problems);
    return scenario;
  }

  async #arrivals({ arrivals = SCENARIO_DEFAULTS.arrivals }: ScenarioDocument, problems: Problem[]): Promise<Arrivals> {
    const entry: ArrivalsEntry = arrivals;
    const { process } = entry;
    for (const [key, owners] of Object.entries(ARRIVAL_KEYS)) {
      if (entry[key as keyof ArrivalsEntry] === undefined || owners.includes(process)) continue;
      problems.push({ path: ["arrivals", key], text: `belongs to process: ${owners.join(" or ")}, not to ${process}` });
    }
    const { shape, file } = entry;
    const missing = (key: string, example: string): Arrivals => {
      problems.push({ path: ["arrivals"], text: `"${key}" is missing; write ${example}` });
      return { process: "poisson" };
    };
    switch (process) {
      case "gamma":
        return shape === undefined ? missing("shape", "{ process: gamma, shape: 0.1 }") : { process, shape };
      case "modulated":
        if (shape === undefined) return missing("shape", "{ process: modulated, shape: 4, everyMs: 500 }");
        return { process, shape, every: millis(entry.everyMs ?? EVERY_MS) };
      case "trace":
        if (file === undefined) return missing("file", "{ process: trace, file: trace.jsonl }");
        return { process, entries: await this.#trace(file, problems) };
      default:
        return { process };
    }
  }

  async #trace(file: string, problems: Problem[]): ReturnType<typeof readTrace> {
    try {
      return await readTrace(join(dirname(this.#file.origin), file));
    } catch (error) {
      if (!(error instanceof CommandError)) throw error;
      problems.push({ path: ["arrivals", "file"], text: error.message });
      return [];
    }
  }
}

export interface ScenarioOptions {
  /** Rate if neither the file nor the command line has one: for commands that search for a rate. */
  readonly rateDefault?: number;
  readonly overrides?: ScenarioOverrides;
  readonly choice?: Choice;
}

/** Reads one scenario of a file. @throws {CommandError} as `ScenarioFile.scenario` */
export async function readScenario(path: string, options: ScenarioOptions = {}): Promise<Scenario> {
  return (await ScenarioFile.read(path)).scenario(options);
}

/** Shares of the models, followed by those of the pipelines. */
function popularityOf(document: ScenarioDocument, streams: readonly Stream[], problems: Problem[]): readonly number[] {
  if (document.pipelines !== undefined) {
    const weights = [...streams, ...document.pipelines].map(({ weight = 1 }) => weight);
    const total = weights.reduce((sum, weight) => sum + weight, 0);
    if (total === 0)
      problems.push({ path: ["pipelines"], text: "every weight is 0; give one pipeline a weight above 0" });
    return weights.map((weight) => weight / total);
  }
  const weighted = streams.find(({ weight }) => weight !== 1);
  const popularity = document.popularity ?? (weighted === undefined ? "equal" : "weights");
  if (weighted !== undefined && popularity !== "weights") {
    const path = [...weighted.path, "weight"];
    problems.push({ path, text: "weights count only with popularity: weights; remove one of the two" });
  }
  return sharesOf(popularity, streams, ["popularity"], problems);
}

function checkTraceModels(arrivals: Arrivals, targets: readonly string[], problems: Problem[]): void {
  if (arrivals.process !== "trace" || targets.length === 0) return;
  const known = new Set(targets);
  const unknown = arrivals.entries.find(({ model }) => !known.has(model))?.model;
  if (unknown === undefined) return;
  const text = `it has requests for "${unknown}"; describe that model, or take its requests out of the trace`;
  problems.push({ path: ["arrivals", "file"], text });
}

interface RateQuestion {
  readonly document: ScenarioDocument;
  readonly overrides: ScenarioOverrides;
  readonly arrivals: Arrivals;
  readonly models: readonly ScenarioModel[];
  readonly gpus: number;
  /** Mean rate of a file of rates; undefined: there is no such file. */
  readonly stepsMean: number | undefined;
}

function rateOf(question: RateQuestion, problems: Problem[]): number {
  const { document, overrides, arrivals, models, gpus, stepsMean } = question;
  const { load } = overrides.load === undefined ? document : overrides;
  if (document.load !== undefined && document.rate !== undefined)
    problems.push({ path: ["load"], text: "give either rate or load" });
  if (overrides.load !== undefined && document.pipelines !== undefined)
    problems.push({ path: ["pipelines"], text: "--load is of models alone; with pipelines give --rate" });
  const rate = overrides.rate ?? (overrides.load === undefined ? document.rate : undefined);
  if (rate !== undefined) return rate;
  if (load !== undefined) return models.length > 0 ? rateOfLoad(load, models, gpus) : 1;
  if (arrivals.process === "trace") return recordedRate(arrivals.entries);
  if (stepsMean !== undefined) return stepsMean;
  problems.push({ path: [], text: `"rate" is missing; give requests per second here or with --rate` });
  return 1;
}

/** A trace ends with its last request, unless a duration is given. */
function durationOf(
  document: ScenarioDocument,
  overrides: ScenarioOverrides,
  arrivals: Arrivals,
  rate: number,
): Micros {
  const given = overrides.durationS ?? document.durationS;
  if (given !== undefined) return seconds(given);
  if (arrivals.process !== "trace") return seconds(SCENARIO_DEFAULTS.durationS);
  return micros(Math.ceil(recordedTime(arrivals.entries, rate)) + 1);
}

/** @returns why the warm-up leaves nothing to count */
function warmupFault(
  warmup: Micros,
  { duration, arrivals, rate }: Pick<Scenario, "duration" | "arrivals" | "rate">,
): string | undefined {
  const recorded = arrivals.process === "trace" ? recordedTime(arrivals.entries, rate) : Infinity;
  if (recorded < duration && warmup > recorded) {
    const lasts = `the recording lasts ${Number((recorded / 1e6).toPrecision(3))} s at ${Number(rate.toPrecision(4))} r/s`;
    return `${lasts}, less than the warm-up of ${warmup / 1e6} s; shorten that, or record for longer`;
  }
  if (warmup < duration) return undefined;
  return `the warm-up of ${warmup / 1e6} s leaves nothing of ${duration / 1e6} s to count; shorten it, or give a longer durationS`;
}

function gpusOf(document: ScenarioDocument, overrides: ScenarioOverrides, models: number, problems: Problem[]): number {
  const { gpus, gpusPerModel } = document;
  if (gpus !== undefined && gpusPerModel !== undefined) {
    problems.push({ path: ["gpusPerModel"], text: "give either gpus or gpusPerModel" });
  }
  if (overrides.gpus !== undefined) return overrides.gpus;
  if (gpus !== undefined) return gpus;
  if (gpusPerModel !== undefined) return Math.max(1, Math.round(gpusPerModel * models));
  problems.push({ path: [], text: `"gpus" is missing; give the number of accelerators here or with --gpus` });
  return 1;
}

function networkOf({ network }: ScenarioDocument): Scenario["network"] {
  const delay = (us: number | undefined): Micros => micros(Math.ceil(us ?? 0));
  return {
    ...(network?.dArriveUs !== undefined && { arrive: delay(network.dArriveUs) }),
    ...(network?.gatherUs !== undefined && { gather: delay(network.gatherUs) }),
    ctrl: delay(network?.dCtrlUs),
    data: delay(network?.dDataUs),
    respond: delay(network?.dRespUs),
    jitter: network?.jitter ?? 0,
  };
}

function checkPolicy(scenario: Scenario, problems: Problem[]): void {
  try {
    policyNamed(scenario.policy);
    const text = unfitPolicy(scenario, scenario.policy);
    if (text !== undefined) problems.push({ path: ["policy"], text });
  } catch (error) {
    problems.push({ path: ["policy"], text: (error as Error).message });
  }
}
