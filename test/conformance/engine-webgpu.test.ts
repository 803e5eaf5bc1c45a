/** The accelerator's code path on any machine: onnxruntime's WebGPU provider over Mesa's software Vulkan driver. */
import { execFile } from "node:child_process";
import { fileURLToPath } from "node:url";
import type { EngineModel, LoadOutcome } from "@tutti/ports/engine";
import { completeSpec, describeModel, draftModel, onnxGraph } from "@tutti/onnx-tools";
import { Prng, assert } from "@tutti/units";
import { expect, test } from "vitest";
import { ctr, flipped, halfFloats, inputs, mlp } from "./engine-models.ts";
import { startEngineProcess } from "./engine-process.ts";
import { engineConformance } from "./engine.suite.ts";

const script = fileURLToPath(new URL("../../infra/webgpu/fetch-driver.sh", import.meta.url));

/** The environment that selects the driver, or why there is none: no Debian, or no way to its archive. */
async function findDriver(): Promise<Record<string, string> | string> {
  const { output, problem } = await new Promise<{ output: string; problem: string }>((done) => {
    execFile("sh", [script], { timeout: 110_000 }, (error, stdout, stderr) => {
      done({ output: stdout, problem: error === null ? "" : stderr.trim() || error.message });
    });
  });
  if (problem !== "") return problem;
  return Object.fromEntries(
    output
      .trim()
      .split("\n")
      .map((line) => line.split(/=(.*)/s).slice(0, 2) as [string, string]),
  );
}

const driver = await findDriver();

test("onnx-webgpu: a software Vulkan driver runs the suite", (context) => {
  if (typeof driver === "string") return context.skip(driver);
  expect(driver["VK_ICD_FILENAMES"]).toMatch(/lavapipe\.json$/);
});

if (typeof driver !== "string") {
  const start = async (): Promise<
    Extract<Awaited<ReturnType<typeof startEngineProcess>>, { engine: unknown }>["engine"]
  > => {
    const started = await startEngineProcess("webgpu", driver);
    assert("engine" in started, "problem" in started ? started.problem : "");
    return started.engine;
  };

  // On this provider an index outside its table is no error, so no item can spoil a batch.
  engineConformance("onnx-webgpu", async () => ({
    engine: await start(),
    models: [mlp, ctr],
    unloadable: flipped,
    inputs,
  }));

  test("onnx-webgpu: a model that the provider computes wrongly is refused at load, with the way out", async () => {
    const engine = await start();
    const outcome = await new Promise<LoadOutcome>((done) => engine.load(wronglyComputed(), done));
    await new Promise<void>((done) => engine.stop(done));
    expect(outcome).toMatchObject({
      kind: "failed",
      reason: expect.stringMatching(/computes this model wrongly.*--provider cpu/),
    });
  });

  test("onnx-webgpu: a model in half floats, which the CPU computes in wider ones, is loaded", async () => {
    const engine = await start();
    const outcome = await new Promise<LoadOutcome>((done) => engine.load(halfFloats(), done));
    await new Promise<void>((done) => engine.stop(done));
    expect(outcome).toMatchObject({ kind: "loaded" });
  });
}

/** A convolution with six input channels: a known fault of the provider's shader (not of the driver). */
function wronglyComputed(): EngineModel {
  const { DataType, floats, modelBytes, node, value } = onnxGraph;
  const prng = new Prng(1);
  const weights = Float32Array.from({ length: 16 * 6 * 25 }, () => prng.nextFloat() - 0.5);
  const bytes = modelBytes({
    name: "six-channels",
    inputs: [value("x", DataType.FLOAT, ["batch", 6, 14, 14])],
    outputs: [value("y", DataType.FLOAT, ["batch", 16, 10, 10])],
    nodes: [node("Conv", ["x", "w"], ["y"], { kernel_shape: [5n, 5n] })],
    initializers: [floats("w", [16, 6, 5, 5], weights)],
  });
  const draft = draftModel({ name: "six-channels", slo: "50ms" }, describeModel(bytes));
  return { spec: completeSpec(draft, { number: 1, object: "six-channels" }), bytes };
}
