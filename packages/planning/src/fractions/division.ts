/**
 * Whether a pool's accelerators should be whole or run as halves, two batches at a time each: deferred batches over
 * gpulet's parts (docs/algorithms.md, D9). All are divided alike, so that every model still runs on every part, and one
 * ranker still gives the next one that is free to the most urgent batch.
 */
import { type PooledModel, poolCapacity } from "../pools/pool-capacity.ts";
import type { PoolCapacity } from "../pools/typed-capacity.ts";
import { type Interference, factorBeside } from "./interference.ts";
import { type FractionModel, WHOLE } from "./model.ts";

export interface Division {
  readonly kind: "whole" | "halves";
  readonly whole: PoolCapacity;
  readonly halves: PoolCapacity;
}

/** A model with its latencies on half of an accelerator, beside the neighbour that slows it most. */
export interface DivisibleModel extends PooledModel {
  readonly half: PooledModel["profile"];
}

/**
 * Gain for which accelerators are divided, and without which they are made whole again: between them lies what the
 * estimate may err by, so that nobody is moved for nothing.
 */
export const DIVISION_GAIN = 1.2;
export const REUNION_GAIN = 1.05;

/** @param current - how accelerators run now. Default: whole */
export function divisionOf(
  models: readonly DivisibleModel[],
  count: number,
  current: Division["kind"] = "whole",
): Division {
  const whole = poolCapacity(models, count);
  const halves = poolCapacity(
    models.map((model) => ({ ...model, profile: model.half })),
    2 * count,
  );
  const gain = current === "whole" ? DIVISION_GAIN : REUNION_GAIN;
  const isBetter = halves.carried > 0 && halves.carried >= gain * whole.carried;
  return { kind: isBetter ? "halves" : "whole", whole, halves };
}

const HALF = 50;

/** A model of gpulet's plans, with the dispersion of its arrivals where that is known; 1 where not. */
export type DivisibleFraction = FractionModel & { readonly dispersion?: number };

/** `divisionOf` for models of gpulet's plans: rates in requests per ms; a model without requests doesn't count. */
export function divisionOfFractions(
  models: readonly DivisibleFraction[],
  count: number,
  { interference }: { readonly interference?: Interference | undefined },
): Division {
  return divisionOf(divisibleModels(models, interference), count);
}

/** Models of gpulet's plans with their latencies on whole accelerators and on halves. */
export function divisibleModels(
  models: readonly DivisibleFraction[],
  interference: Interference | undefined,
): readonly DivisibleModel[] {
  const besides = models.filter(({ rate }) => rate > 0);
  return models.map((model): DivisibleModel => {
    const own = { model, size: HALF };
    const factors =
      interference && besides.map((other) => factorBeside(interference, own, { model: other, size: HALF }));
    const { rate, slo, dispersion = 1 } = model;
    const profile = tableOf(model, WHOLE, 1);
    return { share: rate, slo, dispersion, profile, half: tableOf(model, HALF, Math.max(1, ...(factors ?? []))) };
  });
}

function tableOf({ batchMax, latency }: FractionModel, size: number, factor: number): PooledModel["profile"] {
  const byBatchSize = Float64Array.from({ length: batchMax + 1 }, (_, b) =>
    b === 0 ? Infinity : factor * latency(b, size),
  );
  return { byBatchSize, batchSizeMax: batchMax };
}
