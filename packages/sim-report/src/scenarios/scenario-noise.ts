/** Reads `noise` of a scenario file. */
import { type Noise, type Scenario, type StallScope, isForNoise } from "@tutti/simulator";
import { micros } from "@tutti/units";
import { dirname, join } from "node:path";
import { CommandError } from "@tutti/admin";
import type { Problem } from "./located-yaml.ts";
import { readNoise } from "./noise-file.ts";

export interface NoiseEntry {
  readonly file?: string;
  /** Default: as recorded; machine for drawn standstills. */
  readonly scope?: StallScope;
  readonly stalls?: { readonly everyMs: number; readonly medianMs: number; readonly p99Ms: number };
  readonly slow?: { readonly share: number; readonly factor: number };
}

export async function noiseOf(
  entry: NoiseEntry | undefined,
  origin: string,
  problems: Problem[],
): Promise<Pick<Scenario, "noise">> {
  if (entry === undefined) return {};
  const { file, scope, stalls, slow } = entry;
  if (file !== undefined && (stalls !== undefined || slow !== undefined))
    problems.push({ path: ["noise", "file"], text: "give either a recording, or stalls and slow" });
  if (stalls !== undefined && stalls.p99Ms < stalls.medianMs)
    problems.push({
      path: ["noise", "stalls", "p99Ms"],
      text: `${stalls.p99Ms} is below the median of ${stalls.medianMs}`,
    });
  if (file !== undefined) return recorded(join(dirname(origin), file), scope, problems);
  const us = (ms: number) => micros(Math.max(1, Math.round(1_000 * ms)));
  const drawn = stalls && {
    ...{ kind: "drawn" as const, scope: scope ?? "machine", every: us(stalls.everyMs) },
    ...{ median: us(stalls.medianMs), p99: us(stalls.p99Ms) },
  };
  const noise: Noise = {
    stalls: drawn === undefined ? [] : [drawn],
    ...(slow !== undefined && { slow: { kind: "drawn" as const, ...slow } }),
  };
  return { noise };
}

async function recorded(
  path: string,
  scope: StallScope | undefined,
  problems: Problem[],
): Promise<Pick<Scenario, "noise">> {
  try {
    return { noise: await readNoise(path, scope) };
  } catch (error) {
    if (!(error instanceof CommandError)) throw error;
    problems.push({ path: ["noise", "file"], text: error.message });
    return {};
  }
}

/** The reason why a policy can't run a scenario with noise; undefined: it can. */
export function unfitForNoise({ noise, planner, pipelines }: Scenario, policy: string): string | undefined {
  if (noise === undefined) return undefined;
  if (planner !== undefined || pipelines !== undefined) return "noise doesn't go with a planner or pipelines yet";
  return isForNoise(policy) ? undefined : `'${policy}' runs without noise only`;
}
