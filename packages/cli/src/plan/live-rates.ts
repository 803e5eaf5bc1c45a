/**
 * `tutti plan fractions --live`: what a cluster's planner and registry say of models, in place of what an input says.
 * Pure.
 */
import { WHOLE } from "@tutti/planning";
import type { FractionsInput } from "./fractions-input.ts";
import type { FractionsResult } from "./fractions-plan.ts";
import { figure, listed } from "./plan-text.ts";

export interface ServedModel {
  readonly name: string;
  /** Requests per second. */
  readonly rate: number;
  readonly sloMs: number;
}

/** Public field names: docs/planning.md. */
export interface LiveRates {
  /** Seconds since the planner told its rates. */
  readonly seenS: number;
  /** Served, and not in the input: nothing is known of their latencies on parts, so nothing is planned for them. */
  readonly unplanned: readonly { readonly model: string; readonly rate: number }[];
}

/** Models of the input that nobody serves are asked for by nobody. */
export function withLiveRates(
  input: FractionsInput,
  served: readonly ServedModel[],
  seenS: number,
): { readonly input: FractionsInput; readonly live: LiveRates } {
  const byName = new Map(served.map((model) => [model.name, model]));
  const planned = new Set(input.names);
  const models = input.models.map((model) => {
    const { rate = 0, sloMs = model.slo } = byName.get(input.names[model.id]!) ?? {};
    return { ...model, rate: rate / 1_000, slo: sloMs };
  });
  const unplanned = served.filter(({ name, rate }) => rate > 0 && !planned.has(name));
  return {
    input: { ...input, models },
    live: { seenS, unplanned: unplanned.map(({ name, rate }) => ({ model: name, rate })) },
  };
}

/** What is said below the plan. */
export function liveText({ seenS, unplanned }: LiveRates, { feasible, executors }: FractionsResult): string {
  const orders = executors.flatMap(({ executor, parts }) =>
    parts.length > 1 ? [`tutti split executor-${executor} ${parts[0]!.size}`] : [],
  );
  const whole = executors.filter(({ parts }) => parts.length === 1 && parts[0]!.size === WHOLE).length;
  const lines = [`Rates and SLOs as the cluster's planner told them ${figure(seenS)} s ago.`];
  if (unplanned.length > 0) {
    const others = listed(unplanned.map(({ model, rate }) => `${model} (${figure(rate)} r/s)`));
    lines.push(`Not in the input, so nothing is planned for ${others}.`);
  }
  if (feasible && orders.length > 0) {
    const rest = whole > 0 ? `, and ${whole} whole` : "";
    lines.push(`To have such parts${rest}: ${orders.map((order) => `\`${order}\``).join(", ")}.`);
  }
  return lines.join("\n");
}
