/** Models of a scenario that are variants of one, served as a family or separately (docs/algorithms.md, C7). */
import { sharedLatency } from "@tutti/planning";
import { LatencyTable } from "@tutti/profile";
import { type Micros, micros } from "@tutti/units";
import type { Problem, YamlPath } from "./located-yaml.ts";

/** The schema has checked this. */
export interface VariantsEntry {
  readonly count: number;
  /** Latency line of a variant's own part, after the common prefix. */
  readonly alphaMs: number;
  readonly betaMs: number;
  readonly served?: "together" | "apart";
}

interface Line {
  readonly alphaMs: number;
  readonly betaMs: number;
}

/** Reports keys that a model with variants can't have. */
export function hasVariantProblem(entry: object, path: YamlPath, problems: Problem[]): boolean {
  const before = problems.length;
  for (const key of ["latencyMs", "fills", "dynamic"]) {
    if (!(key in entry)) continue;
    const text = "doesn't go with variants, whose common prefix takes alphaMs and betaMs";
    problems.push({ path: [...path, key], at: "key", text });
  }
  return problems.length > before;
}

/** Latency of a variant served separately: prefix and own part, one after the other. */
export const aloneLine = (prefix: Line, { alphaMs, betaMs }: VariantsEntry): Line => ({
  alphaMs: prefix.alphaMs + alphaMs,
  betaMs: prefix.betaMs + betaMs,
});

/** Latency l(b) of a family with equal rates. The prefix runs over the batch, and each own part over its rows. */
export function togetherProfile(prefix: Line, variants: VariantsEntry, batchSizeMax: number): LatencyTable {
  const batchSizes = Array.from({ length: batchSizeMax }, (_, i) => i + 1);
  const lineOf = ({ alphaMs, betaMs }: Line) => ({ batchSizes, latency: (b: number) => 1000 * (alphaMs * b + betaMs) });
  const count = Array.from({ length: variants.count });
  const { latency } = sharedLatency({
    prefix: lineOf(prefix),
    suffixes: count.map(() => lineOf(variants)),
    rates: count.map(() => 1),
  });
  // A batch has at most as many variants as rows; for larger batches C7's bound is lower.
  const own = (b: number): number =>
    Math.min(latency(b), 1000 * (prefix.alphaMs * b + prefix.betaMs + b * (variants.alphaMs + variants.betaMs)));
  const points = batchSizes.map((batchSize): { batchSize: number; latency: Micros } => ({
    batchSize,
    latency: micros(Math.max(1, Math.ceil(own(batchSize)))),
  }));
  return LatencyTable.fromPoints(points);
}
