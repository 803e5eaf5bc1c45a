import type { EngineModel } from "@tutti/engine";
import { startOnnxEngine } from "@tutti/engine-onnx";
import { completeSpec, damaged, describeModel, draftModel, generateCtr, generateMlp } from "@tutti/onnx-tools";
import type { Tensor } from "@tutti/protocol";
import { Prng } from "@tutti/units";
import { engineConformance } from "./engine.suite.ts";

const ROWS = 50;
const SLOTS = 4;

function modelOf(name: string, bytes: Uint8Array): EngineModel {
  const draft = draftModel({ name, slo: "50ms" }, describeModel(bytes));
  return { spec: completeSpec(draft, { number: 1, object: name }), bytes };
}

/** An item's values follow from its number alone. */
function inputs(model: EngineModel, batchSize: number, first: number): Tensor[] {
  return model.spec.inputs.map(({ name, type, dims }) => {
    const width = dims[1] as number;
    const items = Array.from({ length: batchSize }, (_, row) => new Prng(first + row + 1));
    const values =
      type === "INT64"
        ? BigInt64Array.from(items.flatMap((prng) => Array.from({ length: width }, () => BigInt(prng.nextInt(ROWS)))))
        : Float32Array.from(items.flatMap((prng) => Array.from({ length: width }, () => prng.nextFloat() * 2 - 1)));
    return { name, type, dims: [batchSize, width], data: new Uint8Array(values.buffer) };
  });
}

/** An id outside the embedding table: the whole run fails, and only running the rows alone tells which it was. */
function poisoned(model: EngineModel, batchSize: number, bad: number): Tensor[] {
  const batch = inputs(model, batchSize, 0);
  for (const { data } of batch) new BigInt64Array(data.buffer)[bad * SLOTS] = BigInt(ROWS);
  return batch;
}

engineConformance("onnx-cpu", async () => {
  const mlp = modelOf("mlp", generateMlp({ widths: [16, 64, 8] }));
  const ctr = modelOf("ctr", generateCtr({ rows: ROWS, width: 8, slots: SLOTS, hidden: 16 }));
  const unloadable: EngineModel = {
    spec: { ...mlp.spec, name: "broken" },
    bytes: damaged(mlp.bytes as Uint8Array, "flipped-bit"),
  };
  return { engine: await startOnnxEngine(), models: [mlp, ctr], unloadable, inputs, poisoned };
});
