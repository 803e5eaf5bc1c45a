/** From a picture's bytes to pixels, bounded before anything is decoded. */
import { type Tensor, TuttiError } from "@tutti/protocol";
import type { ResizeOptions, Sharp, SharpConstructor } from "sharp";
import { type RgbImage, imageTensor, resizedTo } from "../image-tensor.ts";
import { TENSOR_BYTES } from "../media-input.ts";
import type { ImageInput } from "../presentation.ts";
import { PICTURE_PIXELS_MAX, checkPictureHead, pictureHead } from "./picture-head.ts";

/**
 * Longest side, px. A picture one pixel wide and 39 million high takes 10 s, since each of its rows is filtered and
 * resized by itself.
 */
export const PICTURE_SIDE_MAX = 16_384;
/** YOLO's padding grey, for which letterboxes were made. */
const LETTERBOX_GREY = { r: 114, g: 114, b: 114 };

/** The result of decoding: a model's input, or a picture with no side above this one. */
export type PictureTarget = { readonly input: ImageInput } | { readonly sideMax: number };

export interface DecodedPicture {
  readonly image: RgbImage;
  /** Size of the picture in the file, upright. */
  readonly width: number;
  readonly height: number;
}

/**
 * Decodes a JPEG, PNG or WebP to 8-bit RGB, turned as its EXIF says, transparent parts white, resized for its target.
 *
 * @param bytes - borrowed until the promise settles
 * @throws {TuttiError} TOO_LARGE for what takes too much to decode (`picture-head.ts`); INVALID_INPUT for anything else
 *   than a whole JPEG, PNG or WebP
 */
export type PictureDecoder = (bytes: Uint8Array, target: PictureTarget) => Promise<DecodedPicture>;

/** Decodes in this process: for a command line, and for the process that decodes apart. */
export const decodeHere: PictureDecoder = async (bytes, target) => {
  const head = pictureHead(bytes);
  // libvips reads many other forms, such as SVG and PDF, whose decoders are not wanted here.
  if (head === undefined) throw invalid("neither a JPEG nor a PNG nor a WebP file");
  if (Math.max(head.width, head.height) > PICTURE_SIDE_MAX)
    throw tooLarge(`a picture of ${head.width} × ${head.height}; up to ${PICTURE_SIDE_MAX} pixels a side are taken`);
  if (head.width * head.height > PICTURE_PIXELS_MAX)
    throw tooLarge(`a picture of ${head.width} × ${head.height}; up to ${PICTURE_PIXELS_MAX} pixels are taken`);
  const most = "input" in target ? target.input : { width: target.sideMax, height: target.sideMax };
  checkPictureHead(head, most.width * most.height);
  try {
    const sharp = await libvips();
    const source = sharp(bytes, { limitInputPixels: PICTURE_PIXELS_MAX, autoOrient: true });
    const { autoOrient: size } = await source.metadata();
    const image = await pixelsOf(source.resize(resizing(target, size)));
    return { image, width: size.width, height: size.height };
  } catch (error) {
    throw invalid(`the picture can't be decoded: ${(error as Error).message}`);
  }
};

/**
 * Loads libvips with the first picture, since a command line mostly has none. It is limited to one thread. By default
 * it uses a thread per core for one picture, and would take them from waiting requests. It caches nothing: no picture
 * comes twice.
 */
async function libvips(): Promise<SharpConstructor> {
  const { default: sharp } = await import("sharp");
  sharp.concurrency(1);
  sharp.cache(false);
  return sharp;
}

const resizing = (target: PictureTarget, size: { readonly width: number; readonly height: number }): ResizeOptions =>
  "input" in target
    ? { ...resizedTo(target.input, size), ...FITS[target.input.resize] }
    : { width: target.sideMax, height: target.sideMax, fit: "inside", withoutEnlargement: true };

async function pixelsOf(picture: Sharp): Promise<RgbImage> {
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
export async function pictureTensor(
  bytes: Uint8Array,
  input: ImageInput,
  decode: PictureDecoder = decodeHere,
): Promise<Tensor> {
  const { image } = await decode(bytes, { input });
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

/** Copies to three channels: grey pictures may come out with one. */
function threeChannels(data: Uint8Array, { channels }: { readonly channels: number }): Uint8Array {
  if (channels === 3) return new Uint8Array(data);
  const rgb = new Uint8Array((data.length / channels) * 3);
  for (let i = 0; i < rgb.length; i++) rgb[i] = data[Math.floor(i / 3) * channels] as number;
  return rgb;
}

const tooLarge = (text: string): TuttiError => new TuttiError("TUTTI_TOO_LARGE", text, { retryable: false });
const invalid = (text: string): TuttiError => new TuttiError("TUTTI_INVALID_INPUT", text, { retryable: false });
