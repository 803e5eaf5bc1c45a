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
  onnxGraph,
} from "@tutti/onnx-tools";
import type { Tensor } from "@tutti/protocol";
import { Prng } from "@tutti/units";
import { toHalf } from "@tutti/wire";

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

/** Computes in half floats, beginning with what onnxruntime 1.30 can't lay out anew: transposed rows times weights. */
export function halfFloats(layers = 4, width = 64): EngineModel {
  const { DataType, floats, modelBytes, node, uniform, value } = onnxGraph;
  const prng = new Prng(1);
  const weightsOf = (_: unknown, layer: number) => {
    const tensor = floats(`w${layer}`, [width, width], uniform(prng, width * width, 3 / Math.sqrt(width)));
    const numbers = new Float32Array(tensor.rawData.buffer);
    return Object.assign(tensor, {
      dataType: DataType.FLOAT16,
      rawData: new Uint8Array(Uint16Array.from(numbers, toHalf).buffer),
    });
  };
  const bytes = modelBytes({
    name: "half",
    inputs: [value("x", DataType.FLOAT, [2, "batch", width])],
    outputs: [value("y", DataType.FLOAT, ["batch", 2, width])],
    nodes: [
      node("Cast", ["x"], ["half"], { to: BigInt(DataType.FLOAT16) }),
      node("Transpose", ["half"], ["h0"], { perm: [1n, 0n, 2n] }),
      ...Array.from({ length: layers }, (_, layer) => [
        node("MatMul", [`h${layer}`, `w${layer}`], [`m${layer}`]),
        node("Tanh", [`m${layer}`], [`h${layer + 1}`]),
      ]).flat(),
      node("Cast", [`h${layers}`], ["y"], { to: BigInt(DataType.FLOAT) }),
    ],
    initializers: Array.from({ length: layers }, weightsOf),
  });
  return modelOf("half", bytes);
}

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
