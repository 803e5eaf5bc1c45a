/** From a picture's bytes to pixels, bounded before anything is decoded. */
import { type Tensor, TuttiError } from "@tutti/protocol";
import type { Sharp, SharpConstructor } from "sharp";
import { type RgbImage, imageTensor, resizedTo } from "../image-tensor.ts";
import { TENSOR_BYTES } from "../media-input.ts";
import type { ImageInput } from "../presentation.ts";

/** 40 megapixels, as a good telephone takes; a few KB of PNG can claim to be billions. */
export const PICTURE_PIXELS_MAX = 40_000_000;
/**
 * Of either side: a picture one pixel wide and 39 million high takes 10 s, since each of its rows is filtered and
 * resized by itself.
 */
export const PICTURE_SIDE_MAX = 16_384;
/** YOLO's, which letterboxes were made for. */
const LETTERBOX_GREY = { r: 114, g: 114, b: 114 };

/**
 * Loaded with the first picture: a command line mostly has none. libvips would use a thread a core for one picture,
 * which whoever decodes shares with requests that wait.
 */
async function libvips(): Promise<SharpConstructor> {
  const { default: sharp } = await import("sharp");
  sharp.concurrency(1);
  return sharp;
}

export interface OpenPicture {
  /** Upright, in sRGB, nothing decoded yet. */
  readonly source: Sharp;
  readonly width: number;
  readonly height: number;
}

/**
 * A JPEG, PNG or WebP, turned as its EXIF says, transparent parts white.
 *
 * @param decode - what is done with it; what libvips throws there becomes INVALID_INPUT
 * @throws {TuttiError} TOO_LARGE for too many pixels, in all or of a side; INVALID_INPUT for anything else than a whole
 *   JPEG, PNG or WebP
 */
export async function withPicture<Result>(
  bytes: Uint8Array,
  decode: (picture: OpenPicture) => Promise<Result>,
): Promise<Result> {
  // By its first bytes, since libvips reads many forms, SVG and PDF among them, whose decoders nobody asked for.
  if (!isJpeg(bytes) && !isPng(bytes) && !isWebp(bytes)) throw invalid("neither a JPEG nor a PNG nor a WebP file");
  try {
    const sharp = await libvips();
    const source = sharp(bytes, { limitInputPixels: PICTURE_PIXELS_MAX, autoOrient: true });
    const { autoOrient } = await source.metadata();
    const { width, height } = autoOrient;
    if (Math.max(width, height) > PICTURE_SIDE_MAX)
      throw tooLarge(`a picture of ${width} × ${height}; up to ${PICTURE_SIDE_MAX} pixels a side are taken`);
    if (width * height > PICTURE_PIXELS_MAX)
      throw tooLarge(`a picture of ${width} × ${height}; up to ${PICTURE_PIXELS_MAX} pixels are taken`);
    return await decode({ source, width, height });
  } catch (error) {
    if (error instanceof TuttiError) throw error;
    const text = (error as Error).message;
    if (text.includes("pixel limit")) throw tooLarge(`the picture has more than ${PICTURE_PIXELS_MAX} pixels`);
    throw invalid(`the picture can't be decoded: ${text}`);
  }
}

/** Decodes what is left to decode. */
export async function pixelsOf(picture: Sharp): Promise<RgbImage> {
  const { data, info } = await picture
    .flatten({ background: "white" })
    .toColourspace("srgb")
    .raw()
    .toBuffer({ resolveWithObject: true });
  return { rgb: threeChannels(data, info), width: info.width, height: info.height };
}

/**
 * A picture as a model's input.
 *
 * @throws {TuttiError} as above, and TOO_LARGE where it becomes larger than a request may be
 */
export async function pictureTensor(bytes: Uint8Array, input: ImageInput): Promise<Tensor> {
  const image = await withPicture(bytes, ({ source, width, height }) =>
    pixelsOf(source.resize({ ...resizedTo(input, { width, height }), ...FITS[input.resize] })),
  );
  const tensor = imageTensor(image, input);
  if (tensor.data.byteLength <= TENSOR_BYTES) return tensor;
  const text = `the picture becomes ${image.width} × ${image.height} for this model, ${tensor.data.byteLength} bytes, and a request has at most ${TENSOR_BYTES}: send a smaller one`;
  throw tooLarge(text);
}

const FITS = {
  stretch: { fit: "fill" },
  line: { fit: "fill" },
  fit: { fit: "fill" },
  crop: { fit: "cover" },
  letterbox: { fit: "contain", background: LETTERBOX_GREY },
} as const satisfies Record<ImageInput["resize"], object>;

const startsWith = (bytes: Uint8Array, head: readonly number[], at = 0): boolean =>
  head.every((byte, i) => bytes[at + i] === byte);
const isJpeg = (bytes: Uint8Array): boolean => startsWith(bytes, [0xff, 0xd8, 0xff]);
const isPng = (bytes: Uint8Array): boolean => startsWith(bytes, [0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a]);
/** RIFF….WEBP */
const isWebp = (bytes: Uint8Array): boolean =>
  startsWith(bytes, [0x52, 0x49, 0x46, 0x46]) && startsWith(bytes, [0x57, 0x45, 0x42, 0x50], 8);

/** Grey pictures may come out with one channel. */
function threeChannels(data: Uint8Array, { channels }: { readonly channels: number }): Uint8Array {
  if (channels === 3) return new Uint8Array(data);
  const rgb = new Uint8Array((data.length / channels) * 3);
  for (let i = 0; i < rgb.length; i++) rgb[i] = data[Math.floor(i / 3) * channels] as number;
  return rgb;
}

const tooLarge = (text: string): TuttiError => new TuttiError("TUTTI_TOO_LARGE", text, { retryable: false });
const invalid = (text: string): TuttiError => new TuttiError("TUTTI_INVALID_INPUT", text, { retryable: false });
