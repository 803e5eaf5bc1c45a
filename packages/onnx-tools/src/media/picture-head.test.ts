/** Bounds on pictures, by what their markers say. */
import sharp, { type Sharp } from "sharp";
import { expect, test } from "vitest";
import { scannedJpeg } from "../testing/scanned-jpeg.ts";
import { decodeHere } from "./picture-file.ts";
import { HELD_BYTES_MAX, PICTURE_SCANS_MAX, type PictureHead, checkPictureHead, pictureHead } from "./picture-head.ts";

const drawn = (channels: 3 | 4 = 3) =>
  sharp({ create: { width: 301, height: 200, channels, background: { r: 9, g: 80, b: 7, alpha: 0.5 } } });
const headOf = async (picture: Sharp): Promise<PictureHead> => pictureHead(new Uint8Array(await picture.toBuffer()))!;
const THUMBNAIL = { sideMax: 64 };

test.each([
  ["a JPEG", drawn().jpeg(), { form: "JPEG", decodedBytes: 301 * 200 * 3, heldBytes: 0, scans: 1 }],
  // 4:2:0: a plane of 304 × 200 and two of 152 × 104, 2 bytes a coefficient
  ["progressive", drawn().jpeg({ progressive: true }), { heldBytes: 2 * (304 * 200 + 2 * 152 * 104), scans: 10 }],
  ["a PNG", drawn(4).png(), { form: "PNG", decodedBytes: 301 * 200 * 4, heldBytes: 0, scans: 1 }],
  ["a deep PNG", drawn().toColourspace("rgb16").png(), { decodedBytes: 301 * 200 * 6 }],
  ["interlaced", drawn().png({ progressive: true }), { heldBytes: 301 * 200 * 3 }],
  ["a WebP", drawn().webp(), { form: "WebP", heldBytes: 301 * 200 * 4 }],
  ["a lossless WebP", drawn().webp({ lossless: true }), { heldBytes: 301 * 200 * 4 }],
  ["a WebP with alpha", drawn(4).webp(), { heldBytes: 301 * 200 * 4 }],
])("%s says its size, and what decoding it holds", async (_what, picture, expected) => {
  expect(await headOf(picture)).toMatchObject({ width: 301, height: 200, isArithmetic: false, ...expected });
});

test("scans are counted whatever lies between them, and what follows the end doesn't count", async () => {
  const file = scannedJpeg({ width: 100, height: 80, scans: 91 });
  expect(pictureHead(file)).toMatchObject({ scans: 91, width: 100, height: 80 });
  await expect(decodeHere(scannedJpeg({ width: 100, height: 80, scans: 22 }), THUMBNAIL)).resolves.toMatchObject({
    image: { width: 64 },
  });
  const trailed = new Uint8Array([...(await drawn().jpeg().toBuffer()), 0xff, 0xda, 0, 2, 0xff, 0xda, 0, 2]);
  expect(pictureHead(trailed)!.scans).toBe(1);
  const commented = new Uint8Array([0xff, 0xd8, 0xff, 0xfe, 0, 6, 0xff, 0xda, 0xff, 0xda, ...file.subarray(2)]);
  expect(pictureHead(commented)!.scans).toBe(91);
});

test("a JPEG of many scans or with arithmetic coding, and what is held at once or decoded to too much, are refused", async () => {
  const check =
    (more: Partial<PictureHead>, pixels = 224 * 224) =>
    () =>
      checkPictureHead(
        {
          ...{ form: "JPEG", width: 9, height: 9, decodedBytes: 1, heldBytes: 0, scans: 1, isArithmetic: false },
          ...more,
        },
        pixels,
      );
  expect(check({ scans: PICTURE_SCANS_MAX })).not.toThrow();
  expect(check({ scans: PICTURE_SCANS_MAX + 1 })).toThrow("25 scans: at most 24 are taken");
  expect(check({ isArithmetic: true })).toThrow("save it as a baseline JPEG");
  expect(check({ decodedBytes: 160_000_000 })).not.toThrow();
  expect(check({ decodedBytes: 160_000_001 })).toThrow("161 MB of pixels, at most 160 MB");
  expect(check({ heldBytes: HELD_BYTES_MAX + 16 * 224 * 224 })).not.toThrow();
  expect(check({ heldBytes: HELD_BYTES_MAX + 16 * 224 * 224 + 1 })).toThrow("while it is decoded");
  expect(check({ heldBytes: 2 * HELD_BYTES_MAX }, 2_048 * 2_048)).not.toThrow(); // a model that takes large pictures

  for (const [file, code] of [
    [scannedJpeg({ width: 6_324, height: 6_324, scans: 91 }), "TUTTI_TOO_LARGE"],
    [scannedJpeg({ width: 6_324, height: 6_324, scans: 4 }), "TUTTI_TOO_LARGE"],
    [scannedJpeg({ width: 64, height: 64, scans: 4, frame: 0xca }), "TUTTI_INVALID_INPUT"],
    [scannedJpeg({ width: 64, height: 64, scans: 1, frame: 0xc9 }), "TUTTI_INVALID_INPUT"],
  ] as const)
    await expect(decodeHere(file, THUMBNAIL)).rejects.toMatchObject({ code });
});

test("a head of any length is read without an error", async () => {
  const files = [drawn().jpeg(), drawn().png(), drawn().webp(), drawn().webp({ lossless: true }), drawn(4).webp()];
  for (const file of files) {
    const bytes = new Uint8Array(await file.toBuffer());
    for (let length = 0; length < Math.min(700, bytes.length); length++)
      expect(() => pictureHead(bytes.subarray(0, length))).not.toThrow();
  }
});
