/**
 * Reads files for pipelines. The cluster stores nothing about reading a pipeline's files. So a picture is sent
 * unchanged as the input `image`, and a sound as `audio`, as over HTTP. Outputs with lines of text (docs of
 * `@tutti/pipeline-ocr`) are shown as text.
 */
import { readFile } from "node:fs/promises";
import { extname } from "node:path";
import { type InferResult, tensor } from "@tutti/client";
import { type TextLine, textLines } from "@tutti/pipeline-ocr/text-lines";
import { CommandError, fileProblem } from "@tutti/admin";
import { type Inputs, fromProtocol } from "./input-file.ts";
import type { Meaning } from "./output-text.ts";

const INPUTS: ReadonlyMap<string, string> = new Map(
  Object.entries({ ".jpg": "image", ".jpeg": "image", ".png": "image", ".webp": "image", ".wav": "audio" }),
);

/** @throws {CommandError | TuttiError} saying what is wrong with the file */
export async function readPipelineInput(path: string): Promise<Inputs> {
  const kind = extname(path).toLowerCase();
  const bytes = await readFile(path).catch((error: NodeJS.ErrnoException) => {
    throw new CommandError(`--input ${path}: ${fileProblem(error)}`);
  });
  const input = INPUTS.get(kind);
  if (input !== undefined) return { [input]: tensor(new Uint8Array(bytes), [bytes.length], "UINT8") };
  if (kind === ".json") return fromJson(bytes.toString("utf8"), path);
  throw new CommandError(`--input ${path}: a pipeline takes a .jpg, .png, .webp, .wav or .json file`);
}

function fromJson(text: string, path: string): Inputs {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    throw new CommandError(`--input ${path} is no JSON: ${(error as Error).message}`);
  }
  if (typeof value === "object" && value !== null && "inputs" in value && Array.isArray(value.inputs))
    return Object.fromEntries(value.inputs.map(fromProtocol));
  throw new CommandError(
    `--input ${path}: write { "inputs": [{ "name": "x", "shape": [2], "datatype": "FP32", "data": [1, 2] }] }`,
  );
}

/** The lines of text in a pipeline's outputs; undefined: the outputs have another form. */
export function linesMeaning({ outputs }: InferResult): Meaning | undefined {
  const { text, confidence, boxes } = outputs;
  if (text?.type !== "UINT8" || confidence?.type !== "FP32" || boxes?.type !== "FP32") return undefined;
  const lines = textLines({ text, confidence, boxes });
  const shown = lines.map((line) => line.text).join("\n");
  return { text: lines.length === 0 ? "no text found" : shown, value: { lines: lines.map(asJson) } };
}

const asJson = ({ text, confidence, box }: TextLine) => ({
  text,
  confidence: Number(confidence.toFixed(4)),
  box: box.map(({ x, y }) => [Number(x.toFixed(1)), Number(y.toFixed(1))]),
});
