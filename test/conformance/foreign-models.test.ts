/**
 * Models that others publish, from files in Python packages: each is served with what its first refusal advises, and
 * runs. Skipped with a reason where pip can't fetch the packages.
 */
import { execFile } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, renameSync, rmSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { randomBatch, startOnnxEngine } from "@tutti/engine-onnx";
import { type ModelConfig, completeSpec, describeModel, draftModel } from "@tutti/onnx-tools";
import type { Engine, LoadOutcome, RunOutcome } from "@tutti/ports/engine";
import { afterAll, beforeAll, expect, test } from "vitest";

const run = promisify(execFile);
const cache = fileURLToPath(new URL("../../.tutti/foreign-models", import.meta.url));

interface Foreign {
  /** Path of the file in its package. */
  readonly file: string;
  readonly config: ModelConfig;
  /** The refusal without a config; undefined: none. */
  readonly refusal?: RegExp;
  readonly rows?: number;
}

const unnamed = /an axis without a name: say in config\.yaml input: \[\{name: /;
const variable = /is variable: say in config\.yaml how it is served, as axes: \{/;
const exactWidth = { axes: { image_width: { sizes: [128] } } };
const frame = { input: [{ name: "input", dims: ["batch", 576] }] };
const rate = { constants: { sr: 16_000 } };

/** Wheels, each with its models. */
const PACKAGES: Readonly<Record<string, readonly Foreign[]>> = {
  "magika==1.0.3": [{ file: "magika/models/standard_v3_3/model.onnx", config: {} }],
  "rapidocr-onnxruntime==1.4.4": [
    {
      file: "rapidocr_onnxruntime/models/ch_PP-OCRv4_det_infer.onnx",
      config: {
        max_batch_size: 2,
        input: [{ name: "x", dims: ["batch", 3, "H", "W"] }],
        axes: { H: { sizes: [64] }, W: { sizes: [64] } },
      },
      refusal: variable,
      rows: 2,
    },
    {
      file: "rapidocr_onnxruntime/models/ch_PP-OCRv4_rec_infer.onnx",
      config: {
        max_batch_size: 2,
        input: [{ name: "x", dims: ["batch", 3, 48, "W"] }],
        axes: { W: { mode: "pad", max: 320, mixed: false } },
        output: [{ name: "softmax_11.tmp_0", dims: ["batch", "T", 6625] }],
        cut: { T: "none" },
      },
      refusal: unnamed,
      rows: 2,
    },
    {
      file: "rapidocr_onnxruntime/models/ch_ppocr_mobile_v2.0_cls_infer.onnx",
      config: { input: [{ name: "x", dims: ["batch", 3, 48, 192] }] },
      refusal: unnamed,
    },
  ],
  "silero-vad==6.2.3": [
    {
      file: "silero_vad/data/silero_vad.onnx",
      config: {
        ...rate,
        input: [...frame.input, { name: "state", dims: [2, "batch", 128] }],
        output: [{ name: "stateN", dims: [2, "batch", 128] }],
      },
      refusal: unnamed,
    },
    { file: "silero_vad/data/silero_vad_16k_op15.onnx", config: { ...frame, ...rate }, refusal: variable },
    { file: "silero_vad/data/silero_vad_half.onnx", config: frame, refusal: variable },
    { file: "silero_vad/data/silero_vad_op18_ifless.onnx", config: { ...frame, ...rate }, refusal: variable },
    { file: "silero_vad/data/silero_vad_openvino_16k.onnx", config: {}, rows: 1 },
  ],
  "ddddocr==1.6.1": [
    { file: "ddddocr/common_det.onnx", config: {}, rows: 1 },
    ...["common", "common_old"].map((name) => ({
      file: `ddddocr/${name}.onnx`,
      // The file declares its output as [1, seqlen].
      config: { ...exactWidth, output: [{ name: "387", dims: ["T", "batch", 8210] }] },
      refusal: variable,
      rows: 1,
    })),
  ],
};

let engine: Engine;
beforeAll(async () => {
  engine = await startOnnxEngine();
});
afterAll(() => new Promise<void>((done) => engine.stop(done)));

/** A folder with the package's files, or why there is none. Nothing of the package is run. */
async function fetched(name: string): Promise<{ readonly folder: string } | { readonly reason: string }> {
  const folder = join(cache, name);
  if (existsSync(folder)) return { folder };
  mkdirSync(cache, { recursive: true });
  const made = mkdtempSync(join(cache, "part-"));
  try {
    const args = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps", "--no-compile"];
    const wheel = ["--only-binary=:all:", "--python-version", "3.12", "--platform", "manylinux_2_28_x86_64"];
    await run("python3", [...args, ...wheel, "--retries", "1", "--timeout", "20", "--target", made, name], {
      timeout: 100_000,
    });
    renameSync(made, folder);
    return { folder };
  } catch (error) {
    const lines = (error as { stderr?: string }).stderr?.trim().split("\n") ?? [];
    return { reason: `${name} can't be fetched by pip: ${lines.at(-1) ?? String(error)}` };
  } finally {
    rmSync(made, { recursive: true, force: true });
  }
}

for (const [name, models] of Object.entries(PACKAGES))
  test(`models of ${name} are served with what their first refusal advises, and run`, async (context) => {
    const got = await fetched(name);
    if ("reason" in got) return context.skip(got.reason);
    for (const { file, config, refusal, rows = 3 } of models) {
      const bytes = readFileSync(join(got.folder, file));
      const description = describeModel(bytes);
      const draft = (more: ModelConfig) => draftModel({ name: "m", slo: "500ms", ...more }, description);
      if (refusal !== undefined) expect(() => draft({}), file).toThrow(refusal);
      const spec = completeSpec(draft(config), { number: 1, object: "m" });
      const loaded = await new Promise<LoadOutcome>((done) => engine.load({ spec, bytes }, done));
      expect([file, loaded]).toEqual([file, { kind: "loaded", memoryBytes: expect.any(Number) as number }]);
      const batch = randomBatch(spec, { bucket: 0, batchSize: rows, seed: 1 });
      const outcome = await new Promise<RunOutcome>((done) => engine.run(batch, done));
      expect([file, outcome]).toMatchObject([file, { kind: "ran", failedRows: [] }]);
    }
  });
