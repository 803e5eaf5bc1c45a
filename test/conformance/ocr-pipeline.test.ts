/**
 * The OCR pipeline on the real models: pictures in, text out. Other pictures than the committed ones: `node
 * packages/pipeline-ocr/fixtures/draw.ts 8 folder`, then TUTTI_OCR_PICTURES=folder.
 */
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import type { Engine } from "@tutti/ports/engine";
import { startOnnxEngine } from "@tutti/engine-onnx";
import type { TextLine } from "@tutti/pipeline-ocr";
import sharp from "sharp";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type OcrChain, loadOcrChain } from "./ocr-chain.ts";

const folder =
  process.env["TUTTI_OCR_PICTURES"] ?? fileURLToPath(new URL("../../packages/pipeline-ocr/fixtures", import.meta.url));
const picture = (name: string): Uint8Array => new Uint8Array(readFileSync(join(folder, name)));
const expected = JSON.parse(readFileSync(join(folder, "expected.json"), "utf8")) as Record<string, readonly string[]>;

const cacheDir = mkdtempSync(join(tmpdir(), "tutti-ocr-"));
let engine: Engine;
let chain: OcrChain;
beforeAll(async () => {
  engine = await startOnnxEngine();
  chain = await loadOcrChain(engine, { cacheDir });
});
afterAll(async () => {
  await new Promise<void>((done) => engine.stop(done));
  rmSync(cacheDir, { recursive: true });
});

test("98 % of the characters of the drawn pictures are read right, spaces and order counted", async () => {
  let [wrong, all] = [0, 0];
  for (const [name, lines] of Object.entries(expected)) {
    const { lines: found } = await chain.read(picture(name));
    const [is, should] = [found.map(({ text }) => text).join(" "), lines.join(" ")];
    const errors = editDistance(is, should);
    expect([name, errors / should.length < 0.1]).toEqual([name, true]); // no picture is lost in the sum
    wrong += errors;
    all += should.length;
  }
  process.stdout.write(`${(100 * (1 - wrong / all)).toFixed(2)} % of ${all} characters\n`);
  expect(1 - wrong / all).toBeGreaterThanOrEqual(0.98);
});

test("a line that stands on its head is read, and its box begins where its reader begins", async () => {
  const { lines } = await chain.read(picture("upside-down-line.png"));
  const turned = lines.find(({ text }) => text.startsWith("Handle")) as TextLine;
  const upright = lines.find(({ text }) => text.startsWith("This")) as TextLine;
  expect(turned.box[0].x).toBeGreaterThan(turned.box[1].x);
  expect(upright.box[0].x).toBeLessThan(upright.box[1].x);
});

test("a page that is upside down or lies on its side gives the same lines in the same order, and boxes in its own pixels", async () => {
  const { lines: straight } = await chain.read(picture("sizes.png"));
  const { width = 0, height = 0 } = await sharp(picture("sizes.png")).metadata();
  const turns = [
    [90, ({ x, y }: { x: number; y: number }) => [height - y, x]],
    [180, ({ x, y }: { x: number; y: number }) => [width - x, height - y]],
    [270, ({ x, y }: { x: number; y: number }) => [y, width - x]],
  ] as const;
  for (const [angle, turned] of turns) {
    const { lines } = await chain.read(
      new Uint8Array(await sharp(picture("sizes.png")).rotate(angle).png().toBuffer()),
    );
    const [is, should] = [lines, straight].map((all) => all.map(({ text }) => text).join("\n")) as [string, string];
    expect([angle, editDistance(is, should) / should.length < 0.02]).toEqual([angle, true]);
    const [x = 0, y = 0] = turned(straight[0]?.box[0] as { x: number; y: number });
    expect(Math.hypot((lines[0]?.box[0].x ?? 0) - x, (lines[0]?.box[0].y ?? 0) - y)).toBeLessThan(12);
  }
});

test("a large picture is read as a small one is, and its boxes are in its own pixels", async () => {
  const { lines: small } = await chain.read(picture("receipt.jpg"));
  // 3,780 high, so kept at 2,048
  const large = await sharp(picture("receipt.jpg")).resize({ width: 2520 }).jpeg().toBuffer();
  const { lines } = await chain.read(new Uint8Array(large));
  expect(lines.map(({ text }) => text).slice(0, 5)).toEqual(small.map(({ text }) => text).slice(0, 5));
  for (const [i, { box }] of small.slice(0, 5).entries()) {
    expect(Math.abs((lines[i]?.box[2].x ?? 0) / 6 - box[2].x)).toBeLessThan(5);
    expect(Math.abs((lines[i]?.box[2].y ?? 0) / 6 - box[2].y)).toBeLessThan(5);
  }
});

test("a picture without text costs one run of the detector and gives no lines", async () => {
  const blank = await sharp({ create: { width: 300, height: 200, channels: 3, background: "#d8d0c0" } })
    .png()
    .toBuffer();
  expect(await chain.read(new Uint8Array(blank))).toEqual({ lines: [], requests: [1, 0, 0] });
});

/** Levenshtein's: characters inserted, left out or exchanged. */
function editDistance(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, i) => i);
  for (let i = 1; i <= a.length; i++) {
    const next = [i];
    for (let j = 1; j <= b.length; j++) {
      const exchanged = (row[j - 1] as number) + (a[i - 1] === b[j - 1] ? 0 : 1);
      next.push(Math.min(exchanged, (row[j] as number) + 1, (next[j - 1] as number) + 1));
    }
    row = next;
  }
  return row[b.length] as number;
}
