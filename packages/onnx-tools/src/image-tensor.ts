import { type Tensor, TuttiError } from "@tutti/protocol";
import type { ImageInput } from "./presentation.ts";

/** A decoded picture: 8-bit RGB, row by row, three bytes a pixel (sharp's `.removeAlpha().raw()`). */
export interface RgbImage {
  readonly rgb: Uint8Array;
  readonly width: number;
  readonly height: number;
}

/** PaddleOCR's recognition and classification: to −1 … 1, in OpenCV's channel order, in which they were trained. */
export const LINE_NORMALISATION = { order: "bgr", mean: [0.5, 0.5, 0.5], std: [0.5, 0.5, 0.5] } as const;
/** PaddleOCR's detection: ImageNet's means and deviations, in OpenCV's channel order. */
export const DETECTION_NORMALISATION = {
  order: "bgr",
  mean: [0.485, 0.456, 0.406],
  std: [0.229, 0.224, 0.225],
} as const;

/** The size to which a picture is resized before `imageTensor`. The decoder does the resizing. */
export function resizedTo(
  input: ImageInput,
  image: { readonly width: number; readonly height: number },
): { width: number; height: number } {
  const { width, height } = image;
  switch (input.resize) {
    case "stretch":
    case "crop":
    case "letterbox":
      return { width: input.width, height: input.height };
    case "line":
      return { width: clamp(Math.ceil((width * input.height) / height), 1, input.width), height: input.height };
    case "fit": {
      const scale = Math.min(1, input.width / width, input.height / height);
      const side = (size: number, max: number): number => clamp(Math.round((size * scale) / 32) * 32, 32, max);
      return { width: side(width, input.width), height: side(height, input.height) };
    }
  }
}

/**
 * Converts pixels to a tensor: planes of normalised floats by default, or the layout and type that `input` says.
 *
 * @returns [1, 3, height, width], or [1, height, width, 3] where `layout` is NHWC; one channel where `order` is grey
 * @throws {TuttiError} INVALID_INPUT when the bytes don't fill the size
 */
export function imageTensor(image: RgbImage, input: ImageInput): Tensor {
  const { rgb, width, height } = image;
  const pixels = width * height;
  if (rgb.length !== pixels * 3) {
    const text = `a picture of ${width} × ${height} has ${pixels * 3} bytes of RGB, not ${rgb.length}: remove its alpha channel`;
    throw new TuttiError("TUTTI_INVALID_INPUT", text, { retryable: false });
  }
  const channels = input.order === "grey" ? 1 : 3;
  const source = channels === 1 ? luma(rgb) : rgb;
  const last = input.layout === "NHWC";
  const values = input.type === "UINT8" ? new Uint8Array(pixels * channels) : new Float32Array(pixels * channels);
  for (let plane = 0; plane < channels; plane++) {
    const table =
      input.type === "UINT8" ? undefined : byteTable(input.mean[plane] as number, input.std[plane] as number);
    let from = input.order === "bgr" ? 2 - plane : plane;
    let to = last ? plane : plane * pixels;
    const step = last ? channels : 1;
    for (let pixel = 0; pixel < pixels; pixel++, from += channels, to += step) {
      const byte = source[from] as number;
      values[to] = table === undefined ? byte : (table[byte] as number);
    }
  }
  const dims = last ? [1, height, width, channels] : [1, channels, height, width];
  return { name: input.tensor, type: input.type ?? "FP32", dims, data: new Uint8Array(values.buffer) };
}

/** Normalised value of each byte: 256 divisions instead of one a pixel. */
function byteTable(mean: number, std: number): Float32Array {
  return Float32Array.from({ length: 256 }, (_, byte) => (byte / 255 - mean) / std);
}

/**
 * Grey by Rec. 601, as Pillow's "L" and OpenCV compute it, which models are trained with. libvips' own grey is computed
 * in linear light and differs.
 */
function luma(rgb: Uint8Array): Uint8Array {
  const grey = new Uint8Array(rgb.length / 3);
  for (let i = 0, from = 0; i < grey.length; i++, from += 3)
    grey[i] = Math.round(
      0.299 * (rgb[from] as number) + 0.587 * (rgb[from + 1] as number) + 0.114 * (rgb[from + 2] as number),
    );
  return grey;
}

const clamp = (value: number, min: number, max: number): number => Math.min(Math.max(value, min), max);
