import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import type { StepInput, StepTensor, Tensors } from "@tutti/ports/steps";
import { expect, test } from "vitest";
import { parse } from "yaml";
import * as steps from "./steps.ts";
import { textLines, textOutputs } from "./text-lines.ts";
import type { KeptLines, KeptPicture, KeptPieces } from "./steps.ts";

const { toClassifierInput, toDetectorInput, toRecogniserInput, toText } = steps;
const at = (parts: Partial<StepInput>): StepInput => ({
  input: {},
  stages: {},
  kept: {},
  request: { pipeline: "ocr", app: "shop" },
  ...parts,
});
const f32 = (dims: readonly number[], data = new Float32Array(dims.reduce((a, b) => a * b, 1))): StepTensor => ({
  type: "FP32",
  dims,
  data,
});
const bytesOf = (name: string): Uint8Array<ArrayBuffer> =>
  new Uint8Array(readFileSync(fileURLToPath(new URL(`../${name}`, import.meta.url))));
const picture = (data: Uint8Array<ArrayBuffer>): Tensors => ({ image: { type: "UINT8", dims: [data.length], data } });

/** A white page as the detector saw it, with bars where text is. */
function page(bars: readonly (readonly [left: number, top: number, right: number, bottom: number])[]): StepInput {
  const [width, height] = [640, 320];
  const values = new Float32Array(width * height);
  for (const [left, top, right, bottom] of bars)
    for (let y = top; y < bottom; y++) values.fill(1, y * width + left, y * width + right);
  const detect: KeptPicture = {
    image: { rgb: new Uint8Array(width * height * 3).fill(255), width, height },
    width: 2 * width,
    height: 2 * height,
    seen: { width, height },
  };
  return at({ stages: { detect: [{ heat: f32([1, 1, height, width], values) }] }, kept: { detect } });
}
const verdict = (upsideDown: number): Tensors => ({ y: f32([1, 2], Float32Array.of(1 - upsideDown, upsideDown)) });
const recogniserInput = (input: StepInput, verdicts: readonly number[]) => {
  const { keep } = toClassifierInput(input);
  return toRecogniserInput({
    ...input,
    stages: { ...input.stages, classify: verdicts.map(verdict) },
    kept: { ...input.kept, classify: keep },
  });
};

test("ocr.yaml names functions that this package has, and each stage's model is a demo model", () => {
  const { stages, finish } = parse(new TextDecoder().decode(bytesOf("ocr.yaml"))) as {
    stages: { model: string; before: string }[];
    finish: string;
  };
  const names = [...stages.map(({ before }) => before), finish].map((path) => path.split("#"));
  expect(names.map(([file]) => file)).toEqual(new Array(4).fill("./src/steps.ts"));
  for (const [, name = ""] of names)
    expect([name, typeof (steps as Record<string, unknown>)[name]]).toEqual([name, "function"]);
  expect(stages.map(({ model }) => model)).toEqual(["ocr-det", "ocr-cls", "ocr-rec"]);
});

test("a picture becomes one request in multiples of 32, its white at ImageNet's 2.25 to 2.64", async () => {
  const { requests, keep } = await toDetectorInput(at({ input: picture(bytesOf("fixtures/sizes.png")) }));
  expect(requests.map(({ x }) => x?.dims)).toEqual([[1, 3, 416, 640]]);
  expect(keep).toMatchObject({ width: 640, height: 420, seen: { width: 640, height: 416 } });
  const data = requests[0]?.["x"]?.data as Float32Array;
  const corner = [0, 1, 2].map((plane) => Number((data[plane * 416 * 640] as number).toFixed(2)));
  expect(corner).toEqual([2.25, 2.43, 2.64]); // of the planes in OpenCV's order, as PaddleOCR was trained
});

test("an input that is no picture is the publisher's fault, and says what is expected", async () => {
  const inputs: Tensors[] = [
    {},
    { picture: { type: "UINT8", dims: [1], data: new Uint8Array(1) } },
    { image: f32([4]) },
    picture(new Uint8Array(20)),
  ];
  for (const input of inputs) {
    const refused = (await toDetectorInput(at({ input })).catch((error: unknown) => error)) as Error;
    expect(refused).toMatchObject({ code: "TUTTI_INVALID_INPUT", retryable: false });
    expect(refused.message).toMatch(/JPEG/);
  }
});

test("a line is looked at once for each 192 columns, up to three times; a page without text not at all", () => {
  const short = toClassifierInput(page([[100, 50, 160, 70]]));
  expect(short.requests.map(({ x }) => x?.dims)).toEqual([[1, 3, 48, 192]]);
  const long = toClassifierInput(
    page([
      [100, 50, 160, 70],
      [20, 200, 620, 215],
    ]),
  );
  expect(long.keep.windows).toEqual([1, 3]);
  expect(long.requests.length).toBe(4);
  expect(toClassifierInput(page([]))).toEqual({ requests: [], keep: { rectangles: [], windows: [] } });
});

test("a line is turned only where the mean of its own looks says upside down", () => {
  const input = page([
    [100, 50, 160, 70],
    [20, 200, 620, 215],
  ]);
  const angles = (...verdicts: number[]): boolean[] =>
    recogniserInput(input, verdicts).keep.lines.map(({ rectangle }) => Math.cos(rectangle.angle) < 0);
  expect(angles(0.1, 0.9, 0.2, 0.3)).toEqual([false, false]);
  expect(angles(0.9, 0.1, 0.2, 0.3)).toEqual([true, false]);
  expect(angles(0.1, 0.2, 0.9, 0.8)).toEqual([false, true]);
});

test("lines go to the recogniser in reading order, cut to its widths, with boxes in the file's pixels", () => {
  const { requests, keep } = recogniserInput(
    page([
      [400, 50, 460, 70],
      [20, 200, 620, 215],
      [40, 50, 100, 70],
    ]),
    [0, 0, 0, 0, 0],
  );
  const centres = keep.lines.map(({ rectangle: { centre } }) => [Math.round(centre.x), Math.round(centre.y)]);
  expect(centres).toEqual([
    [140, 120],
    [860, 120],
    [640, 415],
  ]);
  const dims = requests.map(({ x }) => x?.dims ?? []);
  expect(dims.map(([n, c, h]) => [n, c, h])).toEqual(dims.map(() => [1, 3, 48]));
  for (const [, , , width = 999] of dims) expect(width).toBeLessThanOrEqual(320);
  expect(dims.length).toBe(keep.lines.reduce((sum, { pieces }) => sum + pieces.length, 0));
  expect(dims.length).toBeGreaterThan(3);
});

test("a page of text everywhere asks for no more than 128 pieces", () => {
  // each is long enough for nine pieces
  const bars = Array.from({ length: 18 }, (_, i) => [2, i * 16 + 2, 638, i * 16 + 6] as const);
  const { requests } = recogniserInput(page(bars), new Array<number>(3 * bars.length).fill(0));
  expect(requests.length).toBeGreaterThan(64);
  expect(requests.length).toBeLessThanOrEqual(128);
});

test("a model of another shape under the expected name is named, not read as noise", () => {
  const input = page([[100, 50, 160, 70]]);
  const wrong = { ...input, stages: { detect: [{ y: f32([1, 1000]) }] } };
  expect(() => toClassifierInput(wrong)).toThrow(/gave FP32 \[1, 1000\] where FP32 \[1, 1, -1, -1\] is expected/);
  expect(() => recogniserInput(input, [])).toThrow(/gave nothing where FP32 \[1, 2\]/);
});

const CLASSES = 6_625;
/** Characters by their class, one every other step. */
function read(classes: readonly number[], probability = 0.9): Tensors {
  const values = new Float32Array(classes.length * 2 * CLASSES);
  for (const [i, best] of classes.entries()) {
    values[2 * i * CLASSES + best] = probability;
    values[(2 * i + 1) * CLASSES] = 1;
  }
  return { text: f32([1, classes.length * 2, CLASSES], values) };
}

test("pieces become a line again, faint lines are left out, and every line has its box", () => {
  const rectangle = { centre: { x: 50, y: 20 }, width: 80, height: 20, angle: 0 };
  const piece = (from: number): { from: number; to: number } => ({ from, to: from + 64 });
  const recognise: KeptPieces = {
    lines: [
      { rectangle, pieces: [piece(0), piece(64)], gaps: [{ from: 56, to: 70 }] },
      { rectangle, pieces: [piece(0)], gaps: [] },
      { rectangle, pieces: [piece(0)], gaps: [] },
    ],
  };
  const [a, b] = [read([30, 31, 32, 33]), read([40, 41, 42, 43])];
  const recognised = [a, b, read([30], 0.4), read([])];
  const lines = textLines(toText(at({ stages: { recognise: recognised }, kept: { recognise } })));
  expect(lines.length).toBe(1);
  expect(lines[0]?.text).toMatch(/^\S{4} \S{4}$/);
  expect(lines[0]?.confidence).toBeCloseTo(0.9, 5);
  expect(lines[0]?.box).toEqual([
    { x: 10, y: 10 },
    { x: 90, y: 10 },
    { x: 90, y: 30 },
    { x: 10, y: 30 },
  ]);
});

test("no text is an answer too: no lines", () => {
  expect(textLines(toText(at({})))).toEqual([]);
  expect(toText(at({}))).toMatchObject({ text: { dims: [0] }, confidence: { dims: [0] }, boxes: { dims: [0, 4, 2] } });
});

test("lines of text go into tensors and come back", () => {
  const box = [
    { x: 1, y: 2 },
    { x: 3, y: 2 },
    { x: 3, y: 4 },
    { x: 1, y: 4 },
  ] as const;
  const lines = [
    { text: "Grüße 你好", confidence: 0.5, box },
    { text: "two", confidence: 0.75, box },
  ];
  expect(textLines(textOutputs(lines))).toEqual(lines);
  expect(() => textLines({ ...textOutputs(lines), confidence: f32([1]) })).toThrow(
    /boxes FP32 \[lines, 4, 2\] are expected/,
  );
  expect(() => textLines({})).toThrow(/nothing: text UINT8/);
});

test("what steps keep can be cloned to another thread", () => {
  const keep: KeptLines = toClassifierInput(page([[100, 50, 160, 70]])).keep;
  expect(structuredClone(keep)).toEqual(keep);
});
