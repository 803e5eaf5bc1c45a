/**
 * The OCR pipeline with real processes and models: a picture from the command line to its text. The models are the
 * demo's under SLOs that a busy machine meets, since these tests are not about deadlines.
 */
import { readFileSync } from "node:fs";
import { copyFile, mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type Tutti, connect, tensor } from "@tutti/client";
import { demoModel, demoModelPath } from "@tutti/onnx-tools";
import { OCR_PIPELINE_FOLDER } from "@tutti/pipeline-ocr/folder";
import { textLines } from "@tutti/pipeline-ocr/text-lines";
import { afterAll, beforeAll, expect, test } from "vitest";
import { TuttiUp } from "./tutti-up.ts";

const picture = (name: string): string => join(OCR_PIPELINE_FOLDER, "fixtures", name);
const expected = JSON.parse(readFileSync(picture("expected.json"), "utf8")) as Record<string, readonly string[]>;
const PATIENT = ["--slo", "60s"] as const;
let up: TuttiUp;
let client: Tutti;
let folder: string;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "tutti-e2e-ocr-"));
  const models = join(folder, "models");
  for (const name of ["ocr-det", "ocr-cls", "ocr-rec"]) {
    const model = demoModel(name);
    await mkdir(join(models, name, "1"), { recursive: true });
    await copyFile(demoModelPath(model, { cacheDir: folder }), join(models, name, "1/model.onnx"));
    await writeFile(join(models, name, "config.yaml"), JSON.stringify({ ...model.config, slo: "20s" })); // JSON is YAML
  }
  up = await TuttiUp.start(["--no-demo", "--models", models, "--pipelines", OCR_PIPELINE_FOLDER, "--patience", "0"]);
  client = await connect({ servers: up.url, app: "e2e" });
});
afterAll(async () => {
  await client?.close();
  await up?.stop();
  if (folder !== undefined) await rm(folder, { recursive: true });
});

test("tutti infer ocr prints the lines of a receipt", async () => {
  const { code, stdout, stderr } = await up.command("infer", "ocr", "--input", picture("receipt.jpg"), ...PATIENT);
  expect([code, stderr]).toEqual([0, ""]);
  const lines = stdout.trimEnd().split("\n");
  expect(lines.pop()).toMatch(/^ocr, [\d.]+ ms from here and back$/);
  expect(lines).toContain("CORNER MARKET");
  expect(lines.slice(-5)).toEqual(["TOTAL", "203.20", "Paid by card", "2026-11-21 18:04", "Thank you for your visit"]);
});

test("tutti infer ocr --json gives each line's corners in the picture, also of a line on its head", async () => {
  const args = ["infer", "ocr", "--input", picture("upside-down-line.png"), "--json", ...PATIENT];
  const { meaning, outputs } = JSON.parse((await up.command(...args)).stdout) as {
    meaning: { lines: { text: string; confidence: number; box: [number, number][] }[] };
    outputs: { name: string; datatype: string; shape: number[] }[];
  };
  expect(meaning.lines.map(({ text }) => text)).toEqual(expected["upside-down-line.png"]);
  const [first, turned] = meaning.lines.map(({ box }) => box);
  expect(first?.[0]?.[0]).toBeLessThan(first?.[1]?.[0] as number);
  expect(turned?.[0]?.[0]).toBeGreaterThan(turned?.[1]?.[0] as number);
  expect(outputs.map(({ name, datatype }) => [name, datatype]).sort()).toEqual([
    ["boxes", "FP32"],
    ["confidence", "FP32"],
    ["text", "UINT8"],
  ]);
});

test("pictures asked for at once are each answered with their own text (T2)", async () => {
  const names = ["sign.jpg", "leaning-left.png", "upside-down-line.png"];
  const read = await Promise.all(
    names.map(async (name) => {
      const image = tensor(new Uint8Array(readFileSync(picture(name))));
      const { outputs } = await client.infer("ocr", { image }, { slo: "60s" });
      return textLines(outputs).map(({ text }) => text);
    }),
  );
  expect(read).toEqual(names.map((name) => expected[name]));
});

test("what is no picture is the publisher's fault, and the next picture is read", async () => {
  await writeFile(join(folder, "no.jpg"), "no picture");
  const { code, stderr } = await up.command("infer", "ocr", "--input", join(folder, "no.jpg"), ...PATIENT);
  expect([code, stderr]).toEqual([
    1,
    expect.stringMatching(/neither a JPEG nor a PNG nor a WebP file \(TUTTI_INVALID_INPUT\)/),
  ]);
  const next = await up.command("infer", "ocr", "--input", picture("sign.jpg"), ...PATIENT);
  expect([next.code, next.stdout]).toEqual([0, expect.stringContaining("PLATFORM 4")]);
});

test("a name that nobody serves is told a similar one, of a pipeline too, and a pipeline that it needs an input", async () => {
  const { code, stderr } = await up.command("infer", "orc", "--input", picture("sign.jpg"));
  expect([code, stderr]).toEqual([1, expect.stringContaining('no model named "orc" is loaded: did you mean "ocr"?')]);
  const bare = await up.command("infer", "ocr");
  expect([bare.code, bare.stderr]).toEqual([1, expect.stringContaining("a pipeline needs --input")]);
});
