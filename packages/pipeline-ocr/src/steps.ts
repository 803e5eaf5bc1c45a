/**
 * The steps of `ocr.yaml`: one before each of its three models, and one after the last. Each step depends only on its
 * arguments, and passes what later steps need in `keep`.
 */
import { readFileSync } from "node:fs";
import { isMainThread } from "node:worker_threads";
import {
  DETECTION_NORMALISATION,
  type ImageInput,
  LINE_NORMALISATION,
  OCR_KEYS,
  type RgbImage,
  parseKeys,
  resolveAsset,
} from "@tutti/onnx-tools";
import { PictureProcess } from "@tutti/onnx-tools/media";
import { TuttiError } from "@tutti/protocol";
import type { StepInput, StepTensor, Tensors } from "@tutti/ports/steps";
import { type Character, readCharacters } from "./ctc.ts";
import { joined } from "./joined-boxes.ts";
import { LINE_HEIGHT, columnsOf, cropLine, lineWidth } from "./line-crop.ts";
import { type Span, gapsOf, piecesOf, spaced } from "./line-pieces.ts";
import { decodePicture, detectorSize, pictureTensor, resized } from "./picture.ts";
import { readingOrder } from "./reading-order.ts";
import { type Rectangle, cornersOf, halfTurned, scaled } from "./rectangle.ts";
import { PADDLE_RULES, textBoxes } from "./text-boxes.ts";
import { type TextLine, textOutputs } from "./text-lines.ts";

/** Longest side of the largest bucket of the demo model `ocr-det`. */
const DETECTOR_SIDE_MAX = 640;
/** Width of the widest bucket of the demo model `ocr-rec`. */
const PIECE_WIDTH_MAX = 320;
const CLASSIFIER_WIDTH = 192;
/** Most pieces that are read of one picture; it bounds the fan-out. */
const PIECES_MAX = 128;
/** Most windows of one line, so that a long line doesn't cost more than its windows tell. */
const WINDOWS_MAX = 3;
/**
 * Least mean over a line's windows for the line to be upside down. PaddleOCR asks for 0.9 of one look at the line
 * squeezed into 192 columns; the README says what either gets wrong.
 */
const UPSIDE_DOWN_MIN = 0.5;
/** PaddleOCR's limit: text that is read with less confidence is dropped. */
const CONFIDENCE_MIN = 0.5;

const image = (parts: Pick<ImageInput, "order" | "mean" | "std">): ImageInput => ({
  kind: "image",
  tensor: "x",
  resize: "stretch", // not used: the steps resize by themselves
  height: 0,
  width: 0,
  ...parts,
});
const DETECTOR_INPUT = image(DETECTION_NORMALISATION);
const LINE_INPUT = image(LINE_NORMALISATION);

/** Decodes apart: each thread that runs these steps has a process, which starts with it. */
const pictures = new PictureProcess();
if (!isMainThread) pictures.start();

export interface KeptPicture {
  readonly image: RgbImage;
  /** Size of the picture in the file, upright. */
  readonly width: number;
  readonly height: number;
  /** Size of the picture for the detector. */
  readonly seen: { readonly width: number; readonly height: number };
}
export interface KeptLines {
  /** Rectangles of the lines, in the kept image's pixels. */
  readonly rectangles: readonly Rectangle[];
  /** Number of classifier requests of each rectangle. */
  readonly windows: readonly number[];
}
interface KeptLine {
  /** Rectangle of the line, in the file's pixels. */
  readonly rectangle: Rectangle;
  /** Columns of the line at the recogniser's height; each piece is one request. */
  readonly pieces: readonly Span[];
  readonly gaps: readonly Span[];
}
export interface KeptPieces {
  /** Lines in reading order; the requests are in the same order. */
  readonly lines: readonly KeptLine[];
}

interface StepResult<Kept> {
  readonly requests: Tensors[];
  readonly keep: Kept;
}

/**
 * @param input - `image` UINT8 [bytes], a JPEG or PNG file
 * @returns one request `x` f32[1, 3, h, w], h and w multiples of 32
 * @throws {TuttiError} INVALID_INPUT, TOO_LARGE
 */
export async function toDetectorInput({ input, signal }: StepInput): Promise<StepResult<KeptPicture>> {
  const file = input["image"];
  if (file?.type !== "UINT8" || !(file.data instanceof Uint8Array)) {
    const text = 'the input "image" is expected: UINT8 [bytes], the JPEG or PNG file as it is';
    throw new TuttiError("TUTTI_INVALID_INPUT", text, { retryable: false });
  }
  const { image, width, height } = await decodePicture(file.data, (bytes, target) =>
    pictures.decode(bytes, target, signal),
  );
  const seen = detectorSize(image, DETECTOR_SIDE_MAX);
  const x = pictureTensor(await resized(image, seen), DETECTOR_INPUT);
  return { requests: [{ x }], keep: { image, width, height, seen } };
}

/** @returns up to three requests `x` f32[1, 3, 48, 192] for each line of text found; none where there is no text */
export function toClassifierInput({ stages, kept }: StepInput): StepResult<KeptLines> {
  const { image, seen } = kept["detect"] as KeptPicture;
  const map = floats(only(stages, "detect"), [1, 1, -1, -1]);
  const stride = map.dims[3] as number;
  // A batch's padding lies to the right and below, so the map is as large as the bucket.
  const boxes = textBoxes({ values: map.data, width: seen.width, height: seen.height, stride }, PADDLE_RULES);
  const scale = { x: image.width / seen.width, y: image.height / seen.height };
  const rectangles = joined(boxes.map(({ rectangle }) => rectangle)).map((rectangle) => scaled(rectangle, scale));
  const requests = rectangles.map((rectangle) => {
    const line = cropLine(image, rectangle, { width: lineWidth(rectangle) });
    return windowsOf(line.width).map((from) => {
      const part = columnsOf(line, from, Math.min(line.width, from + CLASSIFIER_WIDTH));
      return { x: padded(part, CLASSIFIER_WIDTH) };
    });
  });
  return { requests: requests.flat(), keep: { rectangles, windows: requests.map(({ length }) => length) } };
}

/** Left edges of the classifier's windows: at the line's start, at its end, and between. */
export function windowsOf(width: number): number[] {
  const count = Math.min(WINDOWS_MAX, Math.max(1, Math.floor(width / CLASSIFIER_WIDTH)));
  if (count === 1) return [0];
  return Array.from({ length: count }, (_, i) => Math.round((i * (width - CLASSIFIER_WIDTH)) / (count - 1)));
}

/** @returns a request `x` f32[1, 3, 48, w] for each line, or for each piece of a long one, w ≤ 320 */
export function toRecogniserInput({ stages, kept }: StepInput): StepResult<KeptPieces> {
  const { image, width, height } = kept["detect"] as KeptPicture;
  const { rectangles, windows } = kept["classify"] as KeptLines;
  const verdicts = stages["classify"] ?? [];
  let seen = 0;
  const upright = rectangles.map((rectangle, i) => {
    const count = windows[i] as number;
    let sum = 0;
    for (const end = seen + count; seen < end; seen++) sum += floats(verdicts[seen], [1, 2]).data[1] as number;
    return sum / count > UPSIDE_DOWN_MIN ? halfTurned(rectangle) : rectangle;
  });
  const requests: Tensors[] = [];
  const lines: KeptLine[] = [];
  const full = { x: width / image.width, y: height / image.height };
  for (const index of readingOrder(upright)) {
    const rectangle = upright[index] as Rectangle;
    const crop = cropLine(image, rectangle, { width: lineWidth(rectangle) });
    const gaps = gapsOf(crop);
    const pieces = piecesOf(crop.width, gaps, PIECE_WIDTH_MAX);
    if (requests.length + pieces.length > PIECES_MAX) break;
    lines.push({ rectangle: scaled(rectangle, full), pieces, gaps });
    for (const { from, to } of pieces) requests.push({ x: pictureTensor(columnsOf(crop, from, to), LINE_INPUT) });
  }
  return { requests, keep: { lines } };
}

/** @returns the tensors that `text-lines.ts` describes */
export function toText({ stages, kept }: StepInput): Tensors {
  const { lines = [] } = (kept["recognise"] ?? {}) as Partial<KeptPieces>;
  const outputs = stages["recognise"] ?? [];
  const found: TextLine[] = [];
  let next = 0;
  for (const { rectangle, pieces, gaps } of lines) {
    const characters = pieces.flatMap(({ from }) => readPiece(outputs[next++], from));
    const text = spaced(characters, gaps);
    const confidence =
      characters.reduce((sum, { probability }) => sum + probability, 0) / Math.max(1, characters.length);
    if (text !== "" && confidence >= CONFIDENCE_MIN) found.push({ text, confidence, box: cornersOf(rectangle) });
  }
  return textOutputs(found);
}

/** Columns per output step of the recogniser. */
const STEP_COLUMNS = 8;
let keys: readonly string[] | undefined;

function readPiece(outputs: Tensors | undefined, from: number): Character[] {
  keys ??= parseKeys(readFileSync(resolveAsset(OCR_KEYS), "utf8"));
  const { data } = floats(outputs, [1, -1, keys.length + 1]);
  return readCharacters(data, keys).map((character) => ({ ...character, at: from + character.at * STEP_COLUMNS }));
}

/** Pads with zeros to the right, as PaddleOCR does. */
function padded(line: RgbImage, width: number): StepTensor {
  const { data, dims } = pictureTensor(line, LINE_INPUT);
  if (line.width === width) return { type: "FP32", dims, data };
  const wide = new Float32Array(3 * LINE_HEIGHT * width);
  for (let row = 0; row < 3 * LINE_HEIGHT; row++)
    wide.set(data.subarray(row * line.width, (row + 1) * line.width), row * width);
  return { type: "FP32", dims: [1, 3, LINE_HEIGHT, width], data: wide };
}

function only(stages: StepInput["stages"], name: string): Tensors | undefined {
  return stages[name]?.[0];
}

/**
 * The one output of an OCR model, with its shape checked. So a different model served under the name is an error, and
 * its output is not read as noise.
 */
function floats(outputs: Tensors | undefined, dims: readonly number[]): Floats {
  const [output] = Object.values(outputs ?? {});
  const fits =
    output?.dims.length === dims.length && dims.every((dim, axis) => dim === -1 || dim === output.dims[axis]);
  if (fits && output.data instanceof Float32Array) return { dims: output.dims, data: output.data };
  const found = output === undefined ? "nothing" : `${output.type} [${output.dims.join(", ")}]`;
  const text = `a stage gave ${found} where FP32 [${dims.join(", ")}] is expected: are ocr-det, ocr-cls and ocr-rec PaddleOCR's?`;
  throw new TuttiError("TUTTI_INTERNAL", text, { retryable: false });
}

interface Floats {
  readonly dims: readonly number[];
  readonly data: Float32Array;
}
