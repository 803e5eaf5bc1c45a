/** Converts the flags of commands that take a scenario file. */
import { type Scenario, policyNamed } from "@tutti/simulator";
import { parseDuration } from "@tutti/units";
import { usageError } from "@tutti/admin";
import type { Choice } from "./scenario-family.ts";
import { unfitPolicy } from "./scenario-planner.ts";
import { ScenarioFile, type ScenarioOptions, type ScenarioOverrides } from "./scenario-file.ts";

export interface ScenarioFlags {
  readonly rate?: string;
  readonly load?: string;
  readonly seed?: string;
  readonly gpus?: string;
  readonly duration?: string;
  readonly gather?: string;
  readonly prefer?: string;
  readonly set?: readonly string[];
}

/**
 * @param file - or its path
 * @param policy - replaces the file's policy
 * @throws {CommandError} for invalid flags, and for every error in the file
 */
export async function scenarioFrom(
  file: string | ScenarioFile,
  flags: ScenarioFlags,
  options: Pick<ScenarioOptions, "rateDefault"> & { readonly policy?: string | undefined } = {},
): Promise<Scenario> {
  const { policy, ...rest } = options;
  if (policy !== undefined) checkPolicy(policy);
  const overrides = { ...overridesOf(flags), ...(policy !== undefined && { policy }) };
  const read = typeof file === "string" ? await ScenarioFile.read(file) : file;
  const scenario = await read.scenario({ ...rest, overrides, choice: choiceOf(flags.set ?? []) });
  if (policy !== undefined) checkFit(scenario, policy);
  return scenario;
}

/** @throws {CommandError} the policy can't be combined with the scenario's planner, sub-clusters or noise */
export function checkFit(scenario: Scenario, policy: string): void {
  const text = unfitPolicy(scenario, policy);
  if (text !== undefined) throw usageError(text);
}

function overridesOf({ rate, load, seed, gpus, duration, gather, prefer }: ScenarioFlags): ScenarioOverrides {
  if (gather !== undefined && gather !== "target" && gather !== "head") {
    throw usageError(`--gather ${gather}: target or head`);
  }
  if (prefer !== undefined && prefer !== "latency" && prefer !== "accelerators") {
    throw usageError(`--prefer ${prefer}: latency or accelerators`);
  }
  if (rate !== undefined && load !== undefined) throw usageError("--load and --rate: give one of the two");
  return {
    ...(rate !== undefined && { rate: amount("--rate", rate, "requests per second, such as 5000") }),
    ...(load !== undefined && { load: amount("--load", load, "work relative to all accelerators, such as 1.3") }),
    ...(seed !== undefined && { seed: whole("--seed", seed, { min: 0, max: 0xffff_ffff }) }),
    ...(gpus !== undefined && { gpus: whole("--gpus", gpus, { min: 1, max: 16_384 }) }),
    ...(duration !== undefined && { durationS: secondsOf(duration) }),
    ...(gather !== undefined && { gather }),
    ...(prefer !== undefined && { prefer }),
  };
}

export function choiceOf(settings: readonly string[]): Choice {
  const pairs = settings.map((setting): [string, string] => {
    const [, axis, value] = /^([^=]+)=(.*)$/.exec(setting) ?? [];
    if (axis === undefined || value === undefined) throw usageError(`--set ${setting}: write --set axis=value`);
    return [axis, value];
  });
  return Object.fromEntries(pairs);
}

/** @throws {CommandError} that lists the policies */
export function checkPolicy(policy: string): void {
  try {
    policyNamed(policy);
  } catch (error) {
    throw usageError((error as Error).message);
  }
}

export function amount(flag: string, text: string, what: string): number {
  const value = Number(text);
  if (text.trim() !== "" && value > 0 && value < 1e9) return value;
  throw usageError(`${flag} ${text}: ${what}, above 0 and below 1e9`);
}

export function whole(flag: string, text: string, { min, max }: { min: number; max: number }): number {
  const value = Number(text);
  if (text.trim() !== "" && Number.isInteger(value) && value >= min && value <= max) return value;
  throw usageError(`${flag} ${text}: a whole number from ${min} to ${max}`);
}

/** Parses a duration. A bare number is in seconds, as in scenario files; a unit overrides that. */
function secondsOf(text: string): number {
  const duration = /^[\d.]+$/.test(text) ? undefined : parseDuration(text);
  const value = duration === undefined ? Number(text) : duration / 1e6;
  if (value > 0 && value <= 1e6) return value;
  throw usageError(`--duration ${text}: seconds, such as 20`);
}
