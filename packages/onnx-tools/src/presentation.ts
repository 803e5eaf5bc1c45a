/**
 * How people's files become a model's tensors and its outputs become text: the `presentation` of a ModelSpec. It travels with the
 * model, so a command line that has never seen the model can still show it a picture.
 */

/** A picture, resized and normalised: channel c becomes (byte / 255 − mean[c]) / std[c]. */
export interface ImageInput {
  readonly kind: "image";
  /** The input that takes it, f32[1, 3, height, width]. */
  readonly tensor: string;
  /**
   * `stretch`: to exactly height × width. `line`: to this height, the width in proportion, at most `width`. `fit`: made smaller to
   * lie within height × width (never larger), sides rounded to a multiple of 32.
   */
  readonly resize: "stretch" | "line" | "fit";
  readonly height: number;
  readonly width: number;
  readonly order: "rgb" | "bgr";
  readonly mean: readonly [number, number, number];
  readonly std: readonly [number, number, number];
}

/** Sound, frame by frame: each frame is sent with the end of the one before it and the state that came back. */
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

export type OutputPresentation =
  /** Greedy CTC: f32[1, steps, classes] with class 0 the blank, then the keys' lines, then the space. */
  | { readonly kind: "ctc"; readonly tensor: string; readonly keys: string }
  /** f32[1, classes]: the likeliest, with its label where there is one. */
  | { readonly kind: "classes"; readonly tensor: string; readonly labels: readonly string[] }
  /** f32[1, 1] in [0, 1]. */
  | { readonly kind: "probability"; readonly tensor: string; readonly of: string }
  /** f32[1, 1, height, width] in [0, 1]: the share of pixels above the threshold. */
  | { readonly kind: "heat-map"; readonly tensor: string; readonly threshold: number };

export interface Presentation {
  readonly input?: ImageInput | AudioInput;
  readonly output?: OutputPresentation;
}

/** Reads a spec's `presentation`; what it doesn't understand it leaves out, since showing numbers is always possible. */
export function presentationOf(given: Readonly<Record<string, unknown>> | undefined): Presentation {
  const input = given?.["input"] as Presentation["input"] | undefined;
  const output = given?.["output"] as Presentation["output"] | undefined;
  const knownInput = input?.kind === "image" || input?.kind === "audio";
  const knownOutput = ["ctc", "classes", "probability", "heat-map"].includes(output?.kind ?? "");
  return { ...(knownInput ? { input } : {}), ...(knownOutput && output !== undefined ? { output } : {}) };
}
