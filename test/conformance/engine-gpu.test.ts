/**
 * Engines on this machine's own GPU, over CUDA and over WebGPU with its maker's driver; skipped where there is none.
 */
import { expect, test } from "vitest";
import { cnn, ctr, flipped, inputs, mlp } from "./engine-models.ts";
import { startEngineProcess } from "./engine-process.ts";
import { engineConformance } from "./engine.suite.ts";

for (const provider of ["cuda", "webgpu"]) {
  const tried = await startEngineProcess(provider, {});
  if ("engine" in tried) await new Promise<void>((done) => tried.engine.stop(done));

  test(`onnx-${provider}: this machine's GPU runs the suite`, (context) => {
    if ("problem" in tried) return context.skip(tried.problem);
    expect(tried.engine.type).toBe(`onnx-${provider}`);
  });
  if ("problem" in tried) continue;

  // On a GPU an index outside its table is no error, so no item can spoil a batch.
  engineConformance(`onnx-${provider}`, async () => {
    const started = await startEngineProcess(provider, {});
    if ("problem" in started) throw new Error(started.problem);
    const rounding = provider === "cuda" ? 5e-3 : 1e-5; // TF32
    // With convolutions CUDA runs in few sizes; over WebGPU some are computed wrongly.
    return {
      engine: started.engine,
      models: [provider === "cuda" ? cnn : mlp, ctr],
      unloadable: flipped,
      inputs,
      rounding,
    };
  });
}
