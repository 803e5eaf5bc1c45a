import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { deflateSync } from "node:zlib";
import fc from "fast-check";
import sharp from "sharp";
import { expect, test } from "vitest";
import { PICTURE_BYTES_MAX, decodePicture, detectorSize } from "./index.ts";

const fixture = (name: string): Uint8Array<ArrayBuffer> =>
  new Uint8Array(readFileSync(fileURLToPath(new URL(`../fixtures/${name}`, import.meta.url))));
const refusal = (bytes: Uint8Array): Promise<unknown> =>
  decodePicture(bytes).then(
    () => "decoded",
    (error: unknown) => error,
  );

test("JPEG, PNG and WebP are decoded to three bytes a pixel", async () => {
  for (const [name, width, height] of [
    ["receipt.jpg", 420, 630],
    ["sizes.png", 640, 420],
  ] as const) {
    const { image, ...size } = await decodePicture(fixture(name));
    expect(size).toEqual({ width, height });
    expect([image.width, image.height, image.rgb.length]).toEqual([width, height, width * height * 3]);
  }
  const webp = new Uint8Array(await sharp(fixture("sizes.png")).webp({ lossless: true }).toBuffer());
  expect(await decodePicture(webp)).toEqual(await decodePicture(fixture("sizes.png")));
});

test("grey, 16-bit, palette and transparent pictures become RGB, what is transparent white", async () => {
  const clear = sharp({ create: { width: 8, height: 4, channels: 4, background: { r: 0, g: 0, b: 0, alpha: 0 } } });
  const pictures = {
    grey: sharp(fixture("sizes.png")).greyscale().png(),
    deep: sharp(fixture("sizes.png")).toColourspace("rgb16").png(),
    palette: sharp(fixture("sizes.png")).png({ palette: true }),
    cmyk: sharp(fixture("sizes.png")).toColourspace("cmyk").jpeg(),
  };
  for (const [name, picture] of Object.entries(pictures)) {
    const { image } = await decodePicture(new Uint8Array(await picture.toBuffer()));
    expect([name, image.rgb.length]).toEqual([name, 640 * 420 * 3]);
    expect([name, Math.min(...image.rgb.subarray(0, 30)) > 240]).toEqual([name, true]); // the corner is white
  }
  const { image } = await decodePicture(new Uint8Array(await clear.png().toBuffer()));
  expect(new Set(image.rgb)).toEqual(new Set([255]));
});

test("a picture that its camera marks as turned is decoded upright", async () => {
  const turned = await sharp(fixture("receipt.jpg")).withMetadata({ orientation: 6 }).jpeg().toBuffer();
  const { image, width, height } = await decodePicture(new Uint8Array(turned));
  expect([width, height, image.width, image.height]).toEqual([630, 420, 630, 420]);
});

test("a large picture is kept at 2,048 pixels a side, and knows its own size", async () => {
  const large = await sharp(fixture("receipt.jpg")).resize({ width: 3_000 }).jpeg().toBuffer();
  const { image, width, height } = await decodePicture(new Uint8Array(large));
  expect([width, height, image.height]).toEqual([3_000, 4_500, 2_048]);
});

test("what is no JPEG, PNG or WebP is refused before anything decodes it, also in forms that the library knows", async () => {
  const svg = new TextEncoder().encode('<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"/>');
  const gif = new Uint8Array(await sharp(fixture("sizes.png")).gif().toBuffer());
  for (const bytes of [new Uint8Array(0), Uint8Array.of(0xff), new TextEncoder().encode("no picture"), svg, gif]) {
    expect(await refusal(bytes)).toMatchObject({
      code: "TUTTI_INVALID_INPUT",
      message: /neither a JPEG nor a PNG nor a WebP/,
    });
  }
});

test("a file cut off or damaged anywhere is decoded or refused as invalid, never anything else", async () => {
  for (const name of ["upside-down-line.png", "sign.jpg"]) {
    const whole = fixture(name);
    expect(await refusal(whole.subarray(0, whole.length / 2))).toMatchObject({ code: "TUTTI_INVALID_INPUT" });
    await fc.assert(
      fc.asyncProperty(fc.nat(whole.length - 1), fc.nat(255), fc.nat(whole.length), async (at, byte, length) => {
        const damaged = whole.slice(0, length);
        if (at < length) damaged[at] = byte;
        const outcome = await refusal(damaged);
        if (outcome !== "decoded")
          expect(["TUTTI_INVALID_INPUT", "TUTTI_TOO_LARGE"]).toContain((outcome as { code: string }).code);
      }),
      { numRuns: 40 },
    );
  }
});

test("a small file that claims to be a huge picture, and a huge file, are refused as too large", async () => {
  const bomb = pngOf(50_000, 50_000);
  expect(bomb.length).toBeLessThan(100);
  expect(await refusal(bomb)).toMatchObject({ code: "TUTTI_TOO_LARGE", retryable: false });
  const long = new Uint8Array(PICTURE_BYTES_MAX + 1);
  long.set(fixture("sign.jpg"));
  expect(await refusal(long)).toMatchObject({ code: "TUTTI_TOO_LARGE" });
});

test("the detector sees a picture no larger than it is, in multiples of 32, within its bucket and one request", () => {
  expect(detectorSize({ width: 640, height: 480 }, 640)).toEqual({ width: 640, height: 480 });
  expect(detectorSize({ width: 420, height: 630 }, 640)).toEqual({ width: 416, height: 640 });
  expect(detectorSize({ width: 4_000, height: 3_000 }, 640)).toEqual({ width: 640, height: 480 });
  expect(detectorSize({ width: 1, height: 2_000 }, 640)).toEqual({ width: 32, height: 640 });
  const size = fc.integer({ min: 1, max: 40_000 });
  fc.assert(
    fc.property(size, size, (width, height) => {
      const found = detectorSize({ width, height }, 640);
      for (const [side, own] of [
        [found.width, width],
        [found.height, height],
      ] as const) {
        expect(side % 32).toBe(0);
        expect(side).toBeGreaterThanOrEqual(32);
        expect(side).toBeLessThanOrEqual(Math.max(32, Math.min(640, own + 16)));
      }
      expect(found.width * found.height * 3 * 4).toBeLessThanOrEqual(PICTURE_BYTES_MAX);
    }),
  );
});

/** A PNG whose header says so, with next to no pixels behind it. */
function pngOf(width: number, height: number): Uint8Array {
  const header = Buffer.alloc(13);
  header.writeUInt32BE(width, 0);
  header.writeUInt32BE(height, 4);
  header.set([8, 2, 0, 0, 0], 8);
  const chunk = (type: string, data: Uint8Array): Buffer => {
    const body = Buffer.concat([Buffer.from(type), data]);
    const ends = Buffer.alloc(8);
    ends.writeUInt32BE(data.length, 0);
    ends.writeUInt32BE(crc32(body), 4);
    return Buffer.concat([ends.subarray(0, 4), body, ends.subarray(4)]);
  };
  const signature = Buffer.of(0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a);
  const parts = [chunk("IHDR", header), chunk("IDAT", deflateSync(Buffer.alloc(8))), chunk("IEND", Buffer.alloc(0))];
  return new Uint8Array(Buffer.concat([signature, ...parts]));
}

function crc32(bytes: Uint8Array): number {
  let crc = 0xffffffff;
  for (const byte of bytes) {
    crc ^= byte;
    for (let bit = 0; bit < 8; bit++) crc = (crc >>> 1) ^ (crc & 1 ? 0xedb88320 : 0);
  }
  return (crc ^ 0xffffffff) >>> 0;
}
