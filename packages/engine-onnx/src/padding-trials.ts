/** Which row of a model is padded to what, to see whether that changes its answer (padding-check.ts). */
import {
  type ModelSpec,
  grownLengths,
  longestLengths,
  ownLength,
  paddedAxes,
  sizesOfRow,
  typicalLengths,
} from "@tutti/protocol";

type Sizes = Readonly<Record<string, number>>;

export interface PaddingTrial {
  /** The axes whose sizes a refusal names, in the order of the spec. */
  readonly axes: readonly string[];
  /** Those of them whose operator hasn't said whether padding matters. */
  readonly unjudged: readonly string[];
  /** Sizes of every axis of the row; those that grow are shorter than in `long`. */
  readonly short: Sizes;
  readonly long: Sizes;
  /** The part of a padded output that is the row's own. */
  readonly ownDims: (output: number, alone: readonly number[], padded: readonly number[]) => number[];
  /** The advice for a model that padding changes. */
  readonly remedy: string;
}

/**
 * Half of the typical lengths, padded to the typical or the longest ones. Axes that have been judged are long in both.
 *
 * @returns undefined: no axis is in question, or all rows grow to one length
 */
export function padTrial(spec: ModelSpec): PaddingTrial | undefined {
  const axes = paddedAxes(spec);
  const unjudged = axes.filter((axis) => spec.axes[axis]!.mixed === undefined);
  const half = typicalLengths(spec).map((length) => Math.ceil(length / 2));
  const short = grownLengths(spec, half);
  for (const lengths of [typicalLengths(spec), longestLengths(spec)]) {
    const long = grownLengths(spec, lengths);
    const own = short.map((length, i) => (unjudged.includes(axes[i]!) ? length : long[i]!));
    if (!long.some((length, i) => length > own[i]!)) continue;
    return {
      ...{ axes, unjudged, short: sizesOfRow(spec, 0, own), long: sizesOfRow(spec, 0, long) },
      ownDims: (output, _, padded) =>
        padded.map((size, i) => Math.min(size, ownLength(spec, spec.outputs[output]!.dims[i] ?? size, own) ?? size)),
      remedy:
        `Write one of these below axes.${unjudged[0]} in config.yaml: \`mixed: false\` (only rows of equal length share a run), ` +
        `\`mask\` or \`lengths\` (an input that tells the model), or \`mixed: true\` (the difference doesn't matter)`,
    };
  }
  return undefined;
}

/**
 * Each size of each axis, padded to the next one: all are shapes that the model runs anyway. The axes grow together, so
 * there are as many trials as the longest of them has sizes to grow to. Along an axis with one size nothing is padded.
 *
 * @returns none: no axis is in question, or none grows
 */
export function bucketTrials(spec: ModelSpec): PaddingTrial[] {
  const together: Growth[][] = [];
  for (const [axis, { mode, mixed, sizes }] of Object.entries(spec.axes)) {
    if (mode !== "bucket" || mixed !== undefined) continue;
    const [least = 1, ...larger] = sizes.toSorted((a, b) => a - b);
    let short = least;
    for (const [step, long] of larger.entries()) {
      (together[step] ??= []).push({ axis, short, long });
      short = long;
    }
  }
  return together.map((group) => bucketTrial(spec, group));
}

/** Sizes of an axis before and after padding. */
interface Growth {
  readonly axis: string;
  readonly short: number;
  readonly long: number;
}

/** @param growths - of the axes that are padded; all others are as in any row */
function bucketTrial(spec: ModelSpec, growths: readonly Growth[]): PaddingTrial {
  const rest = sizesOfRow(spec, 0, grownLengths(spec, typicalLengths(spec)));
  const axes = growths.map(({ axis }) => axis);
  return {
    ...{ axes, unjudged: axes },
    short: { ...rest, ...Object.fromEntries(growths.map(({ axis, short }) => [axis, short])) },
    long: { ...rest, ...Object.fromEntries(growths.map(({ axis, long }) => [axis, long])) },
    // Nothing says how outputs follow a bucketed axis: clients get all of them, the row's own part first.
    ownDims: (_, alone, padded) => padded.map((size, i) => Math.min(size, alone[i] ?? size)),
    remedy:
      `Write below axes.${axes[0]} in config.yaml: \`mode: pad\` with \`max\` and \`mixed: false\` (no row is padded), ` +
      `\`mask\` or \`lengths\` (an input that tells the model), one size (rows of exactly that length), ` +
      `or \`mixed: true\` (the difference doesn't matter, or all requests have one of the sizes)`,
  };
}
