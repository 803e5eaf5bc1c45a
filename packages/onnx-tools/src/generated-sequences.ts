/**
 * Generated models whose inputs vary in length, as language models' do. Padding behind a row's data never reaches its
 * outputs.
 */
import { Prng } from "@tutti/units";
import { DataType, booleans, floats, graph, integers, modelBytes, node, uniform, value } from "./graph-builder.ts";

export interface SequenceOptions {
  readonly seed?: number;
  readonly width?: number;
}

export interface TokenLoopOptions extends SequenceOptions {
  /** Numbers of each token. */
  readonly inputs?: number;
}

/**
 * A recurrent network written as a Loop that runs as often as the longest row of its batch is long. Time is linear in
 * that length, and each turn is one product of matrices, so a batch costs little more than its longest row alone. A row
 * whose tokens are used up keeps its state.
 *
 * x f32[batch, T, inputs], lengths i64[batch] → y f32[batch, width]
 */
export function generateTokenLoop({ seed = 6, width = 256, inputs = 8 }: TokenLoopOptions = {}): Uint8Array {
  const prng = new Prng(seed);
  const body = graph({
    name: "token",
    inputs: [
      value("i", DataType.INT64, []),
      value("go", DataType.BOOL, []),
      value("state", DataType.FLOAT, ["batch", width]),
    ],
    outputs: [value("go_on", DataType.BOOL, []), value("next", DataType.FLOAT, ["batch", width])],
    nodes: [
      node("Identity", ["go"], ["go_on"]),
      node("Gather", ["x", "i"], ["token"], { axis: 1n }),
      node("MatMul", ["state", "w"], ["turned"]),
      node("MatMul", ["token", "v"], ["read"]),
      node("Add", ["turned", "read"], ["sum"]),
      node("Tanh", ["sum"], ["candidate"]),
      node("Less", ["i", "lengths"], ["lives"]),
      node("Unsqueeze", ["lives", "last"], ["lives_row"]),
      node("Where", ["lives_row", "candidate", "state"], ["next"]),
    ],
  });
  return modelBytes({
    name: "token-loop",
    inputs: [value("x", DataType.FLOAT, ["batch", "T", inputs]), value("lengths", DataType.INT64, ["batch"])],
    outputs: [value("y", DataType.FLOAT, ["batch", width])],
    nodes: [
      node("ReduceMax", ["lengths"], ["trips"], { keepdims: 0n }),
      node("Gather", ["x", "first"], ["like"], { axis: 1n }),
      node("MatMul", ["like", "nothing"], ["zeros"]),
      node("Loop", ["trips", "yes", "zeros"], ["y"], { body }),
    ],
    initializers: [
      floats("w", [width, width], uniform(prng, width * width, Math.sqrt(3 / width))),
      floats("v", [inputs, width], uniform(prng, inputs * width, Math.sqrt(3 / inputs))),
      floats("nothing", [inputs, width], new Float32Array(inputs * width)),
      integers("first", [], [0n]),
      integers("last", [1], [1n]),
      booleans("yes", [], [true]),
    ],
  });
}

export interface AttentionOptions extends SequenceOptions {
  readonly vocabulary?: number;
}

/**
 * One layer of self-attention over embedded tokens, with the mask that real encoders take. Time grows with the square
 * of the length.
 *
 * ids i64[batch, L], mask f32[batch, L] (1 where there is a token) → tokens f32[batch, L, width], pooled f32[batch,
 * width] (the mean over a row's tokens)
 */
export function generateMaskedAttention(options: AttentionOptions = {}): Uint8Array {
  const { seed = 7, width = 64, vocabulary = 1_000 } = options;
  const prng = new Prng(seed);
  return modelBytes({
    name: "masked-attention",
    inputs: [value("ids", DataType.INT64, ["batch", "L"]), value("mask", DataType.FLOAT, ["batch", "L"])],
    outputs: [
      value("tokens", DataType.FLOAT, ["batch", "L", width]),
      value("pooled", DataType.FLOAT, ["batch", width]),
    ],
    nodes: [
      node("Gather", ["table", "ids"], ["embedded"], { axis: 0n }),
      node("MatMul", ["embedded", "wq"], ["q"]),
      node("Transpose", ["embedded"], ["k"], { perm: [0n, 2n, 1n] }),
      node("MatMul", ["q", "k"], ["raw"]),
      // (mask − 1) · 1e9: no attention to padding.
      node("Sub", ["mask", "one"], ["absent"]),
      node("Mul", ["absent", "huge"], ["penalty"]),
      node("Unsqueeze", ["penalty", "axis1"], ["penalty_keys"]),
      node("Add", ["raw", "penalty_keys"], ["scores"]),
      node("Softmax", ["scores"], ["attention"], { axis: -1n }),
      node("MatMul", ["attention", "embedded"], ["context"]),
      node("MatMul", ["context", "wo"], ["turned"]),
      node("Tanh", ["turned"], ["tokens"]),
      node("Unsqueeze", ["mask", "axis2"], ["mask_tokens"]),
      node("Mul", ["tokens", "mask_tokens"], ["present"]),
      node("ReduceSum", ["present", "axis1"], ["total"], { keepdims: 0n }),
      node("ReduceSum", ["mask", "axis1"], ["count"], { keepdims: 1n }),
      node("Div", ["total", "count"], ["pooled"]),
    ],
    initializers: [
      floats("table", [vocabulary, width], uniform(prng, vocabulary * width, 1)),
      floats("wq", [width, width], uniform(prng, width * width, 1 / width)),
      floats("wo", [width, width], uniform(prng, width * width, Math.sqrt(3 / width))),
      floats("one", [], Float32Array.of(1)),
      floats("huge", [], Float32Array.of(1e9)),
      integers("axis1", [1], [1n]),
      integers("axis2", [1], [2n]),
    ],
  });
}
