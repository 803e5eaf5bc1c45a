import type { Engine } from "@tutti/ports/engine";
import { type ModelSpec, type Tensor, variantCount, writeVariant } from "@tutti/protocol";
import { Prng, seconds } from "@tutti/units";
import { batchSizesOf, randomRow } from "@tutti/actors/runtime";
import { type BatchPart, rowBuffer } from "../batches/padded-buffer.ts";

/**
 * Time for the warm-up of one model on one accelerator. Shapes that are still cold after it have their first runs in
 * service.
 */
const WARM_BUDGET = seconds(3);
/** The same where a shape's first run takes up to a second (those of ResNet-50 on an H200: 0.05 to 0.7 s). */
const WARM_BUDGET_OF_SIZES = seconds(30);

export interface WarmRunsOptions {
  readonly engine: Engine;
  readonly spec: ModelSpec;
  readonly samplesOf: (bucket: number) => readonly Uint8Array[];
  readonly done: (runs: number) => void;
}

/** Runs every bucket once at every measured batch size, smallest first, so that no publisher waits for a first run. */
export function runWarm({ engine, spec, samplesOf, done }: WarmRunsOptions): void {
  const sizes = engine.runSizes?.(spec.name);
  const shapes = (sizes ?? batchSizesOf(spec.batchSizeMax)).flatMap((batchSize) =>
    spec.buckets.map((_, bucket) => ({ bucket, batchSize })),
  );
  const budget = sizes === undefined ? WARM_BUDGET : WARM_BUDGET_OF_SIZES;
  const prng = new Prng(spec.number);
  let spent = 0;
  let at = 0;
  const next = (): void => {
    const shape = shapes[at];
    if (shape === undefined || spent >= budget) return done(at);
    at++;
    const { bucket, batchSize } = shape;
    const { inputs, units } = someInputs(spec, { bucket, batchSize, samples: samplesOf(bucket), prng });
    // Failures are ignored: the model may be unable to compute random numbers.
    engine.run({ model: spec.name, bucket, batchSize, inputs, ...(units && { units }) }, (outcome) => {
      if (outcome.kind === "ran") spent += outcome.run;
      next();
    });
  };
  next();
}

/** Rows from samples if there are any, else random ones of the typical lengths. */
export function someInputs(
  spec: ModelSpec,
  from: {
    readonly bucket: number;
    readonly batchSize: number;
    readonly samples: readonly Uint8Array[];
    readonly prng: Prng;
  },
): BatchPart {
  const { bucket, batchSize, samples, prng } = from;
  const buffer = rowBuffer(spec, bucket, batchSize);
  for (let at = 0; at < batchSize; at++) {
    const row = samples.length > 0 ? samples[prng.nextInt(samples.length)]! : randomRow(spec, bucket, prng);
    // Use as many variants as there are rows, the most expensive batch (docs/algorithms.md, C7).
    if (spec.family !== undefined) writeVariant(row, at % variantCount(spec));
    buffer.add(row);
  }
  return buffer.whole();
}

/** So many real rows are compared with each other at most: three pairs of unlike ones, and a third beside each. */
const SAMPLES_COMPARED = 8;

/** Rows of the first bucket, each by itself as an engine takes it. */
export function sampleInputs(spec: ModelSpec, rows: readonly Uint8Array[]): (readonly Tensor[])[] {
  return rows.slice(0, SAMPLES_COMPARED).map((row) => {
    const buffer = rowBuffer(spec, 0, 1);
    buffer.add(row);
    return buffer.whole().inputs;
  });
}
