/** Cuts a line of text out of a picture, at any angle. */
import type { RgbImage } from "@tutti/onnx-tools";
import { type Rectangle, cornersOf } from "./rectangle.ts";

/** Height of the input of the recogniser and the classifier, px. */
export const LINE_HEIGHT = 48;
/** Largest width of a line, in heights. A longer one is a misreading of something that is no text; it is squeezed. */
const ASPECT_MAX = 60;

/** Width of a line scaled to a height of 48, its proportions kept. */
export const lineWidth = ({ width, height }: Rectangle): number =>
  Math.max(1, Math.round(LINE_HEIGHT * Math.min(ASPECT_MAX, width / Math.max(height, 1e-6))));

/**
 * Cuts out the part of the picture under the rectangle, with its text running to the right. Sampling is bilinear, with
 * several samples a pixel where the picture is made smaller, so that thin strokes don't fall between them. Beyond the
 * picture's edge, its outermost pixels are repeated.
 */
export function cropLine(
  image: RgbImage,
  rectangle: Rectangle,
  { width, height = LINE_HEIGHT }: { readonly width: number; readonly height?: number },
): RgbImage {
  const [origin, right, , below] = cornersOf(rectangle);
  const across = { x: (right.x - origin.x) / width, y: (right.y - origin.y) / width };
  const down = { x: (below.x - origin.x) / height, y: (below.y - origin.y) / height };
  const [tapsX, tapsY] = [tapsFor(rectangle.width / width), tapsFor(rectangle.height / height)];
  const rgb = new Uint8Array(width * height * 3);
  const sum = new Float64Array(3);
  const share = 1 / (tapsX * tapsY);
  for (let y = 0; y < height; y++) {
    for (let x = 0; x < width; x++) {
      sum.fill(0);
      for (let i = 0; i < tapsY; i++) {
        const v = y + (i + 0.5) / tapsY;
        for (let j = 0; j < tapsX; j++) {
          const u = x + (j + 0.5) / tapsX;
          addSample(image, origin.x + u * across.x + v * down.x, origin.y + u * across.y + v * down.y, sum);
        }
      }
      const at = (y * width + x) * 3;
      for (let c = 0; c < 3; c++) rgb[at + c] = Math.round((sum[c] as number) * share);
    }
  }
  return { rgb, width, height };
}

const TAPS_MAX = 4;
const tapsFor = (scale: number): number => Math.min(TAPS_MAX, Math.max(1, Math.ceil(scale - 0.25)));

/** Adds one bilinear sample to `sum`. It runs for every sample of every line, so it allocates nothing. */
function addSample({ rgb, width, height }: RgbImage, x: number, y: number, sum: Float64Array): void {
  const left = Math.floor(x - 0.5);
  const top = Math.floor(y - 0.5);
  const fx = x - 0.5 - left;
  const fy = y - 0.5 - top;
  const x0 = within(left, width);
  const x1 = within(left + 1, width);
  const above = within(top, height) * width;
  const below = within(top + 1, height) * width;
  for (let i = 0; i < 3; i++) {
    const upper = (rgb[(above + x0) * 3 + i] as number) * (1 - fx) + (rgb[(above + x1) * 3 + i] as number) * fx;
    const lower = (rgb[(below + x0) * 3 + i] as number) * (1 - fx) + (rgb[(below + x1) * 3 + i] as number) * fx;
    sum[i] = (sum[i] as number) + upper * (1 - fy) + lower * fy;
  }
}

const within = (value: number, size: number): number => Math.min(Math.max(value, 0), size - 1);

/** Columns [from, to) of a picture. */
export function columnsOf({ rgb, width, height }: RgbImage, from: number, to: number): RgbImage {
  const cut = new Uint8Array((to - from) * height * 3);
  for (let y = 0; y < height; y++) {
    cut.set(rgb.subarray((y * width + from) * 3, (y * width + to) * 3), y * (to - from) * 3);
  }
  return { rgb: cut, width: to - from, height };
}
