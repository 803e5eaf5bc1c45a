import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type InferResult, tensor } from "@tutti/client";
import { textLines } from "@tutti/pipeline-ocr/text-lines";
import { afterAll, expect, test } from "vitest";
import { linesMeaning, readPipelineInput } from "./pipeline-file.ts";

const folder = mkdtempSync(join(tmpdir(), "tutti-present-"));
afterAll(() => rmSync(folder, { recursive: true }));
const file = (name: string, content: string | Uint8Array): string => {
  writeFileSync(join(folder, name), content);
  return join(folder, name);
};

test("a picture goes to a pipeline byte for byte, as the input `image`, a sound as `audio`", async () => {
  const bytes = Uint8Array.of(0xff, 0xd8, 0xff, 0, 1, 2);
  const value = { type: "UINT8", dims: [6], data: bytes };
  for (const name of ["a.jpg", "a.JPEG", "a.png", "a.webp"])
    expect(await readPipelineInput(file(name, bytes))).toEqual({ image: value });
  expect(await readPipelineInput(file("a.wav", bytes))).toEqual({ audio: value });
});

test("JSON goes in the Open Inference Protocol's form, and anything else is refused with what is taken", async () => {
  const inputs = [{ name: "x", shape: [1, 2], datatype: "FP32", data: [1, 2] }];
  const read = await readPipelineInput(file("a.json", JSON.stringify({ inputs })));
  expect(read).toEqual({ x: { type: "FP32", dims: [1, 2], data: Float32Array.of(1, 2) } });
  const refusals = [
    [file("b.json", "{"), /is no JSON/],
    [file("c.json", '{"x": [1]}'), /write \{ "inputs"/],
    [file("d.json", '{"inputs": [{"name": "x"}]}'), /needs a name, a datatype/],
    [file("e.txt", "x"), /takes a \.jpg, \.png, \.webp, \.wav or \.json/],
    [join(folder, "nothing.jpg"), /there is no such file/],
  ] as const;
  for (const [path, text] of refusals) await expect(readPipelineInput(path)).rejects.toThrow(text);
});

const answer = (outputs: InferResult["outputs"]): InferResult => ({ outputs }) as InferResult;
const ocr = (text: string, lines: number) => ({
  text: tensor(new TextEncoder().encode(text)),
  confidence: tensor(new Float32Array(lines).fill(0.98762)),
  boxes: tensor(
    Float32Array.from({ length: lines * 8 }, (_, i) => i + 0.04),
    [lines, 4, 2],
  ),
});

test("lines of text are shown one a line, and as JSON with boxes and confidences", () => {
  const meaning = linesMeaning(answer(ocr("TOTAL\n203.20 €", 2)));
  expect(meaning?.text).toBe("TOTAL\n203.20 €");
  expect(meaning?.value).toEqual({
    lines: [
      {
        text: "TOTAL",
        confidence: 0.9876,
        box: [
          [0, 1],
          [2, 3],
          [4, 5],
          [6, 7],
        ],
      },
      {
        text: "203.20 €",
        confidence: 0.9876,
        box: [
          [8, 9],
          [10, 11],
          [12, 13],
          [14, 15],
        ],
      },
    ],
  });
  expect(textLines(ocr("", 0))).toEqual([]);
  expect(linesMeaning(answer(ocr("", 0)))).toEqual({ text: "no text found", value: { lines: [] } });
});

test("what is no lines of text has no meaning, and what only looks like it is an error", () => {
  expect(linesMeaning(answer({ sum: tensor([1, 2]) }))).toBeUndefined();
  expect(linesMeaning(answer({ ...ocr("a", 1), boxes: tensor([1n]) }))).toBeUndefined();
  expect(() => linesMeaning(answer(ocr("a\nb", 1)))).toThrow(/are expected/);
});
