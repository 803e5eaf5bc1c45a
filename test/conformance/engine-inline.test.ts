/** Tests which models' batches run on the executor's own thread (packages/engine-onnx/README.md). */
import { createHash } from "node:crypto";
import type { EngineModel } from "@tutti/ports/engine";
import { startOnnxEngine } from "@tutti/engine-onnx";
import { generateEndless } from "@tutti/onnx-tools";
import { millis } from "@tutti/units";
import { expect, test } from "vitest";
import { mlp } from "./engine-models.ts";

const WIDTH = 4;

/** A model that loops for as many steps as its input says. */
function endless(): EngineModel {
  const bytes = generateEndless({ width: WIDTH });
  const sha256 = createHash("sha256").update(bytes).digest("hex");
  const { runDeadline: _, ...like } = mlp.spec;
  const spec = {
    ...like,
    name: "endless",
    batchSizeMax: 1,
    inputs: [{ name: "x", type: "FP32" as const, dims: ["batch", WIDTH] }],
    outputs: [{ name: "y", type: "FP32" as const, dims: ["batch", WIDTH] }],
    file: { object: "endless", sha256, bytes: bytes.byteLength },
  };
  return { spec, bytes };
}

test("a quick model runs inline; one with a Loop or a deadline for its runs does not, however quick its trial was", async () => {
  const engine = await startOnnxEngine();
  const inline = async (model: EngineModel): Promise<boolean> => {
    const outcome = await new Promise((done) => engine.load(model, done));
    expect(outcome).toMatchObject({ kind: "loaded" });
    return engine.runsInline(model.spec.name);
  };
  expect(await inline(mlp)).toBe(true);
  expect(await inline(endless())).toBe(false);
  expect(await inline({ ...mlp, spec: { ...mlp.spec, runDeadline: millis(400) } })).toBe(false);
  await new Promise<void>((done) => engine.stop(done));
});
