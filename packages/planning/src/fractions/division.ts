/**
 * Whether a pool's accelerators should be whole or run as halves, two batches at a time each: deferred batches over
 * gpulet's parts (docs/algorithms.md, D9). All are divided alike, so that every model still runs on every part, and one
 * ranker still gives the next one that is free to the most urgent batch.
 */
import { type PoolCapacity, type PooledModel, poolCapacity } from "../pools/pool-capacity.ts";

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
const REUNION_GAIN = 1.05;

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
