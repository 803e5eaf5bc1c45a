/**
 * `preprocess` of a model's config.yaml: how a posted picture or sound becomes the model's input. It is checked against
 * the model's inputs when the model is loaded, so that no request fails on it later.
 */
import { BATCH_AXIS, type TensorSpec } from "@tutti/protocol";
import { SOUND_SAMPLES, TENSOR_BYTES, imageBytes, readMediaInput } from "./media-input.ts";
import type { AudioInput, ImageInput, MediaInput, SoundInput } from "./presentation.ts";

/** Exactly one of the two keys. */
export interface PreprocessConfig {
  readonly image?: ImageConfig;
  readonly audio?: AudioConfig;
}
export interface ImageConfig {
  /** By default the model's only input. */
  readonly input?: string;
  /** Height and width; by default the input's own. */
  readonly size?: readonly [number, number];
  /** `stretch` by default. */
  readonly resize?: ImageInput["resize"];
  /** `rgb` by default, `grey` for an input of one channel. */
  readonly channels?: ImageInput["order"];
  /** By default derived from where the input has an axis of 3, or of 1 for grey. */
  readonly layout?: "NCHW" | "NHWC";
  /** Mean of each channel, for values in 0 … 1; one number for all channels. 0 by default. */
  readonly mean?: number | readonly number[];
  /** Standard deviation, likewise; 1 by default. */
  readonly std?: number | readonly number[];
}
export interface AudioConfig {
  readonly input?: string;
  readonly sample_rate: number;
  /** New samples of a frame, where the model takes sound frame by frame. */
  readonly frame?: number;
  /** Recurrent state: the input that takes it, and the output that returns the next one. */
  readonly state?: { readonly input: string; readonly output: string };
}

type Fail = (text: string) => never;
type Inputs = readonly TensorSpec[];

const IMAGE_KEYS = [
  "input",
  "size",
  "resize",
  "channels",
  "layout",
  "mean",
  "std",
] as const satisfies (keyof ImageConfig)[];
const AUDIO_KEYS = ["input", "sample_rate", "frame", "state"] as const satisfies (keyof AudioConfig)[];

/** @param fail - reports what is wrong, naming the key */
export function preprocessOf(
  config: unknown,
  { inputs, outputs }: { readonly inputs: Inputs; readonly outputs: Inputs },
  fail: Fail,
): MediaInput {
  if (!isMap(config) || Object.keys(config).length !== 1)
    return fail("preprocess: {image: {…}} or {audio: {…}} is expected");
  const [[kind, given] = ["", undefined]] = Object.entries(config);
  if (kind !== "image" && kind !== "audio") return fail(`preprocess: image or audio is expected, not '${kind}'`);
  const where = `preprocess.${kind}`;
  const failHere: Fail = (text) => fail(`${where}${text}`);
  if (!isMap(given)) return failHere(": a mapping of keys is expected");
  const known: readonly string[] = kind === "image" ? IMAGE_KEYS : AUDIO_KEYS;
  const unknown = Object.keys(given).find((key) => !known.includes(key));
  if (unknown !== undefined) failHere(`: unknown key '${unknown}'; known are ${known.join(", ")}`);
  return kind === "image" ? imageOf(given, inputs, failHere) : audioOf(given, { inputs, outputs }, failHere);
}

/** Checks an input that is given in the cluster's own form. @param fail - as above */
export function checkedMediaInput(given: unknown, fail: Fail): void {
  if (given !== undefined && readMediaInput(given) === undefined)
    fail("presentation.input can't be understood: write preprocess: {image: {…}} or {audio: {…}} instead");
}

function imageOf(given: Record<string, unknown>, inputs: Inputs, fail: Fail): ImageInput {
  const input = inputOf(given["input"], inputs, fail);
  if (inputs.length > 1) fail(`: the model takes ${inputs.length} inputs, and a picture is one`);
  if (input.type !== "FP32" && input.type !== "UINT8")
    fail(`: '${input.name}' is ${input.type}; pictures become FP32 or UINT8`);
  const type = input.type;
  const order = oneOf(given["channels"], ["rgb", "bgr", "grey"], ".channels", fail);
  const layout = layoutOf(input, oneOf(given["layout"], ["NCHW", "NHWC"], ".layout", fail), order, fail);
  const channels = input.dims[layout === "NCHW" ? 1 : 3];
  const resize = oneOf(given["resize"], ["stretch", "crop", "letterbox", "line", "fit"], ".resize", fail) ?? "stretch";
  const [height, width] = sizeOf(given["size"], input, { layout, resize }, fail);
  if (type === "UINT8" && (given["mean"] !== undefined || given["std"] !== undefined))
    fail(`: '${input.name}' takes bytes as they are (UINT8), without mean and std`);
  const made: ImageInput = {
    ...{ kind: "image", tensor: input.name, resize, height, width },
    order: order ?? (channels === 1 ? "grey" : "rgb"),
    mean: tripleOf(given["mean"], 0, ".mean", fail),
    std: tripleOf(given["std"], 1, ".std", fail),
    ...(layout === "NHWC" && { layout }),
    ...(type === "UINT8" && { type }),
  };
  if (made.std.includes(0)) fail(".std: numbers other than 0");
  // With `fit`, the size depends on each picture and is checked when one comes.
  if (imageBytes(made) > TENSOR_BYTES && resize !== "fit")
    fail(`.size: ${height} × ${width} takes ${imageBytes(made)} bytes, and a request has at most ${TENSOR_BYTES}`);
  return checked(made, fail);
}

function layoutOf(
  { name, dims }: TensorSpec,
  given: "NCHW" | "NHWC" | undefined,
  order: ImageInput["order"] | undefined,
  fail: Fail,
): "NCHW" | "NHWC" {
  const shown = `'${name}' is [${dims.join(", ")}]`;
  if (dims.length !== 4 || dims[0] !== BATCH_AXIS)
    return fail(`: ${shown}; a picture needs [${BATCH_AXIS}, 3, height, width]`);
  const fits = (axis: number): boolean => {
    const channels = dims[axis];
    return (
      typeof channels === "string" ||
      (order === undefined ? channels === 3 || channels === 1 : channels === (order === "grey" ? 1 : 3))
    );
  };
  const fixed = (axis: number): boolean => typeof dims[axis] === "number" && fits(axis);
  const layout = given ?? (fixed(1) ? "NCHW" : fixed(3) ? "NHWC" : fits(1) ? "NCHW" : "NHWC");
  if (!fits(layout === "NCHW" ? 1 : 3))
    fail(
      `${given === undefined ? "" : ".layout"}: ${shown}, which has no ${order === "grey" ? 1 : 3} channels${given === undefined ? "" : ` where ${given} has them`}`,
    );
  return layout;
}

function sizeOf(
  given: unknown,
  { name, dims }: TensorSpec,
  { layout, resize }: { readonly layout: "NCHW" | "NHWC"; readonly resize: ImageInput["resize"] },
  fail: Fail,
): readonly [number, number] {
  const own = layout === "NCHW" ? dims.slice(2) : dims.slice(1, 3);
  const size = given ?? own;
  const isSize =
    Array.isArray(size) && size.length === 2 && size.every((side) => Number.isSafeInteger(side) && side > 0);
  if (!isSize)
    return fail(
      `.size: ${given === undefined ? `'${name}' has no size of its own; give one, ` : ""}[height, width] in pixels is expected`,
    );
  // Resizing that keeps proportions changes a side, so that side's axis can't be fixed.
  const variable = resize === "line" ? [false, true] : resize === "fit" ? [true, true] : [false, false];
  own.forEach((side, i) => {
    if (typeof side === "number" && (side !== size[i] || variable[i] === true))
      fail(
        `.size: '${name}' is [${dims.join(", ")}]: ${variable[i] === true ? `resize ${resize} needs an axis that may vary` : `its size is ${own.join(" × ")}, not ${size.join(" × ")}`}`,
      );
  });
  return size as unknown as readonly [number, number];
}

function audioOf(
  given: Record<string, unknown>,
  { inputs, outputs }: { readonly inputs: Inputs; readonly outputs: Inputs },
  fail: Fail,
): AudioInput | SoundInput {
  const { sample_rate: sampleRate, frame, state } = given;
  if (!isCount(sampleRate)) return fail(".sample_rate: samples a second, such as 16000");
  const isState = isMap(state) && typeof state["input"] === "string" && typeof state["output"] === "string";
  if (state !== undefined && !isState) return fail(".state: {input: name, output: name} is expected");
  const stateInput = isState ? inputs.find(({ name }) => name === state["input"]) : undefined;
  const input = inputOf(
    given["input"],
    inputs.filter((one) => one !== stateInput),
    fail,
  );
  if (input.type !== "FP32") fail(`: '${input.name}' is ${input.type}; sound becomes FP32`);
  if (inputs.length > (isState ? 2 : 1)) fail(`: the model takes ${inputs.length} inputs, and a sound is one`);
  const { dims } = input;
  const samples = dims.at(-1);
  if (!isState) {
    if (frame !== undefined) fail(".frame: frame by frame needs state: {input, output}");
    const rank = dims.length;
    if (dims[0] !== BATCH_AXIS || (rank !== 2 && !(rank === 3 && dims[1] === 1)))
      return fail(
        `: '${input.name}' is [${dims.join(", ")}]; a sound needs [${BATCH_AXIS}, samples] or [${BATCH_AXIS}, 1, samples]`,
      );
    if (typeof samples === "number" && samples > SOUND_SAMPLES)
      fail(`: ${samples} samples don't fit in a request, ${SOUND_SAMPLES} do`);
    return checked(
      {
        kind: "sound",
        tensor: input.name,
        sampleRate,
        rank: rank,
        ...(typeof samples === "number" && { samples }),
      },
      fail,
    );
  }
  if (stateInput?.type !== "FP32" || !outputs.some(({ name }) => name === state["output"]))
    return fail(
      `.state: the model has no input '${String(state["input"])}' of FP32, or no output '${String(state["output"])}'`,
    );
  if (dims.length !== 2 || typeof samples !== "number" || !isCount(frame) || frame > samples)
    return fail(
      `.frame: '${input.name}' is [${dims.join(", ")}]; a frame needs [${BATCH_AXIS}, samples] and at most so many new samples`,
    );
  const stateDims = stateInput.dims.map((dim) => (dim === BATCH_AXIS ? 1 : dim));
  if (!stateDims.every((dim) => typeof dim === "number")) return fail(".state: its size may not vary");
  const made = { input: stateInput.name, output: String(state["output"]), dims: stateDims };
  return checked({ kind: "audio", tensor: input.name, sampleRate, frame, context: samples - frame, state: made }, fail);
}

const checked = <T extends MediaInput>(made: T, fail: Fail): T =>
  readMediaInput(made) === undefined
    ? fail(": a sampling rate of at most 384000 and tensors that fit in a request are expected")
    : made;

function inputOf(given: unknown, inputs: Inputs, fail: Fail): TensorSpec {
  const names = inputs.map(({ name }) => name).join(", ");
  if (given === undefined) return inputs.length === 1 ? inputs[0]! : fail(`.input: name one of ${names}`);
  return (
    inputs.find(({ name }) => name === given) ??
    fail(`.input: the model takes no '${String(given)}'; it takes ${names}`)
  );
}

function oneOf<const T extends string>(given: unknown, choices: readonly T[], key: string, fail: Fail): T | undefined {
  if (given === undefined) return undefined;
  return choices.find((choice) => choice === given) ?? fail(`${key}: one of ${choices.join(", ")} is expected`);
}

function tripleOf(given: unknown, otherwise: number, key: string, fail: Fail): readonly [number, number, number] {
  const list: unknown[] = Array.isArray(given) ? given : [given ?? otherwise];
  const all = list.length === 1 ? [list[0], list[0], list[0]] : list;
  if (all.length !== 3 || !all.every((one) => Number.isFinite(one)))
    return fail(`${key}: a number, or one for each of three channels, is expected`);
  return all as unknown as readonly [number, number, number];
}

const isMap = (value: unknown): value is Record<string, unknown> =>
  typeof value === "object" && value !== null && !Array.isArray(value);
const isCount = (value: unknown): value is number => Number.isSafeInteger(value) && (value as number) > 0;
