/**
 * A profiling run on parts of an accelerator (gpulet, §4.4; docs/algorithms.md, D2 and D5). It measures every model's
 * latency alone on every size, the slowdown of pairs side by side, and fits the line that predicts the slowdown. Seven
 * tenths of the pairs are fitted, and the others give the prediction error. The stored coefficients are a fit of all
 * pairs.
 */
import { type Interference, type InterferenceSample, WHOLE, fitInterference, predictionError } from "@tutti/planning";
import { quantile } from "@tutti/profile";
import { Prng } from "@tutti/units";
import { CommandError } from "@tutti/admin";
import type { PartRun, PartsBench, Uses } from "./parts-bench.ts";

export interface MeasuredModel extends Uses {
  readonly name: string;
  readonly sloMs: number;
  readonly batchMax: number;
  /** By size, then by batch size. */
  readonly latencyMs: Readonly<Record<number, Readonly<Record<number, number>>>>;
}
export interface MeasuredPair {
  readonly runs: readonly [PartRun, PartRun];
  /** Slowdown of each run: its latency beside the other, divided by its latency alone. */
  readonly factors: readonly [number, number];
}
export interface InterferenceResult {
  readonly sizes: readonly number[];
  readonly models: readonly MeasuredModel[];
  readonly pairs: readonly MeasuredPair[];
  /** c1 to c5, fitted to all pairs. */
  readonly coefficients: Interference;
  /** Error of a fit of `fitted` pairs on the other `predicted`: |ŷ−y|/y. */
  readonly prediction: {
    readonly fitted: number;
    readonly predicted: number;
    readonly p90: number;
    readonly p95: number;
  };
  /** The same error if interference is ignored. */
  readonly ignored: { readonly p90: number; readonly p95: number };
}

export interface MeasurementOptions {
  /** Maximum number of pairs. */
  readonly pairs: number;
  readonly seed: number;
  readonly onProgress?: (done: number, of: number, text: string) => void;
}

const FITTED_SHARE = 0.7;
const IGNORED: Interference = [0, 0, 0, 0, 1];
/** A fit has five coefficients, and some pairs must be left to predict. */
export const PAIRS_LEAST = 8;

/** @throws {CommandError} the pairs are too few, or don't determine the coefficients */
export async function measureInterference(bench: PartsBench, options: MeasurementOptions): Promise<InterferenceResult> {
  const prng = new Prng(options.seed);
  const chosen = shuffled(pairsOf(bench), prng).slice(0, options.pairs);
  if (chosen.length < PAIRS_LEAST)
    throw new CommandError(
      `${chosen.length} pairs are too few to fit five coefficients: name at least three models, and parts smaller than the whole`,
    );
  const steps = bench.models.reduce((sum, { batchSizes }) => sum + batchSizes.length, 0) * bench.sizes.length;
  let done = 0;
  const progress = (text: string): void => options.onProgress?.(++done, steps + chosen.length, text);

  const wholes = new Map<number, number>();
  const models: MeasuredModel[] = [];
  for (const [model, { name, sloMs, batchMax, batchSizes }] of bench.models.entries()) {
    const latencyMs: Record<number, Record<number, number>> = {};
    for (const size of bench.sizes) {
      for (const batchSize of batchSizes) {
        const runs = ascending(await bench.alone({ model, batchSize, size }, 0));
        if (size === WHOLE && batchSize === batchMax) wholes.set(model, quantile(runs, 0.5));
        (latencyMs[size] ??= {})[batchSize] = quantile(runs, 0.5);
        progress(`${name} alone on ${size} %`);
      }
    }
    models.push({ ...{ name, sloMs, batchMax, latencyMs }, ...bench.uses(model, wholes.get(model)!) });
  }

  const pairs: MeasuredPair[] = [];
  for (const runs of chosen) {
    // Measure alone just before: on a shared machine the speed differs from that of a minute ago.
    const alone = [await bench.alone(runs[0], 0), await bench.alone(runs[1], 1)];
    const times = await bench.together(runs);
    const factorOf = (i: 0 | 1): number => quantile(ascending(times[i]), 0.5) / quantile(ascending(alone[i]!), 0.5);
    pairs.push({ runs, factors: [factorOf(0), factorOf(1)] });
    progress(`${models[runs[0].model]!.name} beside ${models[runs[1].model]!.name}`);
  }
  const fitted = Math.round(FITTED_SHARE * pairs.length);
  const of = (some: readonly MeasuredPair[]): InterferenceSample[] => samplesOf(models, some);
  const unseen = of(pairs.slice(fitted));
  return {
    ...{ sizes: bench.sizes, models, pairs },
    coefficients: fit(of(pairs)),
    prediction: {
      ...{ fitted, predicted: pairs.length - fitted },
      ...predictionError(fit(of(pairs.slice(0, fitted))), unseen),
    },
    ignored: predictionError(IGNORED, unseen),
  };
}

/** Two samples for each pair, one for each direction. */
export function samplesOf(models: readonly Uses[], pairs: readonly MeasuredPair[]): InterferenceSample[] {
  return pairs.flatMap(({ runs, factors }) =>
    ([0, 1] as const).map((i): InterferenceSample => {
      const [own, other] = [runs[i], runs[(1 - i) as 0 | 1]];
      const [one, beside] = [models[own.model]!, models[other.model]!];
      const [p1, p2] = [own.size / WHOLE, other.size / WHOLE];
      return {
        uses: [one.cacheUse * p1, beside.cacheUse * p2, one.bandwidthUse * p1, beside.bandwidthUse * p2],
        factor: factors[i],
      };
    }),
  );
}

function fit(samples: readonly InterferenceSample[]): Interference {
  try {
    return fitInterference(samples).coefficients;
  } catch {
    throw new CommandError(
      "these pairs don't tell the five coefficients apart: measure models that differ more in what they use of cache and memory bandwidth",
    );
  }
}

/** All pairs of models, with smallest and largest batches, on every split. */
function pairsOf({ models, sizes }: PartsBench): [PartRun, PartRun][] {
  const runsOf = (model: number, size: number): PartRun[] => {
    const { batchSizes, batchMax } = models[model]!;
    return [...new Set([batchSizes[0]!, batchMax])].map((batchSize) => ({ model, batchSize, size }));
  };
  const pairs: [PartRun, PartRun][] = [];
  for (const size of sizes.filter((one) => one < WHOLE && sizes.includes(WHOLE - one))) {
    for (const a of models.keys()) {
      for (const b of models.keys()) {
        if (2 * size === WHOLE && b < a) continue; // skip the mirrored pair
        for (const one of runsOf(a, size)) for (const other of runsOf(b, WHOLE - size)) pairs.push([one, other]);
      }
    }
  }
  return pairs;
}

const ascending = (runs: readonly number[]): number[] => [...runs].sort((a, b) => a - b);

function shuffled<Item>(items: readonly Item[], prng: Prng): Item[] {
  const all = [...items];
  for (let i = all.length - 1; i > 0; i--) {
    const j = prng.nextInt(i + 1);
    [all[i], all[j]] = [all[j]!, all[i]!];
  }
  return all;
}
