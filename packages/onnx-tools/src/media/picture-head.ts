/**
 * Reads from a picture's markers what decoding it takes, so that a file that was made to be expensive is refused before
 * anything is decoded.
 *
 *   PICTURE-1. Memory: a progressive JPEG, an interlaced PNG and a WebP are held whole while they are decoded. That may
 *              take HELD_BYTES_MAX, and four pixels of four bytes for each that the model takes.
 *   PICTURE-2. Work: at most PICTURE_PIXELS_MAX pixels of four bytes come out of a decoder, and a JPEG has at most
 *              PICTURE_SCANS_MAX scans, each of which goes through all of it.
 *   PICTURE-3. Coding: arithmetic coding, which no camera writes and few readers know, is refused.
 */
import { TuttiError } from "@tutti/protocol";

/** Most pixels: 40 megapixels, as a good telephone takes. A few KB of PNG can claim to be billions. */
export const PICTURE_PIXELS_MAX = 40_000_000;
/** Most scans of a JPEG: encoders write 10 to 13, and one for each coefficient is possible. */
export const PICTURE_SCANS_MAX = 24;
/** Memory while decoding, whatever the model takes: 21 megapixels of progressive JPEG, 16 of WebP. */
export const HELD_BYTES_MAX = 67_108_864;

export interface PictureHead {
  readonly form: "JPEG" | "PNG" | "WebP";
  readonly width: number;
  readonly height: number;
  /** Bytes of all pixels as the decoder makes them. */
  readonly decodedBytes: number;
  /** Bytes that are held at once since the file can't be decoded row by row; 0: it can. */
  readonly heldBytes: number;
  /** Scans of a JPEG; 1 for other forms. */
  readonly scans: number;
  readonly isArithmetic: boolean;
}

/**
 * @returns undefined for anything else than a JPEG, PNG or WebP file. A head that breaks off has zeros, and no decoder
 *   takes it.
 */
export function pictureHead(bytes: Uint8Array): PictureHead | undefined {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  if (startsWith(bytes, [0xff, 0xd8, 0xff])) return jpegHead(bytes, view);
  if (startsWith(bytes, [0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a])) return pngHead(view);
  const isWebp = startsWith(bytes, ascii("RIFF")) && startsWith(bytes, ascii("WEBP"), 8);
  return isWebp ? webpHead(bytes, view) : undefined;
}

/**
 * @param pixels - that the model takes
 * @throws {TuttiError} TOO_LARGE or INVALID_INPUT, saying what to send instead
 */
export function checkPictureHead(head: PictureHead, pixels: number): void {
  const { form, width, height, decodedBytes, heldBytes, scans, isArithmetic } = head;
  const what = `a ${form} of ${width} × ${height}`;
  if (isArithmetic)
    throw refusal("TUTTI_INVALID_INPUT", `${what} with arithmetic coding isn't read: save it as a baseline JPEG`);
  if (scans > PICTURE_SCANS_MAX)
    throw refusal(
      "TUTTI_TOO_LARGE",
      `${what} with ${scans} scans: at most ${PICTURE_SCANS_MAX} are taken, save it as a baseline JPEG`,
    );
  const decodedMax = 4 * PICTURE_PIXELS_MAX;
  if (decodedBytes > decodedMax)
    throw refusal(
      "TUTTI_TOO_LARGE",
      `${what} takes ${megabytes(decodedBytes)} of pixels, at most ${megabytes(decodedMax)}`,
    );
  const heldMax = HELD_BYTES_MAX + 16 * pixels;
  if (heldBytes > heldMax)
    throw refusal(
      "TUTTI_TOO_LARGE",
      `${what} takes ${megabytes(heldBytes)} while it is decoded, and at most ${megabytes(heldMax)} for this model: send a smaller one, or a baseline JPEG`,
    );
}

/** Reads markers as libjpeg does: what lies between them is skipped, and so is what follows the end of the image. */
function jpegHead(bytes: Uint8Array, view: DataView): PictureHead {
  let frame = { width: 0, height: 0, components: 0, samples: 0 };
  let [scans, isArithmetic, isHeld] = [0, false, false];
  for (let at = bytes.indexOf(0xff, 2); at >= 0; at = bytes.indexOf(0xff, at)) {
    while (bytes[at] === 0xff) at++;
    const marker = bytes[at++] ?? JPEG_END;
    if (marker === JPEG_END) break;
    if (!hasSegment(marker)) continue;
    const length = uint16(view, at);
    if (isFrame(marker)) {
      frame = frameOf(view, at + 2);
      isArithmetic ||= marker > JPEG_RESERVED;
      isHeld ||= marker === JPEG_PROGRESSIVE || marker === JPEG_PROGRESSIVE_ARITHMETIC;
    } else if (marker === JPEG_SCAN) {
      scans++;
      // A scan of some components only: the others' scans are awaited.
      isHeld ||= (bytes[at + 2] ?? 0) < frame.components;
    }
    at += Math.max(2, length);
  }
  const { width, height, components, samples } = frame;
  return {
    ...{ form: "JPEG", width, height, decodedBytes: width * height * components },
    ...{ heldBytes: isHeld ? 2 * samples : 0, scans, isArithmetic },
  };
}

const JPEG_END = 0xd9;
const JPEG_SCAN = 0xda;
const JPEG_PROGRESSIVE = 0xc2;
const JPEG_PROGRESSIVE_ARITHMETIC = 0xca;
/** Frames beyond this one are coded arithmetically. */
const JPEG_RESERVED = 0xc8;
/** Whether a length follows: not after stuffed bytes, restarts, or what libjpeg takes for neither. */
const hasSegment = (marker: number): boolean => marker >= 0xc0 && !(marker >= 0xd0 && marker <= 0xd8);
const isFrame = (marker: number): boolean =>
  marker >= 0xc0 && marker <= 0xcf && ![0xc4, JPEG_RESERVED, 0xcc].includes(marker);

/** Size of a frame, and the coefficients of all its components. */
function frameOf(view: DataView, at: number) {
  const [height, width, components] = [uint16(view, at + 1), uint16(view, at + 3), uint8(view, at + 5)];
  const factors = Array.from({ length: components }, (_, i) => {
    const both = uint8(view, at + 7 + 3 * i);
    return [both >> 4, both & 15] as const;
  });
  const [across, down] = [0, 1].map((axis) => Math.max(1, ...factors.map((one) => one[axis]!))) as [number, number];
  const sides = (size: number, factor: number, of: number): number => 8 * Math.ceil((size * factor) / of / 8);
  const samples = factors.reduce((sum, [h, v]) => sum + sides(width, h, across) * sides(height, v, down), 0);
  return { width, height, components, samples };
}

/** Channels of the colour types; a palette becomes RGB, with alpha where an entry is transparent. */
const PNG_CHANNELS: Readonly<Record<number, number>> = { 0: 1, 2: 3, 3: 4, 4: 2, 6: 4 };

function pngHead(view: DataView): PictureHead {
  const [width, height] = [uint32(view, 16), uint32(view, 20)];
  const [depth, type, interlacing] = [uint8(view, 24), uint8(view, 25), uint8(view, 28)];
  const decodedBytes = width * height * (PNG_CHANNELS[type] ?? 4) * (depth === 16 ? 2 : 1);
  return {
    ...{ form: "PNG", width, height, decodedBytes, heldBytes: interlacing === 0 ? 0 : decodedBytes },
    ...{ scans: 1, isArithmetic: false },
  };
}

function webpHead(bytes: Uint8Array, view: DataView): PictureHead {
  const { width, height } = webpSize(bytes, view);
  const heldBytes = 4 * width * height;
  return { form: "WebP", width, height, decodedBytes: heldBytes, heldBytes, scans: 1, isArithmetic: false };
}

function webpSize(bytes: Uint8Array, view: DataView): { readonly width: number; readonly height: number } {
  const uint24 = (at: number): number => uint16(view, at, true) | (uint8(view, at + 2) << 16);
  if (startsWith(bytes, ascii("VP8X"), 12)) return { width: uint24(24) + 1, height: uint24(27) + 1 };
  if (startsWith(bytes, ascii("VP8L"), 12)) {
    const size = uint32(view, 21, true);
    return { width: (size & 0x3fff) + 1, height: ((size >>> 14) & 0x3fff) + 1 };
  }
  return { width: uint16(view, 26, true) & 0x3fff, height: uint16(view, 28, true) & 0x3fff };
}

const ascii = (text: string): number[] => [...text].map((letter) => letter.charCodeAt(0));
const startsWith = (bytes: Uint8Array, head: readonly number[], at = 0): boolean =>
  head.every((byte, i) => bytes[at + i] === byte);
const uint8 = (view: DataView, at: number): number => (at < view.byteLength ? view.getUint8(at) : 0);
const uint16 = (view: DataView, at: number, isLittle = false): number =>
  at + 2 <= view.byteLength ? view.getUint16(at, isLittle) : 0;
const uint32 = (view: DataView, at: number, isLittle = false): number =>
  at + 4 <= view.byteLength ? view.getUint32(at, isLittle) : 0;

const megabytes = (bytes: number): string => `${Math.ceil(bytes / 1e6)} MB`;
const refusal = (code: "TUTTI_TOO_LARGE" | "TUTTI_INVALID_INPUT", text: string): TuttiError =>
  new TuttiError(code, text, { retryable: false });
