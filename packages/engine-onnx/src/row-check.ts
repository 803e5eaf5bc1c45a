/**
 * Whether rows influence each other. A mean or a softmax over the batch axis computes a row's answer from its
 * neighbours, which are other publishers', and nothing fails.
 */
import { BATCH_AXIS, type ModelSpec, type Tensor, elementCount, fedInputs } from "@tutti/protocol";
import { type Micros, millis } from "@tutti/units";
import { takeRow } from "./batch-rows.ts";
import type { Run } from "./check-budget.ts";
import { relativeDifference } from "./comparison.ts";
import { bufferOf } from "./file-buffer.ts";
import { since } from "./load-refusal.ts";
import { mayTakeLong } from "./may-take-long.ts";
import { corner } from "./padding-check.ts";
import { type Provider, differenceMax } from "./provider.ts";
import { randomBatch } from "./random-batch.ts";
import { roundingOf } from "./rounding.ts";
import { valuesOf } from "./tensor-types.ts";

/** Pairs of rows that must all differ: a near tie or a value around zero is unlike in one, and not in each. */
const PAIRS = 3;
/** Pairs are drawn until their rows are unlike, as those of few integers often aren't. */
const DRAWS = 16;
/** Slower rows aren't tried: all runs together stay within the deadline of a load. */
const SLOW: Micros = millis(500);

/**
 * Share of integers that may be unlike, over that of floats: the indexes of values so close that rounding swaps them.
 */
const INTEGERS_TIMES = 10;

/** `training_mode: 1`, an attribute of batch normalizations alone. */
const TRAINING = Buffer.from("\x0a\x0dtraining_mode\x18\x01", "latin1");

export interface TriedModel {
  readonly spec: ModelSpec;
  readonly bytes: Uint8Array;
  readonly provider: Provider;
  /** Models that are tried in the same load, and share its time: the variants of a family. Default: 1. */
  readonly among?: number;
}

/**
 * Runs two unlike rows each by itself, and together. A model that takes one row at a time isn't tried, nor one that may
 * take long, nor is one judged that answers the same row in two ways, since it samples. So does a batch normalization
 * in training mode, of which onnxruntime changes the weights in each run; that is found in the file.
 *
 * @returns why rows of this model must not share a run; undefined: they may, or it can't run random rows
 */
export async function rowInfluence(
  { spec, bytes, provider, among = 1 }: TriedModel,
  run: Run,
): Promise<string | undefined> {
  if (bufferOf(bytes).includes(TRAINING))
    return (
      "a batch normalization is in training mode, so an answer depends on the requests beside it and before it. " +
      "Export the model for inference (`model.eval()` in PyTorch)"
    );
  if (spec.batchSizeMax < 2 || mayTakeLong(spec, bytes)) return undefined;
  let most = differenceMax(provider);
  let found: Influence | undefined;
  for (let pair = 0; pair < PAIRS; pair++) {
    const tried = await outputsOfPair(spec, { pair, run, slow: SLOW / among }).catch(() => undefined);
    if (tried === undefined) return undefined; // a run that fails is reported by whoever measures the model
    found = influenceIn(spec, tried, most);
    if (found !== undefined && pair === 0) {
      most = roundingOf(spec, bytes, most); // only now: it reads the whole file
      found = influenceIn(spec, tried, most);
    }
    if (found === undefined || (await isRandom(tried, { spec, most, run }))) return undefined;
  }
  const by = Number.isFinite(found!.by) ? `by ${shareOf(found!.by)} its largest value` : "in what is a number";
  return (
    `rows of a batch influence each other: output '${found!.output}' of a row differs ${by} from what the row gets by itself, ` +
    "so one publisher's answer would depend on another's request (a mean or a softmax over the batch axis does that). " +
    "Export the model without it, or write `max_batch_size: 1` in config.yaml (each request runs by itself)"
  );
}

/** An output whose values by itself are all 0 has no share that would mean anything. */
const shareOf = (by: number): string => (by > 1 ? "more than" : `${by.toPrecision(2)} of`);

interface Pair {
  readonly rows: readonly (readonly Tensor[])[];
  /** Outputs of each row by itself. */
  readonly alone: readonly (readonly Tensor[])[];
  readonly together: readonly Tensor[];
}

/** @returns undefined: the model is too slow to be tried */
async function outputsOfPair(
  spec: ModelSpec,
  { pair, run, slow }: { readonly pair: number; readonly run: Run; readonly slow: number },
): Promise<Pair | undefined> {
  const { inputs, rows } = unlikeRows(spec, pair);
  const first = await run(rows[0]!, 1);
  const start = process.hrtime.bigint(); // of the second: the first run of a shape takes longer
  const second = await run(rows[1]!, 1);
  if (since(start) > slow) return undefined;
  return { rows, alone: [first, second], together: await run(inputs, 2) };
}

function unlikeRows(spec: ModelSpec, pair: number): { inputs: readonly Tensor[]; rows: Tensor[][] } {
  const axes = fedInputs(spec).map(({ dims }) => dims.indexOf(BATCH_AXIS));
  for (let draw = 1; ; draw++) {
    const { inputs } = randomBatch(spec, { bucket: 0, batchSize: 2, seed: pair * DRAWS + draw });
    const rows = [0, 1].map((row) => inputs.map((input, i) => rowOf(input, axes[i]!, row)));
    if (draw === DRAWS || relativeDifference(rows[0]!, rows[1]!) > 0) return { inputs, rows };
  }
}

interface Influence {
  readonly output: string;
  readonly by: number;
}

/** The first output of which a row gets more than rounding changes; those without a batch axis are each row's. */
function influenceIn(spec: ModelSpec, { alone, together }: Pair, most: number): Influence | undefined {
  for (const [i, { name, dims }] of spec.outputs.entries()) {
    const both = together[i]!;
    const axis = dims.indexOf(BATCH_AXIS);
    const hasRank = ({ dims: found }: Tensor): boolean => found.length === dims.length;
    if (![both, ...alone.map((outputs) => outputs[i]!)].every(hasRank) || (axis >= 0 && both.dims[axis] !== 2))
      return undefined; // a run fails by it
    const pairs = alone.map((outputs, row) => shared(outputs[i]!, rowOf(both, axis, row)));
    const by = differenceOf(joined(pairs.map(([own]) => own)), joined(pairs.map(([, beside]) => beside)), most);
    if (by > 0) return { output: name, by };
  }
  return undefined;
}

/** The common part of two outputs: where a run determines their length, one may be as long as its neighbour needs. */
function shared(a: Tensor, b: Tensor): [Tensor, Tensor] {
  if (String(a.dims) === String(b.dims)) return [a, b];
  const dims = a.dims.map((size, axis) => Math.min(size, b.dims[axis]!));
  return [corner(a, dims), corner(b, dims)];
}

/** The elements of both rows, so that their scale is that of both. */
function joined(rows: readonly Tensor[]): Tensor {
  const data = new Uint8Array(Buffer.concat(rows.map((row) => row.data)));
  return { ...rows[0]!, dims: [rows.reduce((count, { dims }) => count + elementCount(dims), 0)], data };
}

const NUMBERS = new Set(["FP16", "FP32", "FP64", "INT8", "UINT8"]);

/** @returns 0: no more than `most`, the share of the largest value that rounding may change */
function differenceOf(expected: Tensor, actual: Tensor, most: number): number {
  const difference = relativeDifference([expected], [actual]);
  if (difference === 0) return 0;
  // Bytes are quantized numbers or pixels, where one rounding is a step of 1/255, or else indexes like wider integers.
  if (NUMBERS.has(expected.type) && difference <= (expected.type.startsWith("FP") ? most : Math.max(most, 1e-2)))
    return 0;
  if (expected.type.startsWith("FP")) return difference;
  const [own, beside] = [valuesOf(expected), valuesOf(actual)];
  let unlike = 0;
  for (let at = 0; at < own.length; at++) if (own[at] !== beside[at]) unlike++;
  return unlike <= INTEGERS_TIMES * most * own.length ? 0 : difference;
}

/** Whether a row by itself gets another answer the next time, or none. */
async function isRandom(
  { rows, alone }: Pair,
  { spec, most, run }: { readonly spec: ModelSpec; readonly most: number; readonly run: Run },
): Promise<boolean> {
  const again = await run(rows[0]!, 1).catch(() => undefined);
  if (again === undefined) return true;
  return spec.outputs.some((_, i) => {
    const [one, other] = shared(alone[0]![i]!, again[i]!);
    return differenceOf(one, other, most) > 0;
  });
}

const rowOf = (tensor: Tensor, axis: number, row: number): Tensor => (axis < 0 ? tensor : takeRow(tensor, axis, row));
