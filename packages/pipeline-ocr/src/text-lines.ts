/**
 * Converts the lines of text that were read to tensors and back. Tensors hold no strings here, so text travels as
 * bytes:
 *
 *   text        UINT8 [bytes]      UTF-8, one line of text a line, in reading order
 *   confidence  FP32 [lines]       mean probability of the line's characters
 *   boxes       FP32 [lines, 4, 2] x and y of its corners, in the picture's pixels: top left, top right, bottom right,
 *                                  bottom left as its reader sees them
 */
import { TuttiError } from "@tutti/protocol";
import { type Tensors, textOf, textTensor } from "@tutti/ports/steps";
import type { Corners, Point } from "./rectangle.ts";

export interface TextLine {
  readonly text: string;
  readonly confidence: number;
  readonly box: Corners;
}

export function textOutputs(lines: readonly TextLine[]): Tensors {
  const confidence = Float32Array.from(lines, (line) => line.confidence);
  const boxes = Float32Array.from(lines.flatMap(({ box }) => box.flatMap(({ x, y }) => [x, y])));
  return {
    text: textTensor(lines.map((line) => line.text).join("\n")),
    confidence: { type: "FP32", dims: [lines.length], data: confidence },
    boxes: { type: "FP32", dims: [lines.length, 4, 2], data: boxes },
  };
}

/** @throws {TuttiError} INVALID_INPUT when the tensors are no lines of text */
export function textLines(outputs: Tensors): TextLine[] {
  const { text, confidence, boxes } = outputs;
  const lines = confidence?.data.byteLength === 0 ? [] : (text === undefined ? "" : textOf(text)).split("\n");
  const values = confidence?.data instanceof Float32Array ? confidence.data : undefined;
  const corners = boxes?.data instanceof Float32Array ? boxes.data : undefined;
  if (values?.length !== lines.length || corners?.length !== lines.length * 8) {
    const found = Object.entries(outputs).map(([name, { type, dims }]) => `${name} ${type} [${dims.join(", ")}]`);
    const expected = "text UINT8 [bytes], confidence FP32 [lines] and boxes FP32 [lines, 4, 2]";
    throw new TuttiError("TUTTI_INVALID_INPUT", `${found.join(", ") || "nothing"}: ${expected} are expected`, {
      retryable: false,
    });
  }
  const corner = (line: number, i: number): Point => ({
    x: corners[line * 8 + i * 2] as number,
    y: corners[line * 8 + i * 2 + 1] as number,
  });
  return lines.map((line, i) => ({
    text: line,
    confidence: values[i] as number,
    box: [corner(i, 0), corner(i, 1), corner(i, 2), corner(i, 3)],
  }));
}
