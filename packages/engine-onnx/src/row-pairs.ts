/** Pairs of unlike rows, to see whether one influences the other (row-check.ts). */
import { BATCH_AXIS, type ModelSpec, type Tensor, fedInputs } from "@tutti/protocol";
import { emptyBatch, putRows, takeRow } from "./batch-rows.ts";
import { relativeDifference } from "./comparison.ts";
import type { Provider } from "./provider.ts";
import { type Draw, randomBatch } from "./random-batch.ts";

/** Inputs of one row. */
export type Row = readonly Tensor[];
/** Two unlike rows, and a third of the same shape. */
export type Rows = readonly [first: Row, second: Row, third: Row];
/** The rows of a pair, the same for the same number; undefined: there are none that are unlike. */
export type RowSource = (pair: number) => Rows | undefined;

/** Pairs are drawn until their rows are unlike, as those of few integers often aren't. */
const DRAWS = 16;
/** An index outside its table fails a run on a CPU, and may end the process on a GPU: there, integers are 0 or 1. */
const DRAWS_OF_CPU: readonly Draw[] = ["range", "text", "small"];
const DRAWS_OF_GPU: readonly Draw[] = ["small", "positive"];

/** Kinds of rows, the likest to real ones first. @param samples - real rows, if there are any */
export function rowSources(spec: ModelSpec, provider: Provider, samples: readonly Row[] = []): RowSource[] {
  const drawn = (provider === "cpu" ? DRAWS_OF_CPU : DRAWS_OF_GPU).map((draw): RowSource => {
    return (pair) => drawnRows(spec, pair, draw);
  });
  return samples.length < 2 ? drawn : [(pair) => sampledRows(samples, pair), ...drawn];
}

function drawnRows(spec: ModelSpec, pair: number, draw: Draw): Rows {
  const axes = rowAxes(spec);
  for (let attempt = 1; ; attempt++) {
    const { inputs } = randomBatch(spec, { bucket: 0, batchSize: 3, seed: pair * DRAWS + attempt, draw });
    const rows = [0, 1, 2].map((row) => inputs.map((input, i) => rowOf(input, axes[i]!, row))) as unknown as Rows;
    if (attempt === DRAWS || areUnlike(rows)) return rows;
  }
}

function sampledRows(samples: readonly Row[], pair: number): Rows | undefined {
  const at = (step: number): Row => samples[(2 * pair + step) % samples.length]!;
  const shape = (row: Row): string => row.map(({ dims }) => String(dims)).join(" ");
  const rows: Rows = [at(0), at(1), at(2)];
  return areUnlike(rows) && rows.every((row) => shape(row) === shape(rows[0])) ? rows : undefined;
}

const areUnlike = ([first, second]: Rows): boolean => relativeDifference(first, second) > 0;

/** A batch of two rows. What has no axis of rows is the first one's. */
export function beside(spec: ModelSpec, first: Row, second: Row): Tensor[] {
  const axes = rowAxes(spec);
  return first.map((tensor, i) => {
    const axis = axes[i]!;
    if (axis < 0) return tensor;
    const both = emptyBatch(tensor, axis, 2);
    putRows(both, axis, 0, tensor);
    putRows(both, axis, 1, second[i]!);
    return both;
  });
}

const rowAxes = (spec: ModelSpec): number[] => fedInputs(spec).map(({ dims }) => dims.indexOf(BATCH_AXIS));

/** One row of a tensor; all of it where it has no axis of rows. */
export const rowOf = (tensor: Tensor, axis: number, row: number): Tensor =>
  axis < 0 ? tensor : takeRow(tensor, axis, row);
