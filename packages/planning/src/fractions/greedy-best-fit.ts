/**
 * The baseline of gpulet: the least part that serves a model, where least room is left; nothing is shared in time
 * (docs/algorithms.md, D8).
 */
import { type FractionModel, SIZES, WHOLE, requiredSize, throughputAt } from "./model.ts";

/** D1: an executor is whole, or split in two. */
const PARTS_MAX = 2;

export interface GreedyPart {
  readonly model: FractionModel;
  readonly rate: number;
  readonly size: number;
}

/** @returns by executor its parts; undefined where a model can't be served even on whole executors */
export function greedyBestFit(models: readonly FractionModel[], sizes = SIZES): GreedyPart[][] | undefined {
  const executors: GreedyPart[][] = [];
  const free = (parts: readonly GreedyPart[]): number => WHOLE - parts.reduce((sum, { size }) => sum + size, 0);
  const order = models
    .map((model) => ({ model, required: requiredSize(model, model.rate, sizes) }))
    .filter(({ model }) => model.rate > 0)
    .sort((a, b) => (b.required === a.required ? a.model.id - b.model.id : b.required > a.required ? 1 : -1));
  for (const { model } of order) {
    let rest = model.rate;
    for (
      let required = requiredSize(model, rest, sizes);
      required === Infinity;
      required = requiredSize(model, rest, sizes)
    ) {
      const most = throughputAt(model, WHOLE)?.rate;
      if (most === undefined) return undefined;
      executors.push([{ model, rate: most, size: WHOLE }]);
      rest -= most;
    }
    const size = requiredSize(model, rest, sizes);
    const roomy = executors.filter((parts) => parts.length < PARTS_MAX && free(parts) >= size);
    const tightest = roomy.sort((a, b) => free(a) - free(b))[0];
    if (tightest === undefined) executors.push([{ model, rate: rest, size }]);
    else tightest.push({ model, rate: rest, size });
  }
  return executors;
}
