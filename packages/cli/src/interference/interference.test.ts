import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { availableParallelism, tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { generateMlp } from "@tutti/onnx-tools";
import { type Interference, SIZES } from "@tutti/planning";
import { type FractionsInput, readFractionsInput } from "../plan/fractions-input.ts";
import { PATIENCE_MS, typedIn } from "../testing/typed-command.ts";
import { emulatedBench } from "./emulated-bench.ts";
import { interferenceFile, interferenceText } from "./interference-file.ts";
import { measureInterference } from "./measurement.ts";

const folder = mkdtempSync(join(tmpdir(), "tutti-interference-test-"));
afterAll(() => rmSync(folder, { recursive: true }));

const inputOf = (
  interference: Interference | undefined,
  uses: readonly (readonly [number, number])[],
): FractionsInput => ({
  names: uses.map((_, id) => `m${id}`),
  models: uses.map(([cacheUse, bandwidthUse], id) => ({
    ...{ id, slo: 100, rate: 0.1, batchMax: 8, cacheUse, bandwidthUse },
    latency: (batchSize: number, size: number) => 2 + (batchSize * (id + 1) * 100) / size,
  })),
  ...{ executors: 2, sizes: SIZES, interference },
});
const USES = [
  [0.1, 0.3],
  [0.5, 0.2],
  [0.3, 0.9],
  [0.8, 0.5],
] as const;

test("without noise the line that slowed the runs is found again, and predicts what it has not seen", async () => {
  const truth: Interference = [0.2, 0.5, 0.3, 0.2, 1.05];
  const bench = emulatedBench(inputOf(truth, USES), { noise: 0, seed: 1 });
  const { coefficients, prediction, ignored, pairs, models } = await measureInterference(bench, { pairs: 40, seed: 3 });
  for (const [i, c] of truth.entries()) expect(coefficients[i]).toBeCloseTo(c, 9);
  expect(prediction).toMatchObject({ fitted: 28, predicted: 12 });
  expect(prediction.p95).toBeLessThan(1e-9);
  expect(ignored.p90).toBeGreaterThan(0.1);
  for (const { runs } of pairs) expect(runs[0].size + runs[1].size).toBe(100);
  expect(models[1]!.latencyMs[50]).toEqual({ 1: 6, 2: 10, 4: 18, 8: 34 });
});

test("with noise it is found nearly: the error is that of the noise, and less than with neighbours ignored", async () => {
  const truth: Interference = [0.2, 0.5, 0.3, 0.2, 1];
  const noise = 0.05;
  for (let seed = 1; seed <= 20; seed++) {
    const bench = emulatedBench(inputOf(truth, USES), { noise, seed });
    const { prediction, ignored } = await measureInterference(bench, { pairs: 80, seed });
    expect(prediction.p95).toBeLessThan(2 * noise);
    expect(prediction.p90).toBeLessThanOrEqual(prediction.p95);
    expect(prediction.p90).toBeLessThan(ignored.p90);
  }
});

test("models that use the same tell nothing apart, and two models on whole accelerators make no pairs", async () => {
  const alike = emulatedBench(inputOf([0, 0, 0, 0, 1.2], [...USES.slice(0, 1), ...USES.slice(0, 1)]), {
    noise: 0,
    seed: 1,
  });
  await expect(measureInterference(alike, { pairs: 40, seed: 1 })).rejects.toThrow("tell the five coefficients apart");
  const whole = emulatedBench({ ...inputOf(undefined, USES), sizes: [100] }, { noise: 0, seed: 1 });
  await expect(measureInterference(whole, { pairs: 40, seed: 1 })).rejects.toThrow("too few");
});

test("the file that it writes is an input of `tutti plan fractions`, with the same coefficients and latencies", async () => {
  const bench = emulatedBench(inputOf([0.2, 0.5, 0.3, 0.2, 1.05], USES), { noise: 0.02, seed: 5 });
  const result = await measureInterference(bench, { pairs: 60, seed: 5 });
  const path = join(folder, "written.yaml");
  writeFileSync(path, interferenceFile(result, "tutti profile --interference"));
  const input = await readFractionsInput(path);
  for (const [i, c] of result.coefficients.entries()) expect(input.interference?.[i]).toBeCloseTo(c, 1);
  expect(input.names).toEqual(["m0", "m1", "m2", "m3"]);
  for (const [id, { latencyMs }] of result.models.entries())
    expect(input.models[id]!.latency(8, 40)).toBeCloseTo(latencyMs[40]![8]!, 1);
});

test("where neighbours don't matter the text says so, and elsewhere it doesn't", async () => {
  const textOf = async (truth: Interference): Promise<string> => {
    const bench = emulatedBench(inputOf(truth, USES), { noise: 0.05, seed: 2 });
    return interferenceText(await measureInterference(bench, { pairs: 60, seed: 2 }));
  };
  expect(await textOf([0.2, 0.5, 0.3, 0.2, 1])).not.toContain("Ignoring neighbours");
  expect(await textOf([0, 0, 0, 0, 1])).toContain("Ignoring neighbours predicts better here");
});

const tutti = typedIn(folder);
const timeout = PATIENCE_MS;

test("what doesn't go together is refused before anything runs", { timeout }, async () => {
  for (const [args, text] of [
    [["--interference", "resnet"], "without a model's name"],
    [["--pairs", "20", "resnet"], "--pairs goes with --interference"],
    [[], "which model?"],
    [["--interference", "--provider", "cuda"], "--cache"],
    [["--interference", "--pairs", "3"], "--pairs 3: a number from 8"],
  ] as const) {
    const { code, stderr } = await tutti("profile", ...args);
    expect({ args, code }).toEqual({ args, code: 2 });
    expect(stderr).toContain(text);
  }
});

test(
  "real models on two parts of this machine's cores: processes are measured, and end",
  { timeout },
  async (context) => {
    if (availableParallelism() < 2) return context.skip("one core can't be split");
    for (const [i, width] of [64, 256, 512].entries()) {
      mkdirSync(join(folder, "models", `mlp${i}`, "1"), { recursive: true });
      const at = (...path: string[]): string => join(folder, "models", `mlp${i}`, ...path);
      writeFileSync(at("1", "model.onnx"), generateMlp({ seed: i, widths: [32, width, width, 8] }));
      writeFileSync(at("config.yaml"), "slo: 100ms\nmax_batch_size: 4\n");
    }
    const args = [
      "--models",
      "models",
      "--sizes",
      "50",
      "--pairs",
      "12",
      "--run-ms",
      "5",
      "--out",
      "real.yaml",
      "--json",
    ];
    const { code, stdout, stderr } = await tutti("profile", "--interference", ...args);
    expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
    const result = JSON.parse(stdout) as { models: { name: string }[]; pairs: { size: number; factor: number }[][] };
    expect(result.models.map(({ name }) => name)).toEqual(["mlp0", "mlp1", "mlp2"]);
    expect(result.pairs).toHaveLength(12);
    for (const { size, factor } of result.pairs.flat()) {
      expect(size).toBe(50);
      expect(factor).toBeGreaterThan(0);
    }
    expect(readFileSync(join(folder, "real.yaml"), "utf8")).toContain("tutti profile --interference");
    expect((await readFractionsInput(join(folder, "real.yaml"))).sizes).toEqual([50, 100]);
  },
);
