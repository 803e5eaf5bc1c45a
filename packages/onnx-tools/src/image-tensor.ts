import { type Tensor, TuttiError } from "@tutti/protocol";
import type { ImageInput } from "./presentation.ts";

/** A decoded picture: 8-bit RGB, row by row, three bytes a pixel (sharp's `.removeAlpha().raw()`). */
export interface RgbImage {
  readonly rgb: Uint8Array;
  readonly width: number;
  readonly height: number;
}

/** PaddleOCR's recognition and classification: to −1 … 1, in OpenCV's channel order, which it was trained with. */
export const LINE_NORMALISATION = { order: "bgr", mean: [0.5, 0.5, 0.5], std: [0.5, 0.5, 0.5] } as const;
/** PaddleOCR's detection: ImageNet's means and deviations, in OpenCV's channel order. */
export const DETECTION_NORMALISATION = {
  order: "bgr",
  mean: [0.485, 0.456, 0.406],
  std: [0.229, 0.224, 0.225],
} as const;

/** The size to which a picture is resized before `imageTensor`: pictures are resized by whoever decodes them. */
export function resizedTo(
  input: ImageInput,
  image: { readonly width: number; readonly height: number },
): { width: number; height: number } {
  const { width, height } = image;
  switch (input.resize) {
    case "stretch":
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
 * Pixels to a tensor: interleaved bytes become planes of normalised floats.
 *
 * @returns f32[1, 3, height, width]
 * @throws {TuttiError} INVALID_INPUT when the bytes don't fill the size
 */
export function imageTensor(image: RgbImage, input: ImageInput): Tensor {
  const { rgb, width, height } = image;
  const pixels = width * height;
  if (rgb.length !== pixels * 3) {
    const text = `a picture of ${width} × ${height} has ${pixels * 3} bytes of RGB, not ${rgb.length}: remove its alpha channel`;
    throw new TuttiError("TUTTI_INVALID_INPUT", text, { retryable: false });
  }
  const values = new Float32Array(pixels * 3);
  for (let plane = 0; plane < 3; plane++) {
    const channel = input.order === "rgb" ? plane : 2 - plane;
    const table = byteTable(input.mean[plane] as number, input.std[plane] as number);
    let from = channel;
    for (let to = plane * pixels; to < (plane + 1) * pixels; to++, from += 3) {
      values[to] = table[rgb[from] as number] as number;
    }
  }
  return { name: input.tensor, type: "FP32", dims: [1, 3, height, width], data: new Uint8Array(values.buffer) };
}

/** What each byte becomes: 256 divisions instead of one a pixel. */
function byteTable(mean: number, std: number): Float32Array {
  return Float32Array.from({ length: 256 }, (_, byte) => (byte / 255 - mean) / std);
}

const clamp = (value: number, min: number, max: number): number => Math.min(Math.max(value, min), max);
