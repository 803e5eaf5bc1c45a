/** Graphs made from a seed for tests: variants of one another, and rewritten ones. All values are f32[batch, 4]. */
import { create } from "@bufbuild/protobuf";
import {
  type AttributeProto,
  AttributeProtoSchema,
  AttributeProto_AttributeType as AttributeType,
  type GraphProto,
  type ModelProto,
  ModelProtoSchema,
  type NodeProto,
  NodeProtoSchema,
  type TensorProto,
  TensorProtoSchema,
} from "onnx-buf";
import { toBinary } from "@bufbuild/protobuf";
import { Prng } from "@tutti/units";
import { DataType, floats, modelBytes, node, uniform, value } from "../../graph-builder.ts";
import { decodeModel } from "../../model-description.ts";

export const WIDTH = 4;

/** One operator: which earlier values it reads (0: the input), and the seed of its weights. */
export interface Step {
  readonly op: "Add" | "Mul" | "Sub" | "Relu" | "Tanh" | "MatMul" | "Gemm" | "Softmax";
  readonly from: readonly [number, number];
  readonly weights: number;
}

const OPS = ["Add", "Mul", "Sub", "Relu", "Tanh", "MatMul", "Gemm", "Softmax"] as const;

export function randomStep(prng: Prng, values: number): Step {
  const from = [prng.nextInt(values), prng.nextInt(values)] as const;
  return { op: OPS[prng.nextInt(OPS.length)]!, from, weights: prng.nextInt(3) };
}

export const randomSteps = (prng: Prng, count: number): Step[] =>
  Array.from({ length: count }, (_, i) => randomStep(prng, i + 1));

/** The model in which each step makes one value and the last ones are its outputs. */
export function modelOf(steps: readonly Step[], outputs = 1): Uint8Array {
  const name = (index: number): string => (index === 0 ? "x" : `v${index}`);
  const initializers = new Map<string, TensorProto>();
  const weights = (dims: readonly number[], seed: number): string => {
    const key = `w${dims.join("x")}.${seed}`;
    const count = dims.reduce((product, dim) => product * dim, 1);
    if (!initializers.has(key)) initializers.set(key, floats(key, dims, uniform(new Prng(seed + count), count, 0.5)));
    return key;
  };
  const nodes = steps.map(({ op, from: [a, b], weights: seed }, i) => {
    const output = [name(i + 1)];
    if (op === "MatMul") return node(op, [name(a), weights([WIDTH, WIDTH], seed)], output);
    if (op === "Gemm") return node(op, [name(a), weights([WIDTH, WIDTH], seed), weights([WIDTH], seed)], output);
    if (op === "Add" || op === "Mul" || op === "Sub") return node(op, [name(a), name(b)], output);
    return node(op, [name(a)], output);
  });
  const last = Array.from({ length: outputs }, (_, i) => name(steps.length - i));
  return modelBytes({
    name: "random",
    inputs: [value("x", DataType.FLOAT, ["batch", WIDTH])],
    outputs: last.map((output) => value(output, DataType.FLOAT, ["batch", WIDTH])),
    nodes,
    initializers: [...initializers.values()],
  });
}

/** Each value as a written-out expression: an oracle for the hashes. */
export function expressions(steps: readonly Step[]): string[] {
  const all = ["x"];
  for (const { op, from, weights } of steps) {
    const [a, b] = from.map((index) => all[index]!) as [string, string];
    if (op === "Sub") all.push(`(${a}-${b})`);
    else if (op === "Add" || op === "Mul") all.push(`${op}(${[a, b].sort().join()})`);
    else if (op === "MatMul" || op === "Gemm") all.push(`${op}${weights}(${a})`);
    else all.push(`${op}(${a})`);
  }
  return all;
}

export interface OtherWords {
  readonly renamed?: boolean;
  readonly reordered?: boolean;
  readonly constantNodes?: boolean;
  readonly defaultsWritten?: boolean;
  readonly typedData?: boolean;
}

/** The same model, written differently; names of inputs and outputs stay. */
export function inOtherWords(bytes: Uint8Array, how: OtherWords, seed: number): Uint8Array {
  const prng = new Prng(seed);
  const model: ModelProto = create(ModelProtoSchema, decodeModel(bytes));
  const graph = model.graph!;
  if (how.renamed === true) rename(graph);
  if (how.defaultsWritten === true) graph.node = graph.node.map(withDefaults);
  if (how.typedData === true) graph.initializer = graph.initializer.map(typed);
  if (how.constantNodes === true) toConstants(graph);
  if (how.reordered === true) {
    graph.initializer = shuffled(graph.initializer, prng);
    graph.node = reordered(graph, prng);
  }
  return toBinary(ModelProtoSchema, model);
}

function rename(graph: GraphProto): void {
  const kept = new Set([...graph.input, ...graph.output].map(({ name }) => name));
  const renamed = (name: string): string => (kept.has(name) || name === "" ? name : `other/${name}`);
  graph.initializer = graph.initializer.map((tensor) =>
    create(TensorProtoSchema, { ...tensor, name: renamed(tensor.name) }),
  );
  graph.node = graph.node.map((old, i) =>
    create(NodeProtoSchema, {
      ...old,
      name: `node ${i}`,
      docString: "renamed",
      domain: "ai.onnx",
      input: old.input.map(renamed),
      output: old.output.map(renamed),
    }),
  );
}

const float = (name: string, f: number): AttributeProto =>
  create(AttributeProtoSchema, { name, type: AttributeType.FLOAT, f });
const int = (name: string, i: bigint): AttributeProto =>
  create(AttributeProtoSchema, { name, type: AttributeType.INT, i });

function withDefaults(old: NodeProto): NodeProto {
  const more: Record<string, AttributeProto[]> = {
    Gemm: [int("transB", 0n), float("beta", 1), int("transA", 0n), float("alpha", 1)],
    Softmax: [int("axis", -1n)],
  };
  return create(NodeProtoSchema, { ...old, attribute: [...(more[old.opType] ?? []), ...old.attribute] });
}

function typed(tensor: TensorProto): TensorProto {
  const bytes = new Uint8Array(tensor.rawData);
  const floatData = [...new Float32Array(bytes.buffer)];
  return create(TensorProtoSchema, { ...tensor, rawData: new Uint8Array(0), floatData });
}

function toConstants(graph: GraphProto): void {
  const nodes = graph.initializer.map((t) =>
    create(NodeProtoSchema, {
      opType: "Constant",
      output: [t.name],
      attribute: [create(AttributeProtoSchema, { name: "value", type: AttributeType.TENSOR, t })],
    }),
  );
  graph.node = [...nodes, ...graph.node];
  graph.initializer = [];
}

function reordered({ node: nodes, input, initializer }: GraphProto, prng: Prng): NodeProto[] {
  const known = new Set([...input, ...initializer].map(({ name }) => name));
  const left = [...nodes];
  const order: NodeProto[] = [];
  while (left.length > 0) {
    const ready = left.filter((candidate) => candidate.input.every((name) => known.has(name)));
    const next = ready[prng.nextInt(ready.length)]!;
    left.splice(left.indexOf(next), 1);
    for (const name of next.output) known.add(name);
    order.push(next);
  }
  return order;
}

function shuffled<T>(list: readonly T[], prng: Prng): T[] {
  const result = [...list];
  for (let i = result.length - 1; i > 0; i--) {
    const j = prng.nextInt(i + 1);
    [result[i], result[j]] = [result[j]!, result[i]!];
  }
  return result;
}
