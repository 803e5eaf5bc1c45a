/** `axes` and `cut` of a model's config: which axes vary, how they are served, and how outputs follow them. */
import { type AxisSpec, BATCH_AXIS, type CutSpec, type MadeSpec, type TensorSpec, paddedAxes } from "@tutti/protocol";
import { UNNAMED_AXIS } from "./model-description.ts";

export interface AxisConfig {
  /**
   * How the axis is served. `bucket` (the default): padded up to one of `sizes`, each with a queue of its own; one size
   * alone is taken exactly. `pad`: one queue, padded to the longest row of a batch.
   */
  readonly mode?: "bucket" | "pad";
  /** Mode `bucket`: the sizes to pad to. */
  readonly sizes?: readonly number[];
  /** Value that fills the padding. Mode `pad` also accepts one value per input, where they differ. */
  readonly pad_value?: number | Readonly<Record<string, number>>;
  /** Mode `pad`: the longest length that is accepted. */
  readonly max?: number;
  /** Mode `pad`: a batch's length is a multiple of this, so that few shapes occur. */
  readonly multiple?: number;
  /** Mode `pad`: the length to measure and warm up with; by default `max`. */
  readonly typical?: number;
  /**
   * Left out, an executor tries padding when it loads the model, and refuses one whose results it changes; true skips
   * that. Mode `pad` also knows false: rows run together only if their lengths round up to the same multiple.
   */
  readonly mixed?: boolean;
  /**
   * Mode `pad`: the mask input, 1 where a row has data and 0 in the padding. The executor makes it; nobody sends it.
   */
  readonly mask?: string;
  /** Mode `pad`: the input that receives each row's length. The executor makes it; nobody sends it. */
  readonly lengths?: string;
}
export interface CutConfig {
  readonly axis: string;
  readonly divide?: number;
  readonly add?: number;
}

/** The keys of ModelConfig that concern axes. */
export interface AxesConfig {
  readonly axes?: Readonly<Record<string, AxisConfig>>;
  /**
   * How axes of outputs follow axes in mode `pad`: ⌊(length + add) / divide⌋. An output axis named like an input axis
   * has that axis's length; `none` marks an axis that follows nothing.
   */
  readonly cut?: Readonly<Record<string, CutConfig | "none">>;
}

/** Most runs that a batch of unlike lengths may be split into when its rows can't be mixed. */
export const PARTS_MAX = 16;

type Fail = (text: string) => never;

/** Names of the inputs that the executor makes, which nobody sends. */
export function madeNames({ axes = {} }: AxesConfig): ReadonlySet<string> {
  const names = Object.values(axes).flatMap(({ mask, lengths }) => [mask, lengths]);
  return new Set(names.filter((name) => name !== undefined));
}

export function axesOf(config: AxesConfig, inputs: readonly TensorSpec[], fail: Fail): Record<string, AxisSpec> {
  const used = new Set<string>();
  for (const { name, dims } of inputs) {
    if (dims.filter((dim) => dim === BATCH_AXIS).length > 1) fail(`input '${name}' has two batch axes`);
    for (const dim of dims) {
      if (typeof dim === "number" || dim === BATCH_AXIS) continue;
      if (dim === UNNAMED_AXIS)
        fail(
          `input '${name}' has an axis without a name: say in config.yaml input: [{name: ${name}, dims: [${dims.join(", ")}]}] ` +
            `with its length in place of ${UNNAMED_AXIS}, or with a name and how that is served, as axes: {L: {mode: pad, max: 128, mixed: false}}`,
        );
      if (config.axes?.[dim] === undefined) {
        fail(
          `axis '${dim}' of input '${name}' is variable: say in config.yaml how it is served, as axes: {${dim}: {sizes: [128]}} ` +
            `(that length alone) or axes: {${dim}: {mode: pad, max: 128, mixed: false}} (rows of equal length share a run). ` +
            `Where padding changes no answer: {mode: pad, max: 128} (to the longest of a batch) or {sizes: [64, 128]} (to the next size)`,
        );
      }
      used.add(dim);
    }
  }
  const axes: Record<string, AxisSpec> = {};
  for (const [axis, given] of Object.entries(config.axes ?? {})) {
    if (!used.has(axis)) fail(`axes: no input has an axis '${axis}'`);
    axes[axis] = given.mode === "pad" ? paddedAxis(axis, given, { inputs, fail }) : bucketAxis(axis, given, fail);
  }
  return axes;
}

const isSize = (size: unknown): size is number => Number.isSafeInteger(size) && (size as number) > 0;

function bucketAxis(axis: string, given: AxisConfig, fail: Fail): AxisSpec {
  const sizes = [...new Set(given.sizes)].sort((a, b) => a - b);
  if (sizes.length === 0 || !sizes.every(isSize)) fail(`axes.${axis}.sizes: whole numbers above zero are expected`);
  if (typeof given.pad_value === "object") fail(`axes.${axis}.pad_value: one number, for all inputs`);
  for (const key of ["max", "multiple", "typical", "mask", "lengths"] as const)
    if (given[key] !== undefined) fail(`axes.${axis}.${key}: only of an axis in mode pad`);
  const { mixed } = given;
  if (mixed === false)
    fail(`axes.${axis}.mixed: false only of an axis in mode pad; write mode: pad and max to keep rows from padding`);
  return { mode: "bucket", sizes, padValue: given.pad_value ?? 0, ...(mixed === true && { mixed }) };
}

function paddedAxis(
  axis: string,
  { max, multiple = 1, typical = max, mixed, pad_value: padding = 0, sizes }: AxisConfig,
  { inputs, fail }: { readonly inputs: readonly TensorSpec[]; readonly fail: Fail },
): AxisSpec {
  if (sizes !== undefined)
    fail(`axes.${axis}.sizes: only of an axis in mode bucket; give max, and multiple if you like`);
  if (!isSize(max)) return fail(`axes.${axis}.max: the longest that is taken, a whole number above zero`);
  if (!isSize(multiple) || multiple > max) fail(`axes.${axis}.multiple: a whole number from 1 to ${max}`);
  if (!isSize(typical) || typical > max) fail(`axes.${axis}.typical: a whole number from 1 to ${max}`);
  const padValues = typeof padding === "number" ? undefined : padding;
  for (const name of Object.keys(padValues ?? {})) {
    if (!inputs.some((input) => input.name === name && input.dims.includes(axis)))
      fail(`axes.${axis}.pad_value: no input '${name}' has that axis`);
  }
  return {
    mode: "pad",
    sizes: [max],
    padValue: typeof padding === "number" ? padding : 0,
    ...(padValues !== undefined && { padValues }),
    ...(multiple > 1 && { multiple }),
    ...(typical !== max && { typical: typical! }),
    ...(mixed !== undefined && { mixed }),
  };
}

/** @param candidates - the file's inputs that `madeNames` names */
export function madeOf(config: AxesConfig, candidates: readonly TensorSpec[], fail: Fail): MadeSpec[] {
  const made: MadeSpec[] = [];
  for (const [axis, given] of Object.entries(config.axes ?? {})) {
    for (const kind of ["mask", "lengths"] as const) {
      const name = given[kind];
      if (name === undefined) continue;
      const tensor = candidates.find((candidate) => candidate.name === name);
      if (tensor === undefined) return fail(`axes.${axis}.${kind}: the file has no input '${name}'`);
      const taken = new Set<number | string>([BATCH_AXIS, 1, ...(kind === "mask" ? [axis] : [])]);
      if (!tensor.dims.every((dim) => taken.has(dim)))
        fail(
          `axes.${axis}.${kind}: '${name}' is [${tensor.dims.join(", ")}], and should have ${[...taken].join(", ")}`,
        );
      if (made.some((other) => other.name === name)) fail(`axes.${axis}.${kind}: '${name}' is named twice`);
      made.push({ ...tensor, made: kind, axis });
    }
  }
  return made;
}

/**
 * Determines which output axes are cut back to each request's length. The config must cover every variable output axis:
 * an uncovered one would silently return padding.
 */
export function cutsOf(
  config: AxesConfig,
  shapes: { readonly axes: Readonly<Record<string, AxisSpec>>; readonly outputs: readonly TensorSpec[] },
  fail: Fail,
): Record<string, CutSpec> {
  const padded = paddedAxes(shapes);
  const cuts: Record<string, CutSpec> = {};
  for (const [name, cut] of Object.entries(config.cut ?? {})) {
    if (!shapes.outputs.some(({ dims }) => dims.includes(name))) fail(`cut: no output has an axis '${name}'`);
    if (cut === "none") continue;
    const { axis, divide = 1, add = 0 } = cut;
    if (!padded.includes(axis)) fail(`cut.${name}.axis: '${axis}' is no axis in mode pad`);
    if (!isSize(divide)) fail(`cut.${name}.divide: a whole number above zero`);
    if (add !== 0 && !isSize(add)) fail(`cut.${name}.add: a whole number, 0 or more`);
    cuts[name] = { axis, divide, add };
  }
  if (padded.length === 0) return cuts;
  for (const { name, dims } of shapes.outputs) {
    for (const dim of dims) {
      if (typeof dim === "number" || dim === BATCH_AXIS || shapes.axes[dim] !== undefined) continue;
      if (config.cut?.[dim] !== undefined) continue;
      fail(
        `axis '${dim}' of output '${name}': say how it follows, cut: {${dim}: {axis: ${padded[0]}, divide: 1}}, or cut: {${dim}: none}`,
      );
    }
  }
  return cuts;
}

const isNumbers = (value: unknown): value is number[] =>
  Array.isArray(value) && value.every((one) => typeof one === "number");
const isMap = (value: unknown): value is Record<string, unknown> =>
  typeof value === "object" && value !== null && !Array.isArray(value);

const KEYS: Readonly<Record<keyof AxisConfig, (value: unknown) => boolean>> = {
  mode: (value) => value === "bucket" || value === "pad",
  sizes: isNumbers,
  pad_value: (value) => typeof value === "number" || (isMap(value) && isNumbers(Object.values(value))),
  max: (value) => typeof value === "number",
  multiple: (value) => typeof value === "number",
  typical: (value) => typeof value === "number",
  mixed: (value) => typeof value === "boolean",
  mask: (value) => typeof value === "string",
  lengths: (value) => typeof value === "string",
};

export function isAxisConfig(value: unknown): value is AxisConfig {
  if (!isMap(value)) return false;
  const isGood = ([key, given]: [string, unknown]): boolean =>
    Object.hasOwn(KEYS, key) && KEYS[key as keyof AxisConfig](given);
  return Object.entries(value).every(isGood) && (value["mode"] === "pad" || value["sizes"] !== undefined);
}

export function isCutConfig(value: unknown): value is CutConfig | "none" {
  if (value === "none") return true;
  if (!isMap(value) || typeof value["axis"] !== "string") return false;
  const { axis: _, ...rest } = value;
  return Object.entries(rest).every(([key, given]) => (key === "divide" || key === "add") && typeof given === "number");
}
