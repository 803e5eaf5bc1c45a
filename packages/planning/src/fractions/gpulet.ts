/**
 * Plans of one part of an accelerator, and whether they still fit beside a new neighbour (docs/algorithms.md, D3, steps
 * 2 and 4).
 *
 *   GP1. A plan passes C10 with L·f, where f is the largest factor of any item of the other part.
 *   GP2. Plans are values: a trial that fails leaves no trace.
 */
import { atMost, batchIn } from "../packing/stream.ts";
import { type Interference, factorBeside } from "./interference.ts";
import { type FractionModel, residualAt, throughputAt } from "./model.ts";

export interface GpuletItem {
  readonly model: FractionModel;
  readonly rate: number;
  readonly batchSize: number;
}
export interface GpuletPlan {
  readonly items: readonly GpuletItem[];
  /** In ms; for a saturated plan the time of its batch. */
  readonly dutyCycle: number;
  /** Whether it is one model that runs batch after batch. */
  readonly isSaturated: boolean;
}
export interface Gpulet {
  /** In percent. */
  readonly size: number;
  /** Undefined: empty. */
  readonly plan: GpuletPlan | undefined;
}
/** A whole accelerator, or exactly two parts. */
export type Parts = readonly [Gpulet] | readonly [Gpulet, Gpulet];

/** Interference factor of a model on the part at `place`. */
export function factorAt(
  model: FractionModel,
  parts: Parts,
  place: number,
  interference: Interference | undefined,
): number {
  const other = parts[1 - place];
  if (interference === undefined || other?.plan === undefined) return 1;
  const own = { model, size: parts[place]!.size };
  return other.plan.items.reduce(
    (most, item) => Math.max(most, factorBeside(interference, own, { model: item.model, size: other.size })),
    1,
  );
}

export type FactorOf = (model: FractionModel) => number;

/**
 * Plan of one model alone on an empty part: a residual plan, or else as much as the part can carry.
 *
 * @param expected - factor that a neighbour may bring: a saturated plan carries no more than the part could carry then
 */
export function planFor(
  model: FractionModel,
  size: number,
  rate: number,
  factorOf: FactorOf,
  expected = 1,
): GpuletPlan | undefined {
  const factor = factorOf(model);
  const residual = residualAt(model, size, rate, factor);
  if (residual !== undefined) {
    const { batchSize, dutyCycle } = residual;
    return { items: [{ model, rate, batchSize }], dutyCycle, isSaturated: false };
  }
  const most = throughputAt(model, size, factor);
  if (most === undefined) return undefined;
  const { batchSize } = most;
  const dutyCycle = model.latency(batchSize, size) * factor;
  const bearable = expected <= factor ? most : throughputAt(model, size, expected);
  if (bearable === undefined) return undefined;
  return { items: [{ model, rate: Math.min(rate, bearable.rate), batchSize }], dutyCycle, isSaturated: true };
}

/** Adds a model to the plan of a part (C3). */
export function planWith(
  plan: GpuletPlan,
  size: number,
  newcomer: { model: FractionModel; rate: number },
  factorOf: FactorOf,
): GpuletPlan | undefined {
  const alone = residualAt(newcomer.model, size, newcomer.rate, factorOf(newcomer.model));
  if (alone === undefined) return undefined;
  return inCycle([...plan.items, newcomer], size, Math.min(plan.dutyCycle, alone.dutyCycle), factorOf);
}

/** Occupancy: Σ L·f/d; 1 for a saturated plan. */
export function occupancyOf({ items, dutyCycle, isSaturated }: GpuletPlan, size: number, factorOf: FactorOf): number {
  if (isSaturated) return 1;
  return (
    items.reduce((sum, { model, batchSize }) => sum + model.latency(batchSize, size) * factorOf(model), 0) / dutyCycle
  );
}

/**
 * Refits a plan to new factors (step 4): the same plan where it still fits, otherwise the next best one. Undefined
 * where none fits.
 */
export function refitted(plan: GpuletPlan, size: number, factorOf: FactorOf): GpuletPlan | undefined {
  return plan.isSaturated ? saturatedAgain(plan, size, factorOf) : residualAgain(plan, size, factorOf);
}

function saturatedAgain(plan: GpuletPlan, size: number, factorOf: FactorOf): GpuletPlan | undefined {
  const [{ model, rate, batchSize }] = plan.items as [GpuletItem];
  const factor = factorOf(model);
  const latency = model.latency(batchSize, size) * factor;
  const carries = (carried: number): boolean => carried >= rate * (1 - 1e-9);
  if (atMost(2 * latency, model.slo) && carries(batchSize / latency)) return { ...plan, dutyCycle: latency };
  const most = throughputAt(model, size, factor);
  if (most === undefined || !carries(most.rate)) return undefined;
  const items = [{ model, rate, batchSize: most.batchSize }];
  return { items, dutyCycle: model.latency(most.batchSize, size) * factor, isSaturated: true };
}

function residualAgain(plan: GpuletPlan, size: number, factorOf: FactorOf): GpuletPlan | undefined {
  if (fits(plan.items, size, plan.dutyCycle, factorOf)) return plan;
  const cycles = new Set<number>();
  for (const { model, rate } of plan.items) {
    for (let b = 1; b <= model.batchMax; b++) if (b / rate <= plan.dutyCycle) cycles.add(b / rate);
    const most = model.slo - model.latency(1, size) * factorOf(model);
    if (most > 0 && most <= plan.dutyCycle) cycles.add(most);
  }
  for (const dutyCycle of [...cycles].sort((a, b) => b - a)) {
    const again = inCycle(plan.items, size, dutyCycle, factorOf);
    if (again !== undefined) return again;
  }
  return undefined;
}

function inCycle(
  shares: readonly Pick<GpuletItem, "model" | "rate">[],
  size: number,
  dutyCycle: number,
  factorOf: FactorOf,
): GpuletPlan | undefined {
  const items = shares.map(({ model, rate }) => ({ model, rate, batchSize: batchIn(dutyCycle, rate) }));
  return fits(items, size, dutyCycle, factorOf) ? { items, dutyCycle, isSaturated: false } : undefined;
}

/** Whether items fit into a duty cycle: C10 with L·f. */
export function fits(items: readonly GpuletItem[], size: number, dutyCycle: number, factorOf: FactorOf): boolean {
  let busy = 0;
  for (const { model, batchSize } of items) {
    if (batchSize > model.batchMax) return false;
    const latency = model.latency(batchSize, size) * factorOf(model);
    if (!atMost(dutyCycle + latency, model.slo)) return false;
    busy += latency;
  }
  return atMost(busy, dutyCycle);
}
