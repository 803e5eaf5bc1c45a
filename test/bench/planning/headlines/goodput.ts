/**
 * The largest rate that a planner's plan carries, as papers measure throughput. At most 1 % of requests may be dropped
 * or late.
 */
import { type RunExecutor, type TrueFactor, runPlan } from "./node-runtime.ts";

/** A plan for a total rate, in requests per second; undefined where the planner says it can't be. */
export type Planner = (rate: number) => readonly RunExecutor[] | undefined;

export interface MeasureOptions {
  readonly seconds: number;
  readonly seeds: readonly number[];
  readonly factor?: TrueFactor;
  /**
   * The requests whose bad rate must be at most 1 %. It is that of all requests (gpulet, Nexus), or that of the worst
   * model (docs/algorithms.md, A7).
   */
  readonly judged: "all" | "worst";
}
export interface Measured {
  /** The largest rate that the planner calls possible. */
  readonly planned: number;
  /** The largest rate that one of its plans carries. */
  readonly carried: number;
  /** The rate for which that plan was made. */
  readonly plannedFor: number;
}

const BAD_RATE_MAX = 0.01;
/** Bisection goes on to 1 %. */
const PRECISION = 1.01;
/**
 * Shares of the largest planned rate to plan for. A plan for the most that is feasible has no room for bursts, and one
 * for less may carry more.
 */
const PLANNED_SHARES = [1, 0.9, 0.8];

export function measure(planner: Planner, options: MeasureOptions): Measured {
  const planned = largest((rate) => planner(rate) !== undefined);
  let best = { carried: 0, plannedFor: 0 };
  for (const share of PLANNED_SHARES) {
    const plannedFor = share * planned;
    const plan = planner(plannedFor);
    if (plan === undefined) continue;
    const carried = carriedBy(plan, plannedFor, options);
    if (carried > best.carried) best = { carried, plannedFor };
  }
  return { planned, ...best };
}

/** @param plannedFor - the rate that the plan was made for */
export const carriedBy = (plan: readonly RunExecutor[], plannedFor: number, options: MeasureOptions): number =>
  largest((rate) => badRate(plan, { ...options, scale: rate / plannedFor }) <= BAD_RATE_MAX);

/** Bad rate over all seeds together. */
export function badRate(
  plan: readonly RunExecutor[],
  { seeds, judged, ...options }: MeasureOptions & { scale: number },
): number {
  const counts = new Map<number, { total: number; bad: number }>();
  for (const seed of seeds)
    for (const [model, { total, bad }] of runPlan(plan, { ...options, seed })) {
      const group = judged === "all" ? 0 : model;
      const before = counts.get(group) ?? { total: 0, bad: 0 };
      counts.set(group, { total: before.total + total, bad: before.bad + bad });
    }
  return Math.max(0, ...[...counts.values()].map(({ total, bad }) => bad / total));
}

/** The largest feasible rate, to 1 %. @param isPossible - true for all rates up to some rate */
export function largest(isPossible: (rate: number) => boolean): number {
  let [low, high] = [0, 16];
  while (isPossible(high) && high < 1e7) [low, high] = [high, 2 * high];
  if (low === 0) [low, high] = [0, 16];
  while (high > Math.max(1, low) * PRECISION) {
    const middle = low === 0 ? high / 2 : Math.sqrt(low * high);
    if (isPossible(middle)) low = middle;
    else high = middle;
    if (high < 1) return 0;
  }
  return low;
}
