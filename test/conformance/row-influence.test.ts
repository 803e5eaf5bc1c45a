/**
 * Rows of a batch that influence each other, on the real engine: such a model is refused when it is loaded, and served
 * where each request runs by itself. Models whose rows don't are loaded, whatever they compute.
 */
import type { Engine, EngineModel, LoadOutcome } from "@tutti/ports/engine";
import { startOnnxEngine } from "@tutti/engine-onnx";
import {
  type ModelConfig,
  completeSpec,
  describeModel,
  draftModel,
  generateCnn,
  generateCtr,
  generateMaskedAttention,
  generateMlp,
  generateTokenLoop,
  onnxGraph,
} from "@tutti/onnx-tools";
import { Prng } from "@tutti/units";
import { afterAll, beforeAll, expect, test } from "vitest";

const { DataType, floats, integers, modelBytes, node, uniform, value } = onnxGraph;
type Node = ReturnType<typeof node>;
type Constant = ReturnType<typeof floats>;

let engine: Engine;
beforeAll(async () => {
  engine = await startOnnxEngine();
});
afterAll(() => new Promise<void>((done) => engine.stop(done)));

function load(bytes: Uint8Array, config: ModelConfig = {}): Promise<LoadOutcome> {
  const draft = draftModel({ slo: "50ms", name: "m", ...config }, describeModel(bytes));
  const model: EngineModel = { spec: completeSpec(draft, { number: 1, object: "m" }), bytes };
  return new Promise((done) => engine.load(model, done));
}

interface Given {
  readonly nodes: readonly Node[];
  readonly constants?: readonly Constant[];
  readonly width?: number;
  /** Type of y; default: that of x. */
  readonly type?: (typeof DataType)[keyof typeof DataType] & number;
  readonly dims?: readonly (number | string)[];
}

/** x f32[batch, width] → y */
function modelOf({ nodes, constants = [], width = 16, type = DataType.FLOAT, dims = ["batch", width] }: Given) {
  return modelBytes({
    name: "m",
    inputs: [value("x", DataType.FLOAT, ["batch", width])],
    outputs: [value("y", type, dims)],
    nodes,
    initializers: constants,
  });
}

const weights = (name: string, rows: number, columns: number): Constant =>
  floats(name, [rows, columns], uniform(new Prng(rows + columns), rows * columns, Math.sqrt(3 / rows)));
const filled = (name: string, width: number, of: number): Constant =>
  floats(name, [width], new Float32Array(width).fill(of));

const mean = modelOf({
  nodes: [node("ReduceMean", ["x"], ["m"], { axes: [0n] }), node("Sub", ["x", "m"], ["y"])],
});

const INFLUENCED: Readonly<Record<string, Uint8Array>> = {
  "a mean over the batch": mean,
  "a softmax over the batch": modelOf({ nodes: [node("Softmax", ["x"], ["y"], { axis: 0n })] }),
  "a running sum over the batch": modelOf({
    nodes: [node("CumSum", ["x", "axis"], ["y"])],
    constants: [integers("axis", [], [0n])],
  }),
  "an index computed over the batch": modelOf({
    nodes: [
      node("ReduceMax", ["x"], ["most"], { axes: [0n] }),
      node("Sub", ["x", "most"], ["d"]),
      node("ArgMax", ["d"], ["y"], { axis: 1n, keepdims: 0n }),
    ],
    type: DataType.INT64,
    dims: ["batch"],
  }),
  "an answer that depends on how many rows there are": modelOf({
    nodes: [
      node("Shape", ["x"], ["size"], { end: 1n }),
      node("Cast", ["size"], ["rows"], { to: BigInt(DataType.FLOAT) }),
      node("Div", ["x", "rows"], ["y"]),
    ],
  }),
};

for (const [name, bytes] of Object.entries(INFLUENCED))
  test(`${name} is refused, and accepted where each request runs by itself (T2)`, async () => {
    const outcome = await load(bytes);
    expect(outcome).toMatchObject({ kind: "failed" });
    expect((outcome as { reason: string }).reason).toMatch(
      /^rows of a batch influence each other: output 'y' .*`max_batch_size: 1`/,
    );
    expect(await load(bytes, { max_batch_size: 1 })).toMatchObject({ kind: "loaded" });
  });

test("a deadline for runs doesn't switch the check off; who knows better does", async () => {
  const refused = await load(mean, { run_deadline: "5s" });
  expect(refused).toMatchObject({ kind: "failed", reason: expect.stringContaining("`independent_rows: true`") });
  expect(await load(mean, { independent_rows: true })).toMatchObject({ kind: "loaded" });
});

test("a batch normalization in training mode is refused for any size of batches: runs change its weights", async () => {
  const bytes = modelOf({
    nodes: [node("BatchNormalization", ["x", "one", "zero", "zero", "one"], ["y", "m", "v"], { training_mode: 1n })],
    constants: [filled("one", 16, 1), filled("zero", 16, 0)],
  });
  const reason = expect.stringMatching(/^a batch normalization is in training mode.*for inference/) as string;
  expect(await load(bytes)).toMatchObject({ kind: "failed", reason });
  expect(await load(bytes, { max_batch_size: 1 })).toMatchObject({ kind: "failed", reason });
});

/** Layers, quantized as onnxruntime's `quantize_dynamic` does it: the scale is that of the whole batch. */
function quantized(layers: number, width = 64): Given {
  const nodes: Node[] = [];
  const constants: Constant[] = [];
  let from = "x";
  for (let i = 0; i < layers; i++) {
    const to = i === layers - 1 ? "y" : `relu${i}`;
    constants.push(weights(`w${i}`, width, width));
    nodes.push(
      node("DynamicQuantizeLinear", [from], [`xq${i}`, `xs${i}`, `xz${i}`]),
      node("DynamicQuantizeLinear", [`w${i}`], [`wq${i}`, `ws${i}`, `wz${i}`]),
      node("MatMulInteger", [`xq${i}`, `wq${i}`, `xz${i}`, `wz${i}`], [`sum${i}`]),
      node("Cast", [`sum${i}`], [`f${i}`], { to: BigInt(DataType.FLOAT) }),
      node("Mul", [`xs${i}`, `ws${i}`], [`s${i}`]),
      node("Mul", [`f${i}`, `s${i}`], [`product${i}`]),
      node(to === "y" ? "Identity" : "Relu", [`product${i}`], [to]),
    );
    from = to;
  }
  return { nodes, constants, width };
}

/** Attention of the places of one row to each other. */
const attention = modelBytes({
  name: "m",
  inputs: [value("x", DataType.FLOAT, ["batch", 12, 8])],
  outputs: [value("y", DataType.FLOAT, ["batch", 12, 8])],
  nodes: [
    node("Transpose", ["x"], ["k"], { perm: [0n, 2n, 1n] }),
    node("MatMul", ["x", "k"], ["scores"]),
    node("Softmax", ["scores"], ["shares"], { axis: 2n }),
    node("MatMul", ["shares", "x"], ["y"]),
  ],
});

const halves: readonly Node[] = [
  node("Cast", ["x"], ["h"], { to: BigInt(DataType.FLOAT16) }),
  node("Cast", ["w"], ["wh"], { to: BigInt(DataType.FLOAT16) }),
  node("MatMul", ["h", "wh"], ["p"]),
  node("Tanh", ["p"], ["t"]),
  node("Cast", ["t"], ["y"], { to: BigInt(DataType.FLOAT) }),
];

const normalization = modelOf({
  nodes: [node("BatchNormalization", ["x", "one", "zero", "zero", "one"], ["y"], { training_mode: 0n })],
  constants: [filled("one", 16, 1), filled("zero", 16, 0)],
});

/**
 * Bytes of a file, as magika takes them: a mean of embeddings, of which the first two are alike, less that of an empty
 * file, and scaled. From rows of zeros and ones it leaves rounding alone, which differs between runs of one row and
 * two.
 */
function fileTypes(slots = 512, width = 64): Uint8Array {
  const table = uniform(new Prng(11), 256 * width, 1);
  table.copyWithin(width, 0, width);
  return modelBytes({
    name: "m",
    inputs: [value("x", DataType.INT32, ["batch", slots])],
    outputs: [value("y", DataType.FLOAT, ["batch", width])],
    nodes: [
      node("Gather", ["table", "x"], ["embedded"], { axis: 0n }),
      node("ReduceMean", ["embedded"], ["mean"], { axes: [1n], keepdims: 0n }),
      node("Sub", ["mean", "empty"], ["d"]),
      node("ReduceL2", ["d"], ["spread"], { axes: [1n] }),
      node("Div", ["d", "spread"], ["y"]),
    ],
    initializers: [floats("table", [256, width], table), floats("empty", [width], table.slice(0, width))],
  });
}

const INDEPENDENT: Readonly<Record<string, Uint8Array>> = {
  "an MLP": generateMlp({ widths: [64, 256, 256, 10] }),
  "a CNN": generateCnn(),
  "ids in a table of two rows": generateCtr({ rows: 2, width: 8, hidden: 16 }),
  attention,
  "a batch normalization": normalization,
  "the index of the largest": modelOf({
    nodes: [node("MatMul", ["x", "w"], ["logits"]), node("ArgMax", ["logits"], ["y"], { axis: 1n, keepdims: 0n })],
    constants: [weights("w", 16, 1000)],
    type: DataType.INT64,
    dims: ["batch"],
  }),
  "a dynamically quantized model": modelOf(quantized(8)),
  "the index of the largest of a quantized model": modelOf({
    nodes: [...quantized(4).nodes.slice(0, -1), node("ArgMax", ["product3"], ["y"], { axis: 1n, keepdims: 0n })],
    constants: quantized(4).constants!,
    ...{ width: 64, type: DataType.INT64, dims: ["batch"] },
  }),
  "half floats within": modelOf({ nodes: halves, constants: [weights("w", 16, 16)] }),
  "pixels, rounded": modelOf({
    nodes: [
      node("MatMul", ["x", "w"], ["p"]),
      node("Mul", ["p", "most"], ["m"]),
      node("Abs", ["m"], ["a"]),
      node("Cast", ["a"], ["y"], { to: BigInt(DataType.UINT8) }),
    ],
    constants: [weights("w", 16, 16), floats("most", [1], Float32Array.of(50))],
    type: DataType.UINT8,
  }),
  "random numbers": modelOf({
    nodes: [node("RandomNormalLike", ["x"], ["noise"]), node("Add", ["x", "noise"], ["y"])],
  }),
  "bytes, of which zeros and ones are alike": fileTypes(),
  "no number for some values": modelOf({ nodes: [node("Log", ["x"], ["y"])] }),
};

for (const [name, bytes] of Object.entries(INDEPENDENT))
  test(`rows of ${name} don't influence each other`, async () => {
    expect(await load(bytes)).toMatchObject({ kind: "loaded" });
  });

test("rows of other lengths and loops over them are accepted as they were", async () => {
  const axes = { T: { mode: "pad", max: 16, lengths: "lengths" } } as const;
  expect(await load(generateTokenLoop({ width: 16 }), { axes })).toMatchObject({ kind: "loaded" });
  const masked = { L: { mode: "pad", max: 16, mask: "mask" } } as const;
  expect(await load(generateMaskedAttention(), { axes: masked })).toMatchObject({ kind: "loaded" });
});

test("a model that can't run random rows is left to whoever measures it", async () => {
  const nodes = [
    node("ReduceMean", ["x"], ["m"], { axes: [0n] }),
    node("Cast", ["m"], ["at"], { to: BigInt(DataType.INT64) }),
    node("Add", ["at", "beyond"], ["id"]),
    node("Gather", ["table", "id"], ["g"]),
    node("Add", ["x", "g"], ["y"]),
  ];
  const constants = [integers("beyond", [1], [1000n]), filled("table", 4, 1)];
  expect(await load(modelOf({ nodes, constants }))).toMatchObject({ kind: "loaded" });
});
