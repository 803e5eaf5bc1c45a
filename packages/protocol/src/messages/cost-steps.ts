/**
 * Costs of a late answer, in steps, as a publisher says it (docs/algorithms.md, B8): the header `Tutti-Costs` with
 * `25ms=1, 100ms=3`, an answer after 25 ms costs 1 and one after 100 ms costs 3 in all.
 *
 *   COSTS-1. Steps have rising durations and rising costs: a step at which the cost stays is left out.
 */
import { type Micros, formatDuration, parseDuration } from "@tutti/units";
import { COST_MAX, COST_STEPS_MAX, SLO_US_MAX } from "../limits.ts";

export interface CostOffset {
  /** From the arrival of the request. That of the first step is the request's SLO. */
  readonly after: Micros;
  /** Cost of an answer after that, in all. */
  readonly cost: number;
}

/** The steps without those that change nothing (COSTS-1), or the text of what is wrong with them. */
export function checkedCosts(steps: readonly CostOffset[]): readonly CostOffset[] | string {
  if (steps.length === 0) return "there is no step";
  if (steps.length > COST_STEPS_MAX) return `${steps.length} steps are more than ${COST_STEPS_MAX} (COST_STEPS_MAX)`;
  for (const [i, { after, cost }] of steps.entries()) {
    if (!(after > 0 && after <= SLO_US_MAX)) return `step ${i + 1} is not after more than 0 and at most 10 min`;
    if (!(cost >= 0 && cost <= COST_MAX))
      return `step ${i + 1} costs ${cost}: give a number from 0 to ${COST_MAX} (COST_MAX)`;
    const before = steps[i - 1];
    if (before !== undefined && after <= before.after)
      return `step ${i + 1} is after ${formatDuration(after)}, which is not later than ${formatDuration(before.after)}`;
    if (before !== undefined && cost < before.cost)
      return `step ${i + 1} costs ${cost}, less than ${before.cost}: a later answer can't cost less`;
  }
  if (steps.at(-1)!.cost === 0) return "no step costs anything: leave the costs out";
  return steps.filter(({ cost }, i) => i === 0 || cost > steps[i - 1]!.cost);
}

/** Reads `25ms=1, 100ms=3`; a text that can't be read gives what is wrong with it. */
export function parseCosts(text: string): readonly CostOffset[] | string {
  const steps: CostOffset[] = [];
  for (const part of text.split(",", COST_STEPS_MAX + 1)) {
    const [duration = "", cost = "", ...rest] = part.split("=");
    const after = parseDuration(duration.trim());
    if (after === undefined || cost.trim() === "" || rest.length > 0)
      return `"${part.slice(0, 40)}" is no step: write 25ms=1, 100ms=3`;
    steps.push({ after, cost: Number(cost) });
  }
  return checkedCosts(steps);
}

export const formatCosts = (steps: readonly CostOffset[]): string =>
  steps.map(({ after, cost }) => `${after}us=${cost}`).join(", ");
