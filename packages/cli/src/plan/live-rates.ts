/** `tutti plan fractions --live`: replaces an input's rates and SLOs by those of a running cluster. Pure. */
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
  /** Age of the planner's rates, in seconds. */
  readonly seenS: number;
  /** Served models that are not in the input: their latencies on parts are unknown, so they are not planned. */
  readonly unplanned: readonly { readonly model: string; readonly rate: number }[];
}

/** Sets the rates and SLOs of the input's models; a model that the cluster doesn't serve has rate 0. */
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

/** The text below the plan. */
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
