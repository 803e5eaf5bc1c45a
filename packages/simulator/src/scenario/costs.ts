/** Costs of late answers, in steps (docs/algorithms.md, B8), as a scenario says them and as the judge counts them. */
import type { CostStep } from "@tutti/dynamic";
import type { Instant, Micros } from "@tutti/units";
import type { ScenarioModel } from "./scenario.ts";
import type { SimRequest } from "../cluster/simulated-cluster.ts";

/**
 * Total cost of an answer that comes later than so many SLOs of its request. The first step is at 1, the SLO itself.
 */
export interface CostRule {
  readonly slos: number;
  readonly cost: number;
}

/** The steps of one request. */
export const stepsOf = (rules: readonly CostRule[], arrivedAt: Instant, slo: Micros): readonly CostStep[] =>
  rules.map(({ slos, cost }) => ({ deadline: (arrivedAt + Math.round(slos * slo)) as Instant, cost }));

/**
 * Cost of a request. @param answeredAt - Infinity: it was refused. Without steps, an answer after the deadline costs 1
 */
export function costOf({ steps, deadline }: Pick<SimRequest, "steps" | "deadline">, answeredAt: number): number {
  if (steps === undefined) return answeredAt > deadline ? 1 : 0;
  let cost = 0;
  for (const step of steps) {
    if (answeredAt <= step.deadline) break;
    cost = step.cost;
  }
  return cost;
}

/** Whether some requests of the model have costs in steps. */
export const hasCosts = ({ costs, classes, dynamic }: Pick<ScenarioModel, "costs" | "classes" | "dynamic">): boolean =>
  [{ costs }, ...classes, ...(dynamic?.apps ?? [])].some((one) => one.costs !== undefined);
