/** Two small models for the conformance suite, with inputs that follow from an item's number alone. */
import type { EngineModel } from "@tutti/ports/engine";
import {
  completeSpec,
  damaged,
  describeModel,
  draftModel,
  generateCnn,
  generateCtr,
  generateMlp,
} from "@tutti/onnx-tools";
import type { Tensor } from "@tutti/protocol";
import { Prng } from "@tutti/units";

const ROWS = 50;
const SLOTS = 4;

function modelOf(name: string, bytes: Uint8Array): EngineModel {
  const draft = draftModel({ name, slo: "50ms" }, describeModel(bytes));
  return { spec: completeSpec(draft, { number: 1, object: name }), bytes };
}

export const mlp = modelOf("mlp", generateMlp({ widths: [16, 64, 8] }));
export const ctr = modelOf("ctr", generateCtr({ rows: ROWS, width: 8, slots: SLOTS, hidden: 16 }));
export const cnn = modelOf("cnn", generateCnn({ size: 8 }));
/** A changed model, which loads without an error unless its sha256 is compared. */
export const flipped: EngineModel = {
  spec: { ...mlp.spec, name: "flipped" },
  bytes: damaged(mlp.bytes as Uint8Array, "flipped-bit"),
};

export function inputs(model: EngineModel, batchSize: number, first: number): Tensor[] {
  return model.spec.inputs.map(({ name, type, dims }) => {
    const row = dims.slice(1) as number[];
    const width = row.reduce((product, dim) => product * dim, 1);
    const items = Array.from({ length: batchSize }, (_, row) => new Prng(first + row + 1));
    const values =
      type === "INT64"
        ? BigInt64Array.from(items.flatMap((prng) => Array.from({ length: width }, () => BigInt(prng.nextInt(ROWS)))))
        : Float32Array.from(items.flatMap((prng) => Array.from({ length: width }, () => prng.nextFloat() * 2 - 1)));
    return { name, type, dims: [batchSize, ...row], data: new Uint8Array(values.buffer) };
  });
}

/**
 * A batch with an id outside the embedding table. The whole run fails, and only running the rows one by one shows which
 * it was.
 */
export function poisoned(model: EngineModel, batchSize: number, bad: number): Tensor[] {
  const batch = inputs(model, batchSize, 0);
  for (const { data } of batch) new BigInt64Array(data.buffer)[bad * SLOTS] = BigInt(ROWS);
  return batch;
}
