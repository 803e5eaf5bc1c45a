/**
 * Families: models that begin alike and are served as one ModelThread (docs/families.md; docs/algorithms.md, C7).
 * Publishers ask for a variant by its name. The last 8 bytes of a row hold the index of its variant, which reaches the
 * engine as one more input.
 */
import type { Micros } from "@tutti/units";
import { isName } from "./limits.ts";
import type { ModelSpec, TensorSpec } from "./model-spec.ts";
import { SLO_US_MAX, TENSORS_MAX, TENSOR_NAME_BYTES_MAX } from "./limits.ts";
import type { CutSpec } from "./variable-axes.ts";

/** Most models of one family; an index is written as 16 bits. */
export const VARIANTS_MAX = 256;

/** The input of a family that holds each row's variant: UINT16 [batch]. Publishers never send it. */
export const VARIANT_INPUT = "tutti.variant";
/** Bytes of the variant's index at the end of a row. */
const VARIANT_BYTES = 8;

/** A part of a family's file. */
export interface PartSpec {
  readonly offset: number;
  readonly bytes: number;
  readonly nodes: number;
  /** Inputs of the request that the part reads. */
  readonly inputs: readonly string[];
}

export interface PrefixSpec extends PartSpec {
  /**
   * Values that the prefix hands over, each with the axis of its rows. Along it, rows of different variants are
   * separated.
   */
  readonly cut: readonly { readonly name: string; readonly batchAxis: number }[];
}

export interface SuffixSpec extends PartSpec {
  /** Which output of the prefix (`from`) goes to which input of this part (`to`). */
  readonly feeds: readonly { readonly from: string; readonly to: string }[];
}

/** One model of a family, as its publishers know it. */
export interface VariantSpec {
  readonly name: string;
  readonly version: string;
  readonly slo: Micros;
  readonly outputs: readonly TensorSpec[];
  readonly cuts?: Readonly<Record<string, CutSpec>>;
  readonly presentation?: Readonly<Record<string, unknown>>;
  /** Size, sha256 and node count of its own file, which nothing loads any more. */
  readonly whole?: { readonly bytes: number; readonly sha256: string; readonly nodes: number };
  /** Absent in an emulated family. */
  readonly suffix?: SuffixSpec;
}

/** Duration of emulated runs: α·b + β for b rows. */
export interface LinePace {
  readonly alphaMs: number;
  readonly betaMs: number;
}

export interface FamilySpec {
  readonly variants: readonly VariantSpec[];
  /** Absent in an emulated family. */
  readonly prefix?: PrefixSpec;
  /**
   * Latencies of an emulated family. The prefix runs over the whole batch, then the suffix once for each variant in the
   * batch, over that variant's rows.
   */
  readonly pace?: { readonly prefix: LinePace; readonly suffix: LinePace };
}

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

type Unknown<T> = { readonly [K in keyof T]?: unknown };
const isMap = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === "object" && value !== null && !Array.isArray(value);
const isWhole = (value: unknown, most: number): value is number =>
  Number.isSafeInteger(value) && (value as number) >= 0 && (value as number) <= most;
const isTensorName = (value: unknown): boolean => typeof value === "string" && value.length <= TENSOR_NAME_BYTES_MAX;
/** Most values that cross the cut: a generous bound that protects readers. */
const CUTS = 4_096;
const NODES = 2 ** 31;
const isListOf = (value: unknown, most: number, isItem: (item: unknown) => boolean): boolean =>
  Array.isArray(value) && value.length <= most && value.every(isItem);

const isPart = (value: unknown, fileBytes: number): boolean => {
  if (!isMap(value)) return false;
  const { offset, bytes, nodes, inputs }: Unknown<PartSpec> = value;
  return (
    isWhole(offset, fileBytes) &&
    isWhole(bytes, fileBytes - offset) &&
    isWhole(nodes, NODES) &&
    isListOf(inputs, TENSORS_MAX, isTensorName)
  );
};
const isPrefix = (value: unknown, fileBytes: number): boolean => {
  if (!isPart(value, fileBytes)) return false;
  const { cut }: Unknown<PrefixSpec> = value as Unknown<PrefixSpec>;
  return isListOf(cut, CUTS, (one) => isMap(one) && isTensorName(one["name"]) && isWhole(one["batchAxis"], 32));
};
const isSuffix = (value: unknown, fileBytes: number): boolean => {
  if (!isPart(value, fileBytes)) return false;
  const { feeds }: Unknown<SuffixSpec> = value as Unknown<SuffixSpec>;
  return isListOf(feeds, CUTS, (feed) => isMap(feed) && isTensorName(feed["from"]) && isTensorName(feed["to"]));
};
const isLine = (value: unknown): boolean =>
  isMap(value) &&
  [value["alphaMs"], value["betaMs"]].every((ms) => typeof ms === "number" && ms >= 0 && ms <= SLO_US_MAX / 1000);

export interface FamilyChecks {
  readonly fileBytes: number | undefined;
  readonly isTensor: (value: unknown) => boolean;
  readonly isCuts: (value: unknown) => boolean;
}

/** Validates everything that readers of a family rely on (T8), also that the file and its parts agree. */
export function isFamily(value: unknown, { fileBytes, isTensor, isCuts }: FamilyChecks): value is FamilySpec {
  if (!isMap(value)) return false;
  const { variants, prefix, pace }: Unknown<FamilySpec> = value;
  const isEmulated = prefix === undefined;
  if (
    isEmulated ? !isMap(pace) || !isLine(pace["prefix"]) || !isLine(pace["suffix"]) : !isPrefix(prefix, fileBytes ?? 0)
  )
    return false;
  const isVariant = (one: unknown): boolean => {
    if (!isMap(one)) return false;
    const { name, version, slo, outputs, cuts, presentation, suffix }: Unknown<VariantSpec> = one;
    return (
      typeof name === "string" &&
      isName(name) &&
      typeof version === "string" &&
      isWhole(slo, SLO_US_MAX) &&
      slo > 0 &&
      isListOf(outputs, TENSORS_MAX, isTensor) &&
      (cuts === undefined || isCuts(cuts)) &&
      (presentation === undefined || isMap(presentation)) &&
      (isEmulated ? suffix === undefined : isSuffix(suffix, fileBytes ?? 0))
    );
  };
  if (!isListOf(variants, VARIANTS_MAX, isVariant)) return false;
  const names = (variants as VariantSpec[]).map(({ name }) => name);
  return names.length > 0 && new Set(names).size === names.length;
}
