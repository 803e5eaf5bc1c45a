/** Decodes a file's bytes to pixels; sizes are bounded before anything is decoded. */
import { type ImageInput, type RgbImage, imageTensor } from "@tutti/onnx-tools";
import { type DecodedPicture, type PictureDecoder, decodeHere } from "@tutti/onnx-tools/media";
import { TuttiError } from "@tutti/protocol";
import type { StepTensor } from "@tutti/ports/steps";
import sharp from "sharp";

/** Largest file. A larger one is no picture of text, and an ingress takes no more either (REQUEST_BYTES_MAX). */
export const PICTURE_BYTES_MAX = 4_194_304;
/**
 * Longest side of the picture from which lines are cut. Text that is unreadable at this size is unreadable at full size
 * too.
 */
const KEPT_SIDE_MAX = 2_048;
/** Most pixels of the detector's input, so that it fits in one request as f32 and in its largest bucket. */
const DETECTOR_PIXELS_MAX = 341_000;

/**
 * Decodes a JPEG, PNG or WebP to at most KEPT_SIDE_MAX pixels a side, turned as its EXIF says, transparent parts white.
 *
 * @param decode - default: in this process
 * @throws {TuttiError} TOO_LARGE for too many bytes or pixels; INVALID_INPUT for anything else than a whole JPEG, PNG
 *   or WebP
 */
export async function decodePicture(bytes: Uint8Array, decode: PictureDecoder = decodeHere): Promise<DecodedPicture> {
  if (bytes.byteLength > PICTURE_BYTES_MAX) {
    const text = `a picture of ${bytes.byteLength} bytes; up to ${PICTURE_BYTES_MAX} are taken`;
    throw new TuttiError("TUTTI_TOO_LARGE", text, { retryable: false });
  }
  return decode(bytes, { sideMax: KEPT_SIDE_MAX });
}

/**
 * The size of the picture for the detector. It is never larger than the original, and both sides are multiples of 32:
 * its network halves them five times and adds the halves up again.
 *
 * @param sideMax - a multiple of 32
 */
export function detectorSize(
  { width, height }: { readonly width: number; readonly height: number },
  sideMax: number,
): { readonly width: number; readonly height: number } {
  const scale = Math.min(1, sideMax / width, sideMax / height, Math.sqrt(DETECTOR_PIXELS_MAX / (width * height)));
  const side = (size: number): number => Math.min(sideMax, Math.max(32, Math.round((size * scale) / 32) * 32));
  const found = { width: side(width), height: side(height) };
  if (found.width * found.height <= DETECTOR_PIXELS_MAX) return found;
  return found.width > found.height ? { ...found, width: found.width - 32 } : { ...found, height: found.height - 32 };
}

/** @returns the pixels, resized without regard to proportions */
export async function resized(
  image: RgbImage,
  size: { readonly width: number; readonly height: number },
): Promise<RgbImage> {
  if (image.width === size.width && image.height === size.height) return image;
  const raw = { width: image.width, height: image.height, channels: 3 } as const;
  const data = await sharp(image.rgb, { raw })
    .resize({ ...size, fit: "fill" })
    .raw()
    .toBuffer();
  return { rgb: new Uint8Array(data), ...size };
}

/** A picture as a model's input. */
export function pictureTensor(image: RgbImage, input: ImageInput): StepTensor & { data: Float32Array<ArrayBuffer> } {
  const { dims, data } = imageTensor(image, input);
  return { type: "FP32", dims, data: new Float32Array(data.buffer as ArrayBuffer) };
}
