/**
 * Whether padding changes what a model says. Rows of an axis in mode `pad` run together at the length of the longest,
 * and rows of an axis in mode `bucket` at the next size. A model that looks at the padding (a mean over the axis,
 * attention without a mask) then answers something else than for the row alone, and nothing fails.
 */
import type { EngineBatch } from "@tutti/ports/engine";
import {
  BATCH_AXIS,
  type ModelSpec,
  type Tensor,
  type TensorSpec,
  bytesOf,
  elementCount,
  mayMix,
  padValueOf,
} from "@tutti/protocol";
import type { Run } from "./check-budget.ts";
import { relativeDifference } from "./comparison.ts";
import { type PaddingTrial, bucketTrials, padTrial } from "./padding-trials.ts";
import { randomBatch } from "./random-batch.ts";
import { bytesFrom } from "./tensor-types.ts";

/** Accepted difference, as a share of an output's largest value. Half floats of another width differ by less. */
const TOLERANCE = 1e-2;

/**
 * Runs one short row as it is, and padded: within its batch (mode `pad`), and from each size to the next (`bucket`). An
 * axis with `mixed: true` isn't checked, nor is a model that answers the same row in two ways, since it samples.
 *
 * @returns why rows of this model must not be padded; undefined: they may, or the model can't run a short row
 */
export async function paddingDifference(spec: ModelSpec, run: Run): Promise<string | undefined> {
  const ofPads = mayMix(spec) ? padTrial(spec) : undefined;
  for (const trial of [...(ofPads === undefined ? [] : [ofPads]), ...bucketTrials(spec)]) {
    const difference = await differenceIn(trial, { spec, run });
    if (difference !== undefined) return difference;
  }
  return undefined;
}

async function differenceIn(
  trial: PaddingTrial,
  { spec, run }: { readonly spec: ModelSpec; readonly run: Run },
): Promise<string | undefined> {
  const row = randomBatch(spec, { bucket: 0, batchSize: 1, seed: 1, sizes: trial.short });
  let alone: readonly Tensor[];
  let padded: readonly Tensor[];
  try {
    alone = await run(row.inputs, 1);
    padded = await run(paddedInputs(spec, row, trial), 1);
  } catch {
    return undefined; // a run that fails is reported by whoever tries the model's declared shapes
  }
  const own = padded.map((tensor, i) => corner(tensor, trial.ownDims(i, alone[i]?.dims ?? [], tensor.dims)));
  const difference = relativeDifference(alone, own);
  if (difference <= TOLERANCE || (await isRandom(alone, () => run(row.inputs, 1)))) return undefined;
  const isShape = alone.some((tensor, i) => String(tensor.dims) !== String(own[i]?.dims));
  const by = Number.isFinite(difference)
    ? `${(100 * difference).toPrecision(2)} % of the largest value`
    : isShape
      ? "its shape"
      : "a value that is no number, or infinite";
  const [axis] = trial.unjudged;
  const sizes = (of: PaddingTrial["short"]): string => trial.axes.map((name) => of[name]).join(" × ");
  return (
    `padding changes what it answers: a row of ${axis} ${sizes(trial.short)} padded to ${sizes(trial.long)} differs by ${by}. ` +
    trial.remedy
  );
}

/** Whether the same row gets another answer the next time, or none. */
async function isRandom(alone: readonly Tensor[], runAgain: () => Promise<readonly Tensor[]>): Promise<boolean> {
  const again = await runAgain().catch(() => undefined);
  return again === undefined || relativeDifference(alone, again) > TOLERANCE;
}

function paddedInputs(spec: ModelSpec, { inputs }: EngineBatch, { short, long }: PaddingTrial): Tensor[] {
  const dimsOf = ({ dims }: TensorSpec): number[] =>
    dims.map((dim) => (dim === BATCH_AXIS ? 1 : typeof dim === "number" ? dim : (long[dim] ?? 1)));
  const grows = (dim: number | string): boolean => typeof dim === "string" && long[dim] !== short[dim];
  return inputs.map((tensor, i) => {
    const sent = spec.inputs[i];
    if (sent !== undefined) {
      const bucketed = sent.dims.find((dim) => grows(dim) && spec.axes[dim]?.mode === "bucket");
      const value = bucketed === undefined ? padValueOf(spec, sent) : spec.axes[bucketed]!.padValue;
      return filled(tensor, dimsOf(sent), value);
    }
    const made = spec.made![i - spec.inputs.length]!;
    // The lengths of a row stay its own; a mask is 0 in the padding.
    return made.made === "mask" ? filled(tensor, dimsOf(made), 0) : tensor;
  });
}

/** The tensor at the beginning of a larger one, whose other elements are `value`. */
function filled(tensor: Tensor, dims: readonly number[], value: number): Tensor {
  const data = bytesFrom(tensor.type, new Array<number>(elementCount(dims)).fill(value));
  copyBox(tensor, { ...tensor, dims, data }, tensor.dims);
  return { ...tensor, dims, data };
}

/** The beginning of a tensor along each axis. */
export function corner(tensor: Tensor, dims: readonly number[]): Tensor {
  const data = new Uint8Array(elementCount(dims) * bytesOf(tensor.type));
  copyBox(tensor, { ...tensor, dims, data }, dims);
  return { ...tensor, dims, data };
}

/** Copies the first `box` elements of each axis, a run of the last axis at a time. */
function copyBox(from: Tensor, to: Tensor, box: readonly number[]): void {
  const size = bytesOf(from.type);
  const width = (box.at(-1) ?? 1) * size;
  const outer = box.slice(0, -1);
  for (let at = 0; at < elementCount(outer); at++) {
    let rest = at;
    let [source, target, sourceStep, targetStep] = [0, 0, from.dims.at(-1) ?? 1, to.dims.at(-1) ?? 1];
    for (let axis = outer.length - 1; axis >= 0; axis--) {
      const index = rest % outer[axis]!;
      rest = (rest - index) / outer[axis]!;
      source += index * sourceStep;
      target += index * targetStep;
      sourceStep *= from.dims[axis]!;
      targetStep *= to.dims[axis]!;
    }
    to.data.set(from.data.subarray(source * size, source * size + width), target * size);
  }
}
