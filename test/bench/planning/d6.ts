/**
 * The nine models of docs/algorithms.md, D6, and gpulet's scenarios over them. In a scenario every model has 0, 100 or
 * 200 requests per second.
 */
import type { FractionModel, Stream } from "@tutti/planning";
import { D6_BATCH_MAX as BATCH_MAX, D6_PROFILES, d6Model } from "@tutti/planning/testing";

const MODELS = D6_PROFILES.map((_, id) => [d6Model(id, 100), d6Model(id, 200)] as const);

/** Number of scenarios, without the one that has no requests. */
export const SCENARIOS = 3 ** D6_PROFILES.length - 1;

/** @param number - 1 … SCENARIOS: a counter to base 3, a digit for each model */
export function scenario(number: number): FractionModel[] {
  const models: FractionModel[] = [];
  for (let [i, rest] = [0, number]; rest > 0; i++, rest = Math.floor(rest / 3)) {
    const digit = rest % 3;
    if (digit > 0) models.push(MODELS[i]![digit - 1]!);
  }
  return models;
}

const SIZES_ALL = Array.from({ length: BATCH_MAX }, (_, i) => i + 1);

/** The same models as C's streams, on executors that aren't split, or on halves of them. */
export const streamsOf = (models: readonly FractionModel[], size: number): Stream[] =>
  models.map(({ id, slo, rate, latency }) => ({
    ...{ id, slo, rate },
    latency: { batchSizes: SIZES_ALL, latency: (b) => (b > BATCH_MAX ? Infinity : latency(b, size)) },
  }));
