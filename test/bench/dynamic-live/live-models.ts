/**
 * The models that are served: the real text recogniser, and a generated Loop on which batching pays. Three applications
 * ask each, with different lengths.
 */
import { copyFileSync, mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { type ModelConfig, demoModel, demoModelPath, generateTokenLoop } from "@tutti/onnx-tools";
import type { Tensor } from "@tutti/protocol";
import type { Prng } from "@tutti/units";

export interface LiveApp {
  readonly name: string;
  /** Share of all requests. */
  readonly share: number;
  /** Lengths, drawn evenly from this one to the next. */
  readonly from: number;
  readonly to: number;
}

export interface LiveModel {
  readonly name: string;
  readonly sloMs: number;
  readonly apps: readonly LiveApp[];
  readonly config: ModelConfig & { readonly name: string };
  readonly bytesTo: (path: string, cacheDir: string) => void;
  readonly inputOf: (length: number) => Omit<Tensor, "data"> & { readonly values: Float32Array };
}

const INPUTS = 8;
/** Width at which one executor is the bottleneck, and not the cores that it shares with everything else. */
const WIDTH = 1_024;

export const LIVE_MODELS: readonly LiveModel[] = [
  {
    name: "loop",
    sloMs: 600,
    apps: [
      { name: "chat", share: 0.6, from: 16, to: 32 },
      { name: "mail", share: 0.25, from: 96, to: 160 },
      { name: "reports", share: 0.15, from: 320, to: 480 },
    ],
    config: {
      name: "loop",
      slo: "600ms",
      max_batch_size: 16,
      axes: { T: { mode: "pad", max: 512, multiple: 16, typical: 96, lengths: "lengths" } },
    },
    bytesTo: (path) => writeFileSync(path, generateTokenLoop({ width: WIDTH, inputs: INPUTS })),
    inputOf: (length) => ({ name: "x", type: "FP32", dims: [1, length, INPUTS], values: noise(length * INPUTS) }),
  },
  {
    name: "text",
    sloMs: 120,
    apps: [
      { name: "receipts", share: 0.6, from: 64, to: 96 },
      { name: "signs", share: 0.25, from: 160, to: 240 },
      { name: "panoramas", share: 0.15, from: 400, to: 560 },
    ],
    config: {
      ...demoModel("ocr-rec").config,
      name: "text",
      patience: 1, // the demo serves it eagerly; this benchmark measures deferral
      slo: "120ms",
      max_batch_size: 8,
      axes: { W: { mode: "pad", max: 576, multiple: 32, typical: 160, mixed: false } },
      cut: { T: { axis: "W", divide: 8, add: 3 } },
    },
    bytesTo: (path, cacheDir) => copyFileSync(demoModelPath(demoModel("ocr-rec"), { cacheDir }), path),
    inputOf: (width) => ({ name: "x", type: "FP32", dims: [1, 3, 48, width], values: noise(3 * 48 * width) }),
  },
];

/**
 * Arbitrary values without denormals: the values don't matter to how long these models run, but denormal ones would.
 */
function noise(count: number): Float32Array {
  return Float32Array.from({ length: count }, (_, i) => ((i * 7) % 13) / 13 - 0.5);
}

/** Writes `name/1/model.onnx` and its configuration (YAML reads JSON). */
export function writeModel(folder: string, model: LiveModel): void {
  const version = join(folder, model.name, "1");
  mkdirSync(version, { recursive: true });
  writeFileSync(join(folder, model.name, "config.yaml"), JSON.stringify(model.config));
  model.bytesTo(join(version, "model.onnx"), folder);
}

export interface LiveRequest {
  /** Seconds from the beginning. */
  readonly at: number;
  readonly app: string;
  readonly length: number;
}

/** A Poisson process split among the applications by their shares. */
export function drawRequests(model: LiveModel, rate: number, seconds: number, prng: Prng): LiveRequest[] {
  const requests: LiveRequest[] = [];
  for (let at = prng.nextExponential(rate); at < seconds; at += prng.nextExponential(rate))
    requests.push({ at, ...drawLength(model, prng) });
  return requests;
}

export function drawLength({ apps }: LiveModel, prng: Prng): { app: string; length: number } {
  let left = prng.nextFloat();
  const app = apps.find(({ share }) => (left -= share) < 0) ?? apps[0]!;
  return { app: app.name, length: app.from + prng.nextInt(app.to - app.from + 1) };
}
