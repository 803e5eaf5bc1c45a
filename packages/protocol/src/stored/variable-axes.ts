/**
 * Axes that vary from request to request and are padded within a batch (AxisSpec, mode `pad`). This covers the length
 * of each row, the padded length of its batch, and a row's own part of the outputs. Lengths are in the order of
 * `paddedAxes`.
 */
import { BUCKETS_MAX } from "@tutti/units";
import type { ModelSpec } from "./model-spec.ts";
import { AXIS_SIZE_MAX, SIZE_HINT_MAX } from "../limits.ts";
import { type Static, schema } from "../schema.ts";
import { type TensorSpec, alignTo8, canHold, tensorFields } from "../messages/tensor.ts";

const size = schema.whole(1, AXIS_SIZE_MAX);
/**
 * A variable axis. `bucket`: inputs are padded with `padValue` up to the next size, and each combination of sizes is a
 * ModelThread of its own; a lone size is taken exactly, unless `mixed` is true. `pad`: one ModelThread; rows keep their
 * lengths, and are padded to the longest of their batch.
 */
export const AxisSpec = schema.also(
  schema.record({
    mode: schema.oneOf(["bucket", "pad"]),
    /** `bucket`: the sizes. `pad`: only the longest accepted length. */
    sizes: schema.list(size, BUCKETS_MAX),
    padValue: schema.finite,
    /** `pad`: padding values of inputs that differ from `padValue`, by name. */
    padValues: schema.optional(schema.map(schema.finite)),
    /** `pad`: a batch's length is a multiple of this, so that few shapes occur; 1 when left out. */
    multiple: schema.optional(size),
    /** `pad`: the length to measure and warm up with; the longest when left out. */
    typical: schema.optional(size),
    /**
     * True where the operator accepts whatever padding changes; left out, engines try it at load. `pad`: false where
     * padding changes the model's results (attention over the whole width, a mean over it). Rows of a batch then run
     * together only if their lengths round up to the same multiple, so that each gets the result it gets alone.
     */
    mixed: schema.optional(schema.flag),
  }),
  ({ sizes, multiple = 1, typical = 1 }) => Math.max(multiple, typical) <= Math.max(1, ...sizes),
);
export type AxisSpec = Static<typeof AxisSpec>;

/**
 * One combination of axis sizes; `{}` for a model without variable axes. Buckets are ordered by volume, least first.
 */
export const BucketSpec = schema.map(size);
export type BucketSpec = Static<typeof BucketSpec>;

/**
 * An input that the executor makes from the lengths of a batch's rows, and nobody sends. `mask`: 1 where a row has data
 * and 0 in the padding. `lengths`: the lengths themselves.
 */
export const MadeSpec = schema.record({
  ...tensorFields,
  made: schema.oneOf(["mask", "lengths"]),
  axis: schema.text(),
});
export type MadeSpec = Static<typeof MadeSpec>;

/** Length of an output's axis for an input of `length`: ⌊(length + add) / divide⌋, at least 1. */
export const CutSpec = schema.record({
  axis: schema.text(),
  divide: size,
  add: schema.whole(0, AXIS_SIZE_MAX),
});
export type CutSpec = Static<typeof CutSpec>;

type WithAxes = Pick<ModelSpec, "axes">;
const names = new WeakMap<ModelSpec["axes"], readonly string[]>();

/**
 * Names of the axes that are padded within a batch, in the order of the spec; most models have none. They are derived
 * once per spec, since every request needs them.
 */
export function paddedAxes({ axes }: WithAxes): readonly string[] {
  let known = names.get(axes);
  if (known === undefined) {
    known = Object.keys(axes).filter((axis) => axes[axis]!.mode === "pad");
    names.set(axes, known);
  }
  return known;
}

const axisOf = (spec: WithAxes, name: string): AxisSpec => spec.axes[name]!;
const longestOf = ({ sizes }: AxisSpec): number => Math.max(1, ...sizes);

export const longestLengths = (spec: WithAxes): number[] =>
  paddedAxes(spec).map((name) => longestOf(axisOf(spec, name)));

/** Lengths to measure and to warm up with. */
export const typicalLengths = (spec: WithAxes): number[] =>
  paddedAxes(spec).map((name) => axisOf(spec, name).typical ?? longestOf(axisOf(spec, name)));

/** Padded lengths of a batch of such rows: each is the next multiple that the axis declares. */
export const grownLengths = (spec: WithAxes, lengths: readonly number[]): number[] =>
  paddedAxes(spec).map((name, i) => {
    const { multiple = 1 } = axisOf(spec, name);
    return multiple * Math.ceil(lengths[i]! / multiple);
  });

/** True for an axis along which nothing is padded: its one size is the only length that is taken. */
export const isExact = ({ mode, sizes, mixed }: AxisSpec): boolean =>
  mode === "bucket" && sizes.length === 1 && mixed !== true;

/** True if rows of unlike lengths may share a run, which needs that padding doesn't change the model's results. */
export const mayMix = (spec: WithAxes): boolean => paddedAxes(spec).every((name) => axisOf(spec, name).mixed !== false);

/** Size hint for a row of these lengths: their product, or 0 where nothing is padded. */
export const unitsOfLengths = (lengths: readonly number[]): number =>
  lengths.length === 0
    ? 0
    : Math.min(
        SIZE_HINT_MAX,
        lengths.reduce((product, length) => product * length, 1),
      );

/** Bytes at the start of a row that hold the lengths of its padded axes, u32 each. */
export const lengthsBytes = (spec: WithAxes): number => alignTo8(4 * paddedAxes(spec).length);

export function writeLengths(row: Uint8Array, lengths: readonly number[]): void {
  const view = new DataView(row.buffer, row.byteOffset, row.byteLength);
  lengths.forEach((length, i) => view.setUint32(4 * i, length, true));
}

/** @returns undefined if this is no row of the model: too short, or with a length that the model doesn't accept */
export function readLengths(spec: WithAxes, row: Uint8Array): number[] | undefined {
  const axes = paddedAxes(spec);
  if (row.byteLength < lengthsBytes(spec)) return undefined;
  const view = new DataView(row.buffer, row.byteOffset, row.byteLength);
  const lengths = axes.map((_, i) => view.getUint32(4 * i, true));
  const fits = lengths.every((length, i) => length >= 1 && length <= longestOf(axisOf(spec, axes[i]!)));
  return fits ? lengths : undefined;
}

/** Sizes of every named axis of a row in a bucket. */
export function sizesOfRow(
  spec: Pick<ModelSpec, "axes" | "buckets">,
  bucket: number,
  lengths: readonly number[],
): Record<string, number> {
  const sizes: Record<string, number> = { ...spec.buckets[bucket] };
  paddedAxes(spec).forEach((name, i) => (sizes[name] = lengths[i]!));
  return sizes;
}

/** Inputs that an engine feeds in each batch: those that publishers send, then those that the executor makes. */
export const fedInputs = ({ inputs, made = [] }: Pick<ModelSpec, "inputs" | "made">): readonly TensorSpec[] =>
  made.length === 0 ? inputs : [...inputs, ...made];

/** Part of an output's axis that belongs to a row of these lengths; undefined: all of it. */
export function ownLength(
  spec: Pick<ModelSpec, "axes" | "cuts">,
  dim: number | string,
  lengths: readonly number[],
): number | undefined {
  if (typeof dim === "number") return undefined;
  const axes = paddedAxes(spec);
  const same = axes.indexOf(dim);
  if (same >= 0) return lengths[same];
  const cut = spec.cuts?.[dim];
  const from = cut === undefined ? -1 : axes.indexOf(cut.axis);
  return from < 0 ? undefined : Math.max(1, Math.floor((lengths[from]! + cut!.add) / cut!.divide));
}

/**
 * Padding value of an input: the value of its first padded axis. A tensor with two axes that pad differently has no
 * better answer.
 */
export function padValueOf({ axes }: WithAxes, { name, dims }: Pick<TensorSpec, "name" | "dims">): number {
  const axis = dims.find((dim) => typeof dim === "string" && axes[dim]?.mode === "pad");
  if (axis === undefined) return 0;
  const { padValue, padValues } = axes[axis]!;
  return padValues?.[name] ?? padValue;
}

/** Finds a padding or made value that its input's type can't hold. @returns which input, and why */
export function paddingProblem(spec: Pick<ModelSpec, "axes" | "inputs" | "made">): string | undefined {
  for (const input of spec.inputs) {
    const value = padValueOf(spec, input);
    if (!canHold(input.type, value)) return `'${input.name}' is ${input.type}, which can't be padded with ${value}`;
  }
  for (const { name, type, made, axis } of spec.made ?? []) {
    const most = made === "mask" ? 1 : (longestLengths(spec)[paddedAxes(spec).indexOf(axis)] ?? 1);
    if (!canHold(type, most)) return `'${name}' is ${type}, which can't hold ${most}`;
  }
  return undefined;
}
