/** Reads `noise` of a scenario file. */
import { type Noise, type Scenario, type StallScope, isForNoise } from "@tutti/simulator";
import { micros, seconds } from "@tutti/units";
import { dirname, join } from "node:path";
import { CommandError } from "@tutti/admin";
import type { Problem } from "./located-yaml.ts";
import { readNoise } from "./noise-file.ts";

export interface NoiseEntry {
  readonly file?: string;
  /** Default: as recorded; machine for drawn standstills. */
  readonly scope?: StallScope;
  readonly runsGoOn?: boolean;
  readonly stalls?: { readonly everyMs: number; readonly medianMs: number; readonly p99Ms: number };
  readonly slow?: { readonly share: number; readonly factor: number };
  readonly once?: readonly { readonly atS: number; readonly ms: number }[];
  readonly cold?: { readonly factor: number; readonly forS: number };
}

export async function noiseOf(
  entry: NoiseEntry | undefined,
  origin: string,
  problems: Problem[],
): Promise<Pick<Scenario, "noise">> {
  if (entry === undefined) return {};
  const { file, scope, runsGoOn, stalls, slow, once = [], cold } = entry;
  if (file !== undefined && (stalls !== undefined || slow !== undefined))
    problems.push({ path: ["noise", "file"], text: "give either a recording, or stalls and slow" });
  if (stalls !== undefined && stalls.p99Ms < stalls.medianMs)
    problems.push({
      path: ["noise", "stalls", "p99Ms"],
      text: `${stalls.p99Ms} is below the median of ${stalls.medianMs}`,
    });
  const us = (ms: number) => micros(Math.max(1, Math.round(1_000 * ms)));
  const drawn = stalls && {
    ...{ kind: "drawn" as const, scope: scope ?? "machine", every: us(stalls.everyMs) },
    ...{ median: us(stalls.medianMs), p99: us(stalls.p99Ms) },
  };
  const given = once.map(({ atS, ms }) => ({ at: seconds(atS), length: us(ms) }));
  const overlapping = given.findIndex(({ at }, i) => i > 0 && at < given[i - 1]!.at + given[i - 1]!.length);
  if (overlapping > 0)
    problems.push({ path: ["noise", "once", overlapping], text: "it begins before the one before has ended" });
  const base =
    file === undefined
      ? { stalls: drawn === undefined ? [] : [drawn] }
      : await recorded(join(dirname(origin), file), scope, problems);
  const noise: Noise = {
    ...base,
    ...(given.length > 0 && {
      stalls: [...base.stalls, { kind: "given" as const, scope: scope ?? "machine", stalls: given }],
    }),
    ...(slow !== undefined && { slow: { kind: "drawn" as const, ...slow } }),
    ...(runsGoOn !== undefined && { runsGoOn }),
    ...(cold !== undefined && { cold: { factor: cold.factor, until: seconds(cold.forS) } }),
  };
  return { noise };
}

async function recorded(path: string, scope: StallScope | undefined, problems: Problem[]): Promise<Noise> {
  try {
    return await readNoise(path, scope);
  } catch (error) {
    if (!(error instanceof CommandError)) throw error;
    problems.push({ path: ["noise", "file"], text: error.message });
    return { stalls: [] };
  }
}

/** The reason why a policy can't run a scenario with noise; undefined: it can. */
export function unfitForNoise({ noise, planner, pipelines }: Scenario, policy: string): string | undefined {
  if (noise === undefined) return undefined;
  if (planner !== undefined || pipelines !== undefined) return "noise doesn't go with a planner or pipelines yet";
  return isForNoise(policy) ? undefined : `'${policy}' runs without noise only`;
}
