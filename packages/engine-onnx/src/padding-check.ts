/**
 * Whether padding changes what a model says. Rows of an axis in mode `pad` run together at the length of the longest;
 * a model that looks at the padding (a mean over the axis, attention without a mask) then gives each row another
 * answer in each batch, and nothing fails.
 */
import type { EngineBatch } from "@tutti/ports/engine";
import {
  BATCH_AXIS,
  type ModelSpec,
  type Tensor,
  type TensorSpec,
  bytesOf,
  elementCount,
  grownLengths,
  longestLengths,
  mayMix,
  ownLength,
  padValueOf,
  paddedAxes,
  sizesOfRow,
  typicalLengths,
} from "@tutti/protocol";
import { relativeDifference } from "./comparison.ts";
import { randomBatch } from "./random-batch.ts";
import { bytesFrom } from "./tensor-types.ts";

/** Accepted difference, as a share of an output's largest value. Half floats of another width differ by less. */
const TOLERANCE = 1e-2;

type Run = (inputs: readonly Tensor[], batchSize: number) => Promise<readonly Tensor[]>;

/**
 * Runs one short row as it is, and padded. An axis with `mixed: true` isn't checked, nor is a model that answers the
 * same row in two ways, since it samples.
 *
 * @returns why rows of this model must not be mixed; undefined: they may, or the model can't run a short row
 */
export async function paddingDifference(spec: ModelSpec, run: Run): Promise<string | undefined> {
  const unjudged = paddedAxes(spec).filter((axis) => spec.axes[axis]!.mixed === undefined);
  if (unjudged.length === 0 || !mayMix(spec)) return undefined;
  const lengths = shortAndLong(spec);
  if (lengths === undefined) return undefined;
  const { short, long } = lengths;
  const row = randomBatch(spec, { bucket: 0, batchSize: 1, seed: 1, lengths: short });
  let alone: readonly Tensor[];
  let again: readonly Tensor[];
  let padded: readonly Tensor[];
  try {
    alone = await run(row.inputs, 1);
    again = await run(row.inputs, 1);
    padded = await run(paddedInputs(spec, row, long), 1);
  } catch {
    return undefined; // a run that fails is reported by whoever tries the model's declared shapes
  }
  if (relativeDifference(alone, again) > TOLERANCE) return undefined;
  const own = spec.outputs.map((output, i) => ownPart(spec, output, padded[i]!, short));
  const difference = relativeDifference(alone, own);
  if (difference <= TOLERANCE) return undefined;
  const name = unjudged[0]!;
  const isShape = alone.some((tensor, i) => String(tensor.dims) !== String(own[i]?.dims));
  const by = Number.isFinite(difference)
    ? `${(100 * difference).toPrecision(2)} % of the largest value`
    : isShape
      ? "its shape"
      : "a value that is no number, or infinite";
  return (
    `padding changes what it answers: a row of ${name} ${short.join(" × ")} padded to ${long.join(" × ")} differs by ${by}. ` +
    `Write one of these below axes.${name} in config.yaml: \`mixed: false\` (only rows of equal length share a run), ` +
    `\`mask\` or \`lengths\` (an input that tells the model), or \`mixed: true\` (the difference doesn't matter)`
  );
}

/**
 * Half of the typical lengths, and the typical or the longest ones; undefined: all rows grow to one length. Axes that
 * have been judged are long in both.
 */
function shortAndLong(spec: ModelSpec): { short: number[]; long: number[] } | undefined {
  const isJudged = paddedAxes(spec).map((axis) => spec.axes[axis]!.mixed !== undefined);
  const short = grownLengths(
    spec,
    typicalLengths(spec).map((length) => Math.ceil(length / 2)),
  );
  for (const lengths of [typicalLengths(spec), longestLengths(spec)]) {
    const long = grownLengths(spec, lengths);
    const own = short.map((length, i) => (isJudged[i] === true ? long[i]! : length));
    if (long.some((length, i) => length > own[i]!)) return { short: own, long };
  }
  return undefined;
}

function paddedInputs(spec: ModelSpec, { inputs }: EngineBatch, lengths: readonly number[]): Tensor[] {
  const sizes = sizesOfRow(spec, 0, lengths);
  const dimsOf = ({ dims }: TensorSpec): number[] =>
    dims.map((dim) => (dim === BATCH_AXIS ? 1 : typeof dim === "number" ? dim : (sizes[dim] ?? 1)));
  return inputs.map((tensor, i) => {
    const sent = spec.inputs[i];
    if (sent !== undefined) return filled(tensor, dimsOf(sent), padValueOf(spec, sent));
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

/** The part of a padded output that belongs to a row of these lengths. */
function ownPart(spec: ModelSpec, output: TensorSpec, tensor: Tensor, lengths: readonly number[]): Tensor {
  const dims = tensor.dims.map((size, i) => Math.min(size, ownLength(spec, output.dims[i] ?? size, lengths) ?? size));
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
