import { startOnnxEngine } from "@tutti/engine-onnx";
import { ctr, flipped, inputs, mlp, poisoned } from "./engine-models.ts";
import { engineConformance } from "./engine.suite.ts";

engineConformance("onnx-cpu", async () => ({
  engine: await startOnnxEngine(),
  models: [mlp, ctr],
  unloadable: flipped,
  inputs,
  poisoned,
}));
