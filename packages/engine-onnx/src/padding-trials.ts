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
  /** The axes of the trial's mode, in the order of the spec. */
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
 * The least size of each axis, padded to the next one: both are shapes that the model runs anyway. Where there is only
 * one size, half of it.
 *
 * @returns undefined: no axis is in question, or none grows
 */
export function bucketTrial(spec: ModelSpec): PaddingTrial | undefined {
  const axes = Object.keys(spec.axes).filter((axis) => spec.axes[axis]!.mode === "bucket");
  const unjudged = axes.filter((axis) => spec.axes[axis]!.mixed === undefined);
  const rest = sizesOfRow(spec, 0, grownLengths(spec, typicalLengths(spec)));
  const short: Record<string, number> = { ...rest };
  const long: Record<string, number> = { ...rest };
  for (const axis of unjudged) {
    const [least = 1, next] = spec.axes[axis]!.sizes.toSorted((a, b) => a - b);
    short[axis] = next === undefined ? Math.ceil(least / 2) : least;
    long[axis] = next ?? least;
  }
  if (!axes.some((axis) => long[axis]! > short[axis]!)) return undefined;
  return {
    ...{ axes, unjudged, short, long },
    // Nothing says how outputs follow a bucketed axis: clients get all of them, the row's own part first.
    ownDims: (_, alone, padded) => padded.map((size, i) => Math.min(size, alone[i] ?? size)),
    remedy:
      `Write below axes.${unjudged[0]} in config.yaml: \`mixed: true\` (the difference doesn't matter, or all requests have one of the sizes), ` +
      `or \`mode: pad\` with \`max\` and \`mixed: false\` (no row is padded), \`mask\` or \`lengths\` (an input that tells the model)`,
  };
}
