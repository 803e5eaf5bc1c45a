import { startOnnxEngine } from "@tutti/engine-onnx";
import type { LoadOutcome } from "@tutti/ports/engine";
import { assert } from "@tutti/units";
import { expect, test } from "vitest";
import { ctr, flipped, halfFloats, inputs, mlp, poisoned } from "./engine-models.ts";
import { startEngineProcess } from "./engine-process.ts";
import { engineConformance } from "./engine.suite.ts";

engineConformance("onnx-cpu", async () => ({
  engine: await startOnnxEngine(),
  models: [mlp, ctr],
  unloadable: flipped,
  inputs,
  poisoned,
}));

test("onnx-cpu: transposed rows times half-float weights, at which onnxruntime would end the process, are loaded", async () => {
  const started = await startEngineProcess("cpu", {});
  assert("engine" in started, "problem" in started ? started.problem : "");
  const outcome = await new Promise<LoadOutcome>((done) => started.engine.load(halfFloats(), done));
  await new Promise<void>((done) => started.engine.stop(done));
  expect(outcome).toMatchObject({ kind: "loaded" });
});
