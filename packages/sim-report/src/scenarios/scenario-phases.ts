/** Reads `phases` of a scenario file: changes of the workload over time, there or in a file of rates. */
import { readFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import type { Phase } from "@tutti/simulator";
import { type Micros, seconds } from "@tutti/units";
import type { Problem } from "./located-yaml.ts";
import { type RateStep, parseRates, totalOf } from "./rate-file.ts";
import { type Popularity, type Stream, sharesOf } from "./scenario-models.ts";

export interface PhaseEntry {
  readonly fromS: number;
  readonly factor?: number;
  readonly popularity?: Popularity;
}

type Phases = readonly PhaseEntry[] | { readonly file: string };
const isFile = (phases: Phases): phases is { readonly file: string } => "file" in phases;

/** Reads a file of rates; undefined: there is none, or it is invalid, and the problem is reported. */
export async function readRateSteps(
  phases: Phases = [],
  origin: string,
  streams: readonly Stream[],
  problems: Problem[],
): Promise<readonly RateStep[] | undefined> {
  if (!isFile(phases)) return undefined;
  const file = join(dirname(origin), phases.file);
  const names = streams.map(({ model }) => model.name);
  try {
    return parseRates(await readFile(file, "utf8"), file, names);
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    const text = code === undefined ? message : `${file} can't be read (${code}); give a path relative to this file`;
    problems.push({ path: ["phases", "file"], text });
    return undefined;
  }
}

/** @param mean - mean rate of the steps; it corresponds to the scenario's rate, so another rate scales all steps */
export function phasesOfSteps(steps: readonly RateStep[], mean: number): readonly Phase[] {
  return steps.map(({ fromS, rates }, i): Phase => {
    const total = totalOf(rates);
    const from = i === 0 ? (0 as Micros) : seconds(fromS);
    const shares = rates.map((rate) => (total > 0 ? rate / total : 1 / rates.length));
    return { from, factor: mean > 0 ? total / mean : 0, shares };
  });
}

export function phasesOf(
  { phases = [] }: { readonly phases?: Phases },
  streams: readonly Stream[],
  duration: Micros,
  problems: Problem[],
): readonly Phase[] {
  if (isFile(phases)) return [];
  return phases.map(({ fromS, factor = 1, popularity }, i) => {
    const path = ["phases", i, "fromS"];
    if (i > 0 && fromS <= phases[i - 1]!.fromS) {
      problems.push({ path, text: `${fromS} s isn't after the phase before; put phases in order of time` });
    }
    // With a shorter --duration, later phases are never reached.
    if (i === 0 && seconds(fromS) >= duration) {
      problems.push({ path, text: `the scenario ends at ${duration / 1e6} s, before its first phase` });
    }
    const from = seconds(fromS);
    if (popularity === undefined) return { from, factor };
    return { from, factor, shares: sharesOf(popularity, streams, ["phases", i, "popularity"], problems) };
  });
}
