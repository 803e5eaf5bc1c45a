/**
 * Scenario files: YAML, checked against scenario.schema.json and then against itself, to the simulator's `Scenario`.
 * docs/simulator.md is the reference of the format.
 */
import { readFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { type Arrivals, type Phase, type Scenario, policyNamed, recordedRate } from "@tutti/simulator";
import { type Micros, micros, seconds } from "@tutti/units";
import { CommandError, usageError } from "../failure.ts";
import { LocatedYaml, type Problem } from "./located-yaml.ts";
import { type Axis, type Choice, axesOf, fillIn, resolveChoice } from "./scenario-family.ts";
import {
  type ModelEntry,
  type Popularity,
  type Stream,
  type ZooEntry,
  readStreams,
  sharesOf,
} from "./scenario-models.ts";
import { checkAgainstSchema } from "./scenario-schema.ts";
import { readTrace } from "./trace-file.ts";

/** What a command line says in place of the file. */
export interface ScenarioOverrides {
  readonly seed?: number;
  readonly durationS?: number;
  readonly gpus?: number;
  readonly policy?: string;
  readonly gather?: "target" | "head";
  readonly rate?: number;
}

/** The defaults that the schema declares; `scenario-file.test.ts` holds them together. */
export const SCENARIO_DEFAULTS = {
  seed: 1,
  durationS: 20,
  warmupS: 1,
  policy: "default",
  gather: "target",
  arrivals: { process: "poisson" },
} as const;

/** A file that the schema finds sound. */
interface ScenarioDocument {
  readonly seed?: number;
  readonly durationS?: number;
  readonly warmupS?: number;
  readonly gpus?: number;
  readonly gpusPerModel?: number;
  readonly policy?: string;
  readonly gather?: "target" | "head";
  readonly rate?: number;
  readonly arrivals?: { readonly process: Arrivals["process"]; readonly shape?: number; readonly file?: string };
  readonly popularity?: Popularity;
  readonly network?: Readonly<Record<"dArriveUs" | "dCtrlUs" | "dDataUs" | "dRespUs" | "jitter", number | undefined>>;
  readonly models: ZooEntry | readonly (ModelEntry | ZooEntry)[];
  readonly phases?: readonly { readonly fromS: number; readonly factor?: number; readonly popularity?: Popularity }[];
}

/** A file, or a family of scenarios in one file. */
export class ScenarioFile {
  readonly axes: readonly Axis[];
  readonly #yaml: LocatedYaml;

  private constructor(yaml: LocatedYaml, axes: readonly Axis[]) {
    this.#yaml = yaml;
    this.axes = axes;
  }

  /** @throws {CommandError} where there is no such file, or it is no YAML */
  static async read(path: string): Promise<ScenarioFile> {
    let text: string;
    try {
      text = await readFile(path, "utf8");
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException;
      const why = code === "ENOENT" ? "there is no such file" : code;
      throw usageError(
        `${path} can't be read (${why}); give a scenario file, such as test/bench/scenarios/two-slo-classes.yaml`,
      );
    }
    const yaml = new LocatedYaml(text, path);
    if (typeof yaml.value !== "object" || yaml.value === null || Array.isArray(yaml.value)) {
      throw yaml.failure([{ path: [], text: "a scenario is a map of keys: write gpus, rate and models" }]);
    }
    return new ScenarioFile(yaml, axesOf((yaml.value as Readonly<Record<string, unknown>>)["vary"]));
  }

  /**
   * @param choice - a label for each axis
   * @throws {CommandError} naming file, line and column of everything that is wrong, and saying what to write instead
   */
  async scenario({ overrides = {}, choice = {}, rateDefault }: ScenarioOptions = {}): Promise<Scenario> {
    const { origin, value } = this.#yaml;
    const problems: Problem[] = [];
    this.#giveUpOn(checkAgainstSchema(value).filter(({ path }) => path[0] === "vary"));
    const variables = resolveChoice(this.axes, choice, origin);
    const filled = fillIn(value, variables, problems);
    this.#giveUpOn(problems);
    this.#giveUpOn(checkAgainstSchema(filled));
    return this.#assemble(
      { ...(rateDefault !== undefined && { rate: rateDefault }), ...(filled as ScenarioDocument) },
      overrides,
    );
  }

  #giveUpOn(problems: readonly Problem[]): void {
    if (problems.length > 0) throw this.#yaml.failure(problems);
  }

  async #assemble(document: ScenarioDocument, overrides: ScenarioOverrides): Promise<Scenario> {
    const problems: Problem[] = [];
    const streams = await readStreams(document.models, this.#yaml.origin, problems);
    const shares = popularityOf(document, streams, problems);
    const arrivals = await this.#arrivals(document, problems);
    checkTraceModels(arrivals, streams, problems);
    this.#giveUpOn(problems);
    const rate = rateOf(document, overrides, arrivals, problems);
    const duration = durationOf(document, overrides, arrivals, rate);
    const warmup = seconds(document.warmupS ?? SCENARIO_DEFAULTS.warmupS);
    if (warmup >= duration) {
      const text = `the warm-up of ${warmup / 1e6} s leaves nothing of ${duration / 1e6} s to count; shorten it, or give a longer durationS`;
      problems.push({ path: ["warmupS"], text });
    }
    const scenario: Scenario = {
      seed: overrides.seed ?? document.seed ?? SCENARIO_DEFAULTS.seed,
      duration,
      warmup,
      gpus: gpusOf(document, overrides, streams.length, problems),
      policy: overrides.policy ?? document.policy ?? SCENARIO_DEFAULTS.policy,
      gather: overrides.gather ?? document.gather ?? SCENARIO_DEFAULTS.gather,
      rate,
      arrivals,
      network: networkOf(document),
      models: streams.map(({ model }, i) => ({ ...model, share: shares[i]! })),
      phases: phasesOf(document, streams, duration, problems),
    };
    if (overrides.policy === undefined) checkPolicy(scenario.policy, problems);
    this.#giveUpOn(problems);
    return scenario;
  }

  async #arrivals({ arrivals = SCENARIO_DEFAULTS.arrivals }: ScenarioDocument, problems: Problem[]): Promise<Arrivals> {
    const { process, shape, file }: NonNullable<ScenarioDocument["arrivals"]> = arrivals;
    const unfit =
      process === "gamma" ? file && "file" : process === "trace" ? shape && "shape" : shape ? "shape" : file && "file";
    if (unfit) {
      const owner = unfit === "shape" ? "gamma" : "trace";
      problems.push({ path: ["arrivals", String(unfit)], text: `belongs to process: ${owner}, not to ${process}` });
    }
    if (process === "gamma") {
      if (shape !== undefined) return { process, shape };
      problems.push({ path: ["arrivals"], text: `"shape" is missing; write { process: gamma, shape: 0.1 }` });
    } else if (process === "trace") {
      if (file !== undefined) return { process, entries: await this.#trace(file, problems) };
      problems.push({ path: ["arrivals"], text: `"file" is missing; write { process: trace, file: trace.jsonl }` });
    } else return { process };
    return { process: "poisson" };
  }

  async #trace(file: string, problems: Problem[]): ReturnType<typeof readTrace> {
    try {
      return await readTrace(join(dirname(this.#yaml.origin), file));
    } catch (error) {
      if (!(error instanceof CommandError)) throw error;
      problems.push({ path: ["arrivals", "file"], text: error.message });
      return [];
    }
  }
}

export interface ScenarioOptions {
  /** Where neither the file nor the command line names a rate: for commands that look for one. */
  readonly rateDefault?: number;
  readonly overrides?: ScenarioOverrides;
  readonly choice?: Choice;
}

/** One scenario of a file. @throws {CommandError} as `ScenarioFile.scenario` */
export async function readScenario(path: string, options: ScenarioOptions = {}): Promise<Scenario> {
  return (await ScenarioFile.read(path)).scenario(options);
}

function popularityOf(document: ScenarioDocument, streams: readonly Stream[], problems: Problem[]): readonly number[] {
  const weighted = streams.find(({ weight }) => weight !== 1);
  const popularity = document.popularity ?? (weighted === undefined ? "equal" : "weights");
  if (weighted !== undefined && popularity !== "weights") {
    const path = [...weighted.path, "weight"];
    problems.push({ path, text: "weights count only with popularity: weights; remove one of the two" });
  }
  return sharesOf(popularity, streams, ["popularity"], problems);
}

function checkTraceModels(arrivals: Arrivals, streams: readonly Stream[], problems: Problem[]): void {
  if (arrivals.process !== "trace" || streams.length === 0) return;
  const known = new Set(streams.map(({ model }) => model.name));
  const unknown = arrivals.entries.find(({ model }) => !known.has(model))?.model;
  if (unknown === undefined) return;
  const text = `it has requests for "${unknown}"; describe that model, or take its requests out of the trace`;
  problems.push({ path: ["arrivals", "file"], text });
}

function rateOf(
  document: ScenarioDocument,
  overrides: ScenarioOverrides,
  arrivals: Arrivals,
  problems: Problem[],
): number {
  const rate = overrides.rate ?? document.rate;
  if (rate !== undefined) return rate;
  if (arrivals.process === "trace") return recordedRate(arrivals.entries);
  problems.push({ path: [], text: `"rate" is missing; give requests per second here or with --rate` });
  return 1;
}

/** A trace ends with its last request, unless something says when. */
function durationOf(
  document: ScenarioDocument,
  overrides: ScenarioOverrides,
  arrivals: Arrivals,
  rate: number,
): Micros {
  const given = overrides.durationS ?? document.durationS;
  if (given !== undefined) return seconds(given);
  if (arrivals.process !== "trace") return seconds(SCENARIO_DEFAULTS.durationS);
  const stretch = rate > 0 ? recordedRate(arrivals.entries) / rate : 1;
  return micros(Math.ceil((arrivals.entries.at(-1)?.at ?? 0) * stretch) + 1);
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
    ctrl: delay(network?.dCtrlUs),
    data: delay(network?.dDataUs),
    respond: delay(network?.dRespUs),
    jitter: network?.jitter ?? 0,
  };
}

function phasesOf(
  { phases = [] }: ScenarioDocument,
  streams: readonly Stream[],
  duration: Micros,
  problems: Problem[],
): readonly Phase[] {
  return phases.map(({ fromS, factor = 1, popularity }, i) => {
    const path = ["phases", i, "fromS"];
    if (i > 0 && fromS <= phases[i - 1]!.fromS) {
      problems.push({ path, text: `${fromS} s isn't after the phase before; put phases in order of time` });
    }
    // With a shorter --duration, later phases just don't come.
    if (i === 0 && seconds(fromS) >= duration) {
      problems.push({ path, text: `the scenario ends at ${duration / 1e6} s, before its first phase` });
    }
    const from = seconds(fromS);
    if (popularity === undefined) return { from, factor };
    return { from, factor, shares: sharesOf(popularity, streams, ["phases", i, "popularity"], problems) };
  });
}

function checkPolicy(policy: string, problems: Problem[]): void {
  try {
    policyNamed(policy);
  } catch (error) {
    problems.push({ path: ["policy"], text: (error as Error).message });
  }
}
