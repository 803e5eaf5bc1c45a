/**
 * Parts of an emulated accelerator, with latencies and interference from an input of `tutti plan fractions`. Some noise
 * is added. Measuring takes no time.
 */
import { factorBeside } from "@tutti/planning";
import { Prng } from "@tutti/units";
import type { FractionsInput } from "../plan/fractions-input.ts";
import type { PartRun, PartsBench } from "./parts-bench.ts";

/** Number of runs of each measurement (D5: at least so many). */
const RUNS = 30;

export function emulatedBench(
  { names, models, sizes, interference }: FractionsInput,
  { noise, seed }: { readonly noise: number; readonly seed: number },
): PartsBench {
  const prng = new Prng(seed);
  const runs = ({ model, batchSize, size }: PartRun, factor: number): number[] => {
    // Noise of a pair as a whole does not average out over its runs.
    const disturbed = factor === 1 ? 1 : 1 + noise * (2 * prng.nextFloat() - 1);
    const ms = models[model]!.latency(batchSize, size) * factor * disturbed;
    return Array.from({ length: RUNS }, () => ms * (1 + (noise / 4) * (2 * prng.nextFloat() - 1)));
  };
  const factorOf = (own: PartRun, other: PartRun): number =>
    interference === undefined
      ? 1
      : factorBeside(
          interference,
          { model: models[own.model]!, size: own.size },
          { model: models[other.model]!, size: other.size },
        );
  return {
    models: models.map(({ slo: sloMs, batchMax }, i) => ({
      ...{ name: names[i]!, sloMs, batchMax },
      batchSizes: [1, 2, 4, 8, 16, 32].filter((size) => size < batchMax).concat(batchMax),
    })),
    sizes,
    alone: (run) => Promise.resolve(runs(run, 1)),
    together: ([a, b]) => Promise.resolve([runs(a, factorOf(a, b)), runs(b, factorOf(b, a))]),
    uses: (model) => {
      const { cacheUse, bandwidthUse } = models[model]!;
      return { cacheUse, bandwidthUse };
    },
    close: () => Promise.resolve(),
  };
}
