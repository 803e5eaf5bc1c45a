/** From a picture's bytes to pixels, bounded before anything is decoded. */
import { type Tensor, TuttiError } from "@tutti/protocol";
import type { Sharp, SharpConstructor } from "sharp";
import { type RgbImage, imageTensor, resizedTo } from "../image-tensor.ts";
import { TENSOR_BYTES } from "../media-input.ts";
import type { ImageInput } from "../presentation.ts";

/** Most pixels: 40 megapixels, as a good telephone takes. A few KB of PNG can claim to be billions. */
export const PICTURE_PIXELS_MAX = 40_000_000;
/**
 * Longest side, px. A picture one pixel wide and 39 million high takes 10 s, since each of its rows is filtered and
 * resized by itself.
 */
export const PICTURE_SIDE_MAX = 16_384;
/** YOLO's padding grey, for which letterboxes were made. */
const LETTERBOX_GREY = { r: 114, g: 114, b: 114 };

/**
 * Loads libvips with the first picture, since a command line mostly has none. It is limited to one thread. By default
 * it uses a thread per core for one picture, and would take them from waiting requests.
 */
async function libvips(): Promise<SharpConstructor> {
  const { default: sharp } = await import("sharp");
  sharp.concurrency(1);
  return sharp;
}

export interface OpenPicture {
  /** The picture upright, in sRGB, with nothing decoded yet. */
  readonly source: Sharp;
  readonly width: number;
  readonly height: number;
}

/**
 * Opens a JPEG, PNG or WebP, turned as its EXIF says, transparent parts white.
 *
 * @param decode - uses the opened picture; what libvips throws there becomes INVALID_INPUT
 * @throws {TuttiError} TOO_LARGE for too many pixels, in all or of a side; INVALID_INPUT for anything else than a whole
 *   JPEG, PNG or WebP
 */
export async function withPicture<Result>(
  bytes: Uint8Array,
  decode: (picture: OpenPicture) => Promise<Result>,
): Promise<Result> {
  // Check the first bytes: libvips reads many other forms, such as SVG and PDF, whose decoders are not wanted here.
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

/** Decodes the picture to 8-bit RGB. */
export async function pixelsOf(picture: Sharp): Promise<RgbImage> {
  const { data, info } = await picture
    .flatten({ background: "white" })
    .toColourspace("srgb")
    .raw()
    .toBuffer({ resolveWithObject: true });
  return { rgb: threeChannels(data, info), width: info.width, height: info.height };
}

/**
 * Converts a picture file to a model's input.
 *
 * @throws {TuttiError} as above, and TOO_LARGE where the tensor becomes larger than a request may be
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
/** True for RIFF….WEBP. */
const isWebp = (bytes: Uint8Array): boolean =>
  startsWith(bytes, [0x52, 0x49, 0x46, 0x46]) && startsWith(bytes, [0x57, 0x45, 0x42, 0x50], 8);

/** Copies to three channels: grey pictures may come out with one. */
function threeChannels(data: Uint8Array, { channels }: { readonly channels: number }): Uint8Array {
  if (channels === 3) return new Uint8Array(data);
  const rgb = new Uint8Array((data.length / channels) * 3);
  for (let i = 0; i < rgb.length; i++) rgb[i] = data[Math.floor(i / 3) * channels] as number;
  return rgb;
}

const tooLarge = (text: string): TuttiError => new TuttiError("TUTTI_TOO_LARGE", text, { retryable: false });
const invalid = (text: string): TuttiError => new TuttiError("TUTTI_INVALID_INPUT", text, { retryable: false });
