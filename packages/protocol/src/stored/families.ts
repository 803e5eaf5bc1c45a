/**
 * Families: models that begin alike and are served as one ModelThread (docs/families.md; docs/algorithms.md, C7).
 * Publishers ask for a variant by its name. The last 8 bytes of a row hold the index of its variant, which reaches the
 * engine as one more input.
 */
import { SLO_US_MAX, TENSORS_MAX, TENSOR_NAME_BYTES_MAX } from "../limits.ts";
import type { ModelSpec } from "./model-spec.ts";
import { type RecordOf, type Static, schema } from "../schema.ts";
import { TensorSpec } from "../messages/tensor.ts";
import { CutSpec } from "./variable-axes.ts";

/** Most models of one family; an index is written as 16 bits. */
export const VARIANTS_MAX = 256;

/** The input of a family that holds each row's variant: UINT16 [batch]. Publishers never send it. */
export const VARIANT_INPUT = "tutti.variant";
/** Bytes of the variant's index at the end of a row. */
const VARIANT_BYTES = 8;

/** Most values that cross the cut: a generous bound that protects readers. */
const CUTS = 4_096;
const tensorName = schema.text(TENSOR_NAME_BYTES_MAX);
const nodes = schema.whole(0, 2 ** 31);

const part = {
  offset: schema.count,
  bytes: schema.count,
  nodes,
  /** Inputs of the request that the part reads. */
  inputs: schema.list(tensorName, TENSORS_MAX),
};
/** A part of a family's file. */
export type PartSpec = RecordOf<typeof part>;

const PrefixSpec = schema.record({
  ...part,
  /**
   * Values that the prefix hands over, each with the axis of its rows. Along it, rows of different variants are
   * separated.
   */
  cut: schema.list(schema.record({ name: tensorName, batchAxis: schema.whole(0, 32) }), CUTS),
});
export type PrefixSpec = Static<typeof PrefixSpec>;

const SuffixSpec = schema.record({
  ...part,
  /** Which output of the prefix (`from`) goes to which input of this part (`to`). */
  feeds: schema.list(schema.record({ from: tensorName, to: tensorName }), CUTS),
});
export type SuffixSpec = Static<typeof SuffixSpec>;

/** One model of a family, as its publishers know it. */
const VariantSpec = schema.record({
  name: schema.name,
  version: schema.text(),
  slo: schema.slo,
  outputs: schema.list(TensorSpec, TENSORS_MAX),
  cuts: schema.optional(schema.map(CutSpec)),
  presentation: schema.optional(schema.map(schema.unchecked())),
  /** Size, sha256 and node count of its own file, which nothing loads any more. */
  whole: schema.optional(schema.record({ bytes: schema.count, sha256: schema.text(), nodes })),
  /** Absent in an emulated family. */
  suffix: schema.optional(SuffixSpec),
});
export type VariantSpec = Static<typeof VariantSpec>;

const milliseconds = schema.between(0, SLO_US_MAX / 1_000);
/** Duration of emulated runs: α·b + β for b rows. */
const LinePace = schema.record({ alphaMs: milliseconds, betaMs: milliseconds });
export type LinePace = Static<typeof LinePace>;

export const FamilySpec = schema.also(
  schema.record({
    variants: schema.distinct(VariantSpec, VARIANTS_MAX, ({ name }) => name),
    /** Absent in an emulated family. */
    prefix: schema.optional(PrefixSpec),
    /**
     * Latencies of an emulated family. The prefix runs over the whole batch, then the suffix once for each variant in
     * the batch, over that variant's rows.
     */
    pace: schema.optional(schema.record({ prefix: LinePace, suffix: LinePace })),
  }),
  ({ variants, prefix, pace }) =>
    variants.length > 0 &&
    (prefix !== undefined || pace !== undefined) &&
    variants.every(({ suffix }) => (suffix === undefined) === (prefix === undefined)),
);
export type FamilySpec = Static<typeof FamilySpec>;

/** True if all parts of a family lie within its file. */
export const partsFit = ({ prefix, variants }: FamilySpec, fileBytes: number): boolean =>
  [prefix, ...variants.map(({ suffix }) => suffix)].every(
    (one) => one === undefined || one.offset + one.bytes <= fileBytes,
  );

/** The input of a family that publishers don't send: each row's variant. */
export const variantInput = (): TensorSpec => ({ name: VARIANT_INPUT, type: "UINT16", dims: ["batch"] });

const views = new WeakMap<ModelSpec, readonly ModelSpec[]>();

/**
 * A variant as a model of its own: its inputs, its outputs, its SLO. Its number, and so its thread, is the family's.
 * The views are made once per family, since every request needs one.
 */
export function variantView(family: ModelSpec, index: number): ModelSpec {
  let known = views.get(family);
  if (known === undefined) {
    known = (family.family?.variants ?? []).map((variant, i) => viewOf(family, variant, i));
    views.set(family, known);
  }
  return known[index]!;
}

function viewOf(family: ModelSpec, variant: VariantSpec, index: number): ModelSpec {
  const { family: _, cuts: __, presentation: ___, file: ____, ...kept } = family;
  const { name, version, slo, outputs, cuts, presentation } = variant;
  return {
    ...{ ...kept, name, version, slo, outputs },
    inputs: family.inputs.filter((input) => input.name !== VARIANT_INPUT),
    ...(cuts !== undefined && { cuts }),
    ...(presentation !== undefined && { presentation }),
    variant: { family: family.name, index },
  };
}

/** Bytes at the end of a row that the publisher did not send. */
export const variantBytes = ({ variant }: Pick<ModelSpec, "variant">): number =>
  variant === undefined ? 0 : VARIANT_BYTES;

/** @param row - a row of a family: its last 8 bytes are the index */
export function writeVariant(row: Uint8Array, index: number): void {
  const at = row.byteLength - VARIANT_BYTES;
  row[at] = index & 255;
  row[at + 1] = index >> 8;
}

/** Number of variants of a model; 0 if it is no family. */
export const variantCount = ({ family }: Pick<ModelSpec, "family">): number => family?.variants.length ?? 0;
