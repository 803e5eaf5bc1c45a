/** Seeds with accelerators of two types in one pool: those of some executors take longer, and say how long. */
import { type Micros, Prng, micros } from "@tutti/units";
import type { ModelPlan, Plan } from "./plan.ts";

export interface Slow {
  readonly factor: number;
  /** By an executor's index, joiners included. */
  readonly executors: readonly boolean[];
}

/** Share of seeds with two types, of those that are neither calm nor struck. */
const SHARE = 0.2;
const EXECUTORS_MAX = 4;
/** With placements every type can serve every model, so that a model may be placed where any executor is. */
const FACTOR = { placed: 3, anywhere: 6 } as const;

/** A generator of its own, so that the rest of a seed means what it meant. */
export function withUnlikeExecutors(plan: Plan): Plan {
  const prng = new Prng(plan.seed * 2_999 + 37);
  // An emulated family says itself how long it takes.
  if (plan.calm || plan.struck || plan.hasFamily === true || prng.nextFloat() >= SHARE) return plan;
  const factorMax = plan.placings === undefined ? FACTOR.anywhere : FACTOR.placed;
  const factor = 1.2 + prng.nextFloat() * (factorMax - 1.2);
  return { ...plan, slow: { factor, executors: Array.from({ length: EXECUTORS_MAX }, () => prng.nextFloat() < 0.5) } };
}

/** How many times as long as planned an executor's accelerators take. */
export const factorOf = ({ slow }: Pick<Plan, "slow">, executor: number): number =>
  slow?.executors[executor] === true ? slow.factor : 1;

export const latencyOf = ({ alphaUs, betaUs }: ModelPlan, batchSize: number, factor: number): Micros =>
  micros(Math.round((alphaUs * batchSize + betaUs) * factor));
