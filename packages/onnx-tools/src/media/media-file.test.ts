import { crc32 } from "node:zlib";
import { TuttiError } from "@tutti/protocol";
import fc from "fast-check";
import sharp from "sharp";
import { expect, test } from "vitest";
import { floatsOf } from "../tensor-values.ts";
import type { ImageInput } from "../presentation.ts";
import { mediaTensors } from "./media-file.ts";
import { pictureTensor } from "./picture-file.ts";

const INPUT: ImageInput = {
  ...{ kind: "image", tensor: "x", resize: "stretch", height: 2, width: 2, order: "rgb" },
  ...{ mean: [0, 0, 0], std: [1 / 255, 1 / 255, 1 / 255] }, // the bytes themselves
};
/** PNG of pixels, row by row. */
const png = async (width: number, ...pixels: (readonly [number, number, number])[]): Promise<Uint8Array> => {
  const raw = { width, height: pixels.length / width, channels: 3 } as const;
  return new Uint8Array(await sharp(Uint8Array.from(pixels.flat()), { raw }).png().toBuffer());
};
const R = [200, 10, 30] as const;
const G = [0, 100, 0] as const;
const rounded = (values: Iterable<number>): number[] => Array.from(values, Math.round);
const valuesOf = async (bytes: Uint8Array, more: Partial<ImageInput> = {}): Promise<[number[], number[]]> => {
  const tensor = await pictureTensor(bytes, { ...INPUT, ...more });
  return [[...tensor.dims], rounded(more.type === "UINT8" ? tensor.data : floatsOf(tensor))];
};

test("channels come first or last, in either order, as floats or bytes, or as one channel of grey", async () => {
  const picture = await png(2, R, R, R, G);
  const planes = [200, 200, 200, 0, 10, 10, 10, 100, 30, 30, 30, 0];
  expect(await valuesOf(picture)).toEqual([[1, 3, 2, 2], planes]);
  const bgr = [...planes.slice(8), ...planes.slice(4, 8), ...planes.slice(0, 4)];
  expect(await valuesOf(picture, { order: "bgr" })).toEqual([[1, 3, 2, 2], bgr]);
  const last = [...R, ...R, ...R, ...G];
  expect(await valuesOf(picture, { layout: "NHWC" })).toEqual([[1, 2, 2, 3], last]);
  expect(await valuesOf(picture, { layout: "NHWC", type: "UINT8" })).toEqual([[1, 2, 2, 3], last]);
  // Rec. 601: 0.299 · 200 + 0.587 · 10 + 0.114 · 30 = 69.09, and 0.587 · 100
  expect(await valuesOf(picture, { order: "grey" })).toEqual([
    [1, 1, 2, 2],
    [69, 69, 69, 59],
  ]);
});

test("means and deviations belong to the channel as the model sees it", async () => {
  const { data } = await pictureTensor(await png(1, [255, 0, 51]), {
    ...{ ...INPUT, height: 1, width: 1, order: "bgr" },
    ...{ mean: [0.2, 0.5, 0], std: [0.1, 0.5, 2] },
  });
  const [b, g, r] = new Float32Array(data.buffer);
  expect(b).toBeCloseTo(0, 6);
  expect(g).toBeCloseTo(-1, 6);
  expect(r).toBeCloseTo(0.5, 6);
});

test("a crop shows the middle, a letterbox everything on grey, and stretching neither keeps proportions nor loses an edge", async () => {
  const wide = await png(6, G, G, R, R, G, G, G, G, R, R, G, G);
  expect((await valuesOf(wide, { resize: "crop" }))[1].slice(0, 4)).toEqual([200, 200, 200, 200]);
  const [dims, boxed] = await valuesOf(wide, { resize: "letterbox", height: 6, width: 6 });
  expect([dims, boxed.slice(0, 6), boxed.slice(12, 18)]).toEqual([
    [1, 3, 6, 6],
    new Array(6).fill(114),
    [0, 0, 200, 200, 0, 0],
  ]);
  expect(boxed.slice(30, 36)).toEqual(new Array(6).fill(114));
  expect((await valuesOf(wide, { height: 2, width: 6 }))[1].slice(0, 6)).toEqual([0, 0, 200, 200, 0, 0]);
});

test("what is transparent is white, and a camera's turn is undone", async () => {
  const clear = await sharp({
    create: { width: 2, height: 2, channels: 4, background: { r: 0, g: 0, b: 0, alpha: 0 } },
  })
    .png()
    .toBuffer();
  expect((await valuesOf(new Uint8Array(clear)))[1]).toEqual(new Array(12).fill(255));
  const left = await png(2, R, G, R, G); // turned by a quarter, its first row is of one colour
  const turned = await sharp(left).withMetadata({ orientation: 6 }).png().toBuffer();
  expect((await valuesOf(new Uint8Array(turned)))[1].slice(0, 4)).toEqual([200, 200, 0, 0]);
});

test("a picture that becomes more than a request may hold is refused, saying so", async () => {
  const large = await sharp({ create: { width: 800, height: 800, channels: 3, background: "white" } })
    .png()
    .toBuffer();
  const fit = { ...INPUT, resize: "fit", height: 640, width: 640 } as const;
  await expect(pictureTensor(new Uint8Array(large), fit)).rejects.toMatchObject({
    code: "TUTTI_TOO_LARGE",
    message: expect.stringContaining("send a smaller one") as string,
  });
});

test("a picture that is very long on one side is refused before it is decoded", async () => {
  for (const [width, height] of [
    [1, 39_000_000],
    [16_385, 1],
  ] as const) {
    const claiming = Buffer.from(await png(2, R, G));
    claiming.writeUInt32BE(width, 16);
    claiming.writeUInt32BE(height, 20);
    claiming.writeUInt32BE(crc32(claiming.subarray(12, 29)), 29);
    await expect(pictureTensor(new Uint8Array(claiming), INPUT)).rejects.toMatchObject({ code: "TUTTI_TOO_LARGE" });
  }
});

test("bytes of any kind become a tensor or a refusal, never anything else", async () => {
  const whole = await png(4, ...Array.from({ length: 16 }, (_, i) => [i, 2 * i, 3 * i] as const));
  const sound = { kind: "sound", tensor: "x", sampleRate: 8_000, rank: 2 } as const;
  await fc.assert(
    fc.asyncProperty(
      fc.oneof(
        fc.uint8Array({ maxLength: 200 }),
        fc.tuple(fc.nat(whole.length - 1), fc.nat(255), fc.nat(whole.length)).map(([at, byte, length]) => {
          const damaged = whole.slice(0, length);
          if (at < length) damaged[at] = byte;
          return damaged;
        }),
      ),
      fc.constantFrom(INPUT, sound),
      async (bytes, input) => {
        const outcome = await mediaTensors(bytes, input).catch((error: unknown) => error);
        if (Array.isArray(outcome)) return;
        expect(outcome).toBeInstanceOf(TuttiError);
        expect(["TUTTI_INVALID_INPUT", "TUTTI_TOO_LARGE"]).toContain((outcome as TuttiError).code);
      },
    ),
    { numRuns: 100 },
  );
});
