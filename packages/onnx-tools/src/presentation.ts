/**
 * The `presentation` of a ModelSpec: how files become a model's tensors and its outputs become text. It travels with
 * the model, so a command line or a gateway that has never seen the model can still show it a picture.
 */
import { readMediaInput } from "./media-input.ts";

/** A picture, resized and normalised: channel c becomes (byte / 255 − mean[c]) / std[c]. */
export interface ImageInput {
  readonly kind: "image";
  /** The input that takes the picture, [1, 3, height, width] unless `layout` says otherwise. */
  readonly tensor: string;
  /**
   * How to resize. `stretch`: to exactly height × width. `crop`: to cover height × width, keeping the middle.
   * `letterbox`: to lie within it, centred on grey. `line`: to this height, the width in proportion, at most `width`.
   * `fit`: made smaller to lie within height × width (never larger), sides rounded to a multiple of 32.
   */
  readonly resize: "stretch" | "crop" | "letterbox" | "line" | "fit";
  readonly height: number;
  readonly width: number;
  /** Channel order. `grey`: one channel instead of three, with the first numbers of mean and std. */
  readonly order: "rgb" | "bgr" | "grey";
  readonly mean: readonly [number, number, number];
  readonly std: readonly [number, number, number];
  /** NHWC: channels last. Default: NCHW. */
  readonly layout?: "NCHW" | "NHWC";
  /** UINT8: the bytes as they are, without mean and std. Default: FP32. */
  readonly type?: "FP32" | "UINT8";
}

/** Sound, frame by frame. Each frame is sent with the end of the frame before it and the state that came back. */
export interface AudioInput {
  readonly kind: "audio";
  /** The input that takes a frame, f32[1, context + frame]. */
  readonly tensor: string;
  readonly sampleRate: number;
  readonly frame: number;
  readonly context: number;
  /** The input that takes the state, zero at first, and the output that gives the next one. */
  readonly state: { readonly input: string; readonly output: string; readonly dims: readonly number[] };
}

/** Sound sent whole, in one request. */
export interface SoundInput {
  readonly kind: "sound";
  /** The input that takes the sound. */
  readonly tensor: string;
  readonly sampleRate: number;
  /** Rank of the tensor, which is [1, samples] or [1, 1, samples]. */
  readonly rank: 2 | 3;
  /** Exact number of samples; shorter sounds are padded with silence. Default: as many as the sound has. */
  readonly samples?: number;
}

export type MediaInput = ImageInput | AudioInput | SoundInput;

export type OutputPresentation =
  /** Greedy CTC: f32[1, steps, classes] with class 0 the blank, then the keys' lines, then the space. */
  | { readonly kind: "ctc"; readonly tensor: string; readonly keys: string }
  /** f32[1, classes]: the likeliest class, with its label if it has one. */
  | { readonly kind: "classes"; readonly tensor: string; readonly labels: readonly string[] }
  /** f32[1, 1] in [0, 1]. */
  | { readonly kind: "probability"; readonly tensor: string; readonly of: string }
  /** f32[1, 1, height, width] in [0, 1]: the share of pixels above the threshold. */
  | { readonly kind: "heat-map"; readonly tensor: string; readonly threshold: number };

export interface Presentation {
  readonly input?: MediaInput;
  readonly output?: OutputPresentation;
}

/**
 * Reads a spec's `presentation`. Entries that it doesn't understand are left out, since numbers can always be shown.
 */
export function presentationOf(given: Readonly<Record<string, unknown>> | undefined): Presentation {
  const input = readMediaInput(given?.["input"]);
  const output = given?.["output"] as Presentation["output"] | undefined;
  const knownOutput = ["ctc", "classes", "probability", "heat-map"].includes(output?.kind ?? "");
  return { ...(input !== undefined && { input }), ...(knownOutput && output !== undefined ? { output } : {}) };
}
