/**
 * Models made from a seed: nothing to download, nothing to commit. The bytes are equal on every machine, so that their
 * sha256 can be pinned. Weights are uniform (no transcendental function, whose last bit a platform may choose).
 *
 * Every batch axis is symbolic ("batch"). Convolutions have 1, 3 or a multiple of 4 input channels: the WebGPU provider
 * computes some other counts wrongly (seen for 6 and 9).
 */
import type { GraphProto, NodeProto, TensorProto } from "onnx-buf";
import { Prng, assert } from "@tutti/units";
import { DataType, booleans, floats, graph, modelBytes, node, uniform, value } from "./graph-builder.ts";

/** Most weights of one generated layer: 2^28 weights are 1 GiB, and protobuf cannot hold 2 GiB. */
export const WEIGHTS_MAX = 2 ** 28;

export interface MlpOptions {
  readonly seed?: number;
  /** Widths from the input to the output: at least two. */
  readonly widths: readonly number[];
}

/**
 * Fully connected layers with ReLU between them. Runs are bound by the weights' bytes, so a batch costs little more
 * than one item (β/α 4.5 for the default widths of the demo, 256-1024-1024-128).
 *
 * x f32[batch, widths[0]] → y f32[batch, widths.at(-1)]
 */
export function generateMlp({ seed = 1, widths }: MlpOptions): Uint8Array {
  assert(widths.length >= 2, "an MLP has an input and an output width");
  const parts = denseLayers({ prng: new Prng(seed), input: "x", output: "y", widths });
  return modelBytes({
    name: "mlp",
    inputs: [value("x", DataType.FLOAT, ["batch", widths[0] as number])],
    outputs: [value("y", DataType.FLOAT, ["batch", widths.at(-1) as number])],
    ...parts,
  });
}

export interface CtrOptions {
  readonly seed?: number;
  /** Rows of the embedding table. An id outside it fails the run (and so tests per-item errors). */
  readonly rows?: number;
  readonly width?: number;
  /** Ids per item. */
  readonly slots?: number;
  readonly hidden?: number;
}

/**
 * Embedding and MLP, as click-through prediction has it.
 *
 * ids i64[batch, slots] → score f32[batch, 1] in (0, 1)
 */
export function generateCtr(options: CtrOptions = {}): Uint8Array {
  const { seed = 2, rows = 5000, width = 64, slots = 16, hidden = 512 } = options;
  const prng = new Prng(seed);
  const table = floats("table", [rows, width], uniform(prng, rows * width, 1));
  const mlp = denseLayers({ prng, input: "features", output: "logit", widths: [slots * width, hidden, hidden, 1] });
  return modelBytes({
    name: "ctr",
    inputs: [value("ids", DataType.INT64, ["batch", slots])],
    outputs: [value("score", DataType.FLOAT, ["batch", 1])],
    nodes: [
      node("Gather", ["table", "ids"], ["embedded"], { axis: 0n }),
      node("Flatten", ["embedded"], ["features"], { axis: 1n }),
      ...mlp.nodes,
      node("Sigmoid", ["logit"], ["score"]),
    ],
    initializers: [table, ...mlp.initializers],
  });
}

export interface CnnOptions {
  readonly seed?: number;
  /** Height and width of the image: a multiple of 4. */
  readonly size?: number;
  /** 1, 3 or a multiple of 4 (see the file's header). */
  readonly channels?: number;
  readonly classes?: number;
}

/**
 * Three convolutions with pooling and a classifier: little gain from batching on a CPU.
 *
 * image f32[batch, channels, size, size] → probabilities f32[batch, classes], rows summing to 1
 */
export function generateCnn(options: CnnOptions = {}): Uint8Array {
  const { seed = 3, size = 32, channels = 3, classes = 10 } = options;
  assert(channels === 1 || channels === 3 || channels % 4 === 0, `${channels} channels: take 1, 3 or a multiple of 4`);
  assert(size % 4 === 0, `size ${size} is no multiple of 4`);
  const prng = new Prng(seed);
  const nodes: NodeProto[] = [];
  const initializers: TensorProto[] = [];
  let from = "image";
  for (const [layer, [inputs, outputs]] of (
    [
      [channels, 16],
      [16, 32],
      [32, 32],
    ] as const
  ).entries()) {
    const fanIn = inputs * 9;
    initializers.push(
      floats(`conv${layer}.w`, [outputs, inputs, 3, 3], uniform(prng, outputs * fanIn, Math.sqrt(6 / fanIn))),
    );
    initializers.push(floats(`conv${layer}.b`, [outputs], uniform(prng, outputs, 0.1)));
    nodes.push(
      node("Conv", [from, `conv${layer}.w`, `conv${layer}.b`], [`conv${layer}`], {
        kernel_shape: [3n, 3n],
        pads: [1n, 1n, 1n, 1n],
      }),
    );
    nodes.push(node("Relu", [`conv${layer}`], [`relu${layer}`]));
    from = `relu${layer}`;
    if (layer === 2) break;
    nodes.push(node("MaxPool", [from], [`pool${layer}`], { kernel_shape: [2n, 2n], strides: [2n, 2n] }));
    from = `pool${layer}`;
  }
  const features = 32 * (size / 4) ** 2;
  const head = denseLayers({ prng, input: "features", output: "logits", widths: [features, classes] });
  return modelBytes({
    name: "cnn",
    inputs: [value("image", DataType.FLOAT, ["batch", channels, size, size])],
    outputs: [value("probabilities", DataType.FLOAT, ["batch", classes])],
    nodes: [
      ...nodes,
      node("Flatten", [from], ["features"], { axis: 1n }),
      ...head.nodes,
      node("Softmax", ["logits"], ["probabilities"], { axis: 1n }),
    ],
    initializers: [...initializers, ...head.initializers],
  });
}

/**
 * y = x + 1. A run costs microseconds at any batch size, so a measurement shows the cost of the system around it.
 *
 * x f32[batch, width] → y f32[batch, width]
 */
export function generateAddOne({ width = 4 }: { readonly width?: number } = {}): Uint8Array {
  return modelBytes({
    name: "add-one",
    inputs: [value("x", DataType.FLOAT, ["batch", width])],
    outputs: [value("y", DataType.FLOAT, ["batch", width])],
    nodes: [node("Add", ["x", "one"], ["y"])],
    initializers: [floats("one", [1], Float32Array.of(1))],
  });
}

export interface LoopOptions {
  readonly seed?: number;
  readonly width?: number;
}

/**
 * Runs for `trips` iterations, for tests of faults and deadlines. A run cannot be cancelled, and with 2^62 trips it
 * does not end.
 *
 * x f32[batch, width], trips i64[] → y f32[batch, width]
 */
export function generateLoop({ seed = 4, width = 64 }: LoopOptions = {}): Uint8Array {
  const { body, weights } = turningLoop(seed, width);
  return modelBytes({
    name: "loop",
    inputs: [value("x", DataType.FLOAT, ["batch", width]), value("trips", DataType.INT64, [])],
    outputs: [value("y", DataType.FLOAT, ["batch", width])],
    nodes: [node("Loop", ["trips", "yes", "x"], ["y"], { body })],
    initializers: [weights, booleans("yes", [], [true])],
  });
}

/**
 * Hangs on demand: the largest number of the batch sets the number of iterations. Random numbers below 1 end at once,
 * 1e18 never does.
 *
 * x f32[batch, width] → y f32[batch, width]
 */
export function generateEndless({ seed = 5, width = 16 }: LoopOptions = {}): Uint8Array {
  const { body, weights } = turningLoop(seed, width);
  return modelBytes({
    name: "endless",
    inputs: [value("x", DataType.FLOAT, ["batch", width])],
    outputs: [value("y", DataType.FLOAT, ["batch", width])],
    nodes: [
      node("ReduceMax", ["x"], ["largest"], { keepdims: 0n }),
      node("Cast", ["largest"], ["trips"], { to: BigInt(DataType.INT64) }),
      node("Loop", ["trips", "yes", "x"], ["y"], { body }),
    ],
    initializers: [weights, booleans("yes", [], [true])],
  });
}

/** A loop body that can't be hoisted out of its loop, and its weights. */
function turningLoop(seed: number, width: number): { body: GraphProto; weights: TensorProto } {
  const body = graph({
    name: "step",
    inputs: [
      value("i", DataType.INT64, []),
      value("go", DataType.BOOL, []),
      value("state", DataType.FLOAT, ["batch", width]),
    ],
    outputs: [value("go_on", DataType.BOOL, []), value("next", DataType.FLOAT, ["batch", width])],
    nodes: [
      node("Identity", ["go"], ["go_on"]),
      node("MatMul", ["state", "w"], ["turned"]),
      node("Tanh", ["turned"], ["next"]),
    ],
  });
  return {
    body,
    weights: floats("w", [width, width], uniform(new Prng(seed), width * width, Math.sqrt(3 / width))),
  };
}

/** Kinds of damage to a model file. */
export type Damage = "truncated" | "flipped-bit" | "empty" | "text" | "unknown-operator";

/** A broken copy of a model, for tests. `flipped-bit` still loads; only its sha256 reveals the damage. */
export function damaged(bytes: Uint8Array, damage: Damage): Uint8Array {
  switch (damage) {
    case "truncated":
      return new Uint8Array(bytes.subarray(0, Math.floor(bytes.length / 2)));
    case "flipped-bit": {
      const copy = new Uint8Array(bytes); // `slice` of a Buffer copies nothing
      const middle = Math.floor(copy.length / 2);
      copy[middle] = (copy[middle] as number) ^ 1;
      return copy;
    }
    case "empty":
      return new Uint8Array(0);
    case "text":
      return new TextEncoder().encode("<!DOCTYPE html><title>404: this is no model</title>");
    case "unknown-operator":
      return modelBytes({
        name: "unknown-operator",
        inputs: [value("x", DataType.FLOAT, ["batch", 4])],
        outputs: [value("y", DataType.FLOAT, ["batch", 4])],
        nodes: [node("NoSuchOperator", ["x"], ["y"])],
      });
  }
}

interface DenseOptions {
  readonly prng: Prng;
  readonly input: string;
  readonly output: string;
  readonly widths: readonly number[];
}

/** Gemm layers with ReLU between (none after the last), He-uniform so that activations keep their size. */
function denseLayers({ prng, input, output, widths }: DenseOptions): {
  nodes: NodeProto[];
  initializers: TensorProto[];
} {
  const nodes: NodeProto[] = [];
  const initializers: TensorProto[] = [];
  let from = input;
  for (let layer = 0; layer + 1 < widths.length; layer++) {
    const [inputs, outputs] = [widths[layer] as number, widths[layer + 1] as number];
    assert(inputs * outputs <= WEIGHTS_MAX, `a layer of ${inputs} by ${outputs} does not fit in an ONNX file`);
    const [w, b] = [`${output}.dense${layer}.w`, `${output}.dense${layer}.b`];
    initializers.push(floats(w, [inputs, outputs], uniform(prng, inputs * outputs, Math.sqrt(6 / inputs))));
    initializers.push(floats(b, [outputs], uniform(prng, outputs, 0.1)));
    const last = layer + 2 === widths.length;
    const sum = last ? output : `${output}.dense${layer}`;
    nodes.push(node("Gemm", [from, w, b], [sum]));
    if (last) break;
    from = `${sum}.relu`;
    nodes.push(node("Relu", [sum], [from]));
  }
  return { nodes, initializers };
}
