/**
 * Splits models that begin alike into files that are served together: the common prefix, and a suffix per variant. A
 * suffix computes the rest of its model from the prefix's outputs.
 *
 * Decoded values are views of the given bytes; nothing is changed in place.
 */
import { create, toBinary } from "@bufbuild/protobuf";
import type {
  GraphProto,
  ModelProto,
  NodeProto,
  TensorProto,
  TensorProto_DataType as Type,
  ValueInfoProto,
} from "onnx-buf";
import {
  GraphProtoSchema,
  ModelProtoSchema,
  NodeProtoSchema,
  TypeProtoSchema,
  TypeProto_TensorSchema,
  ValueInfoProtoSchema,
} from "onnx-buf";
import { decodeModel } from "../model-description.ts";
import { type CommonPrefix, type PrefixOptions, type Remainder, commonPrefix } from "./common-prefix.ts";
import { type HashedGraph, type HashedNode, hashGraph } from "./structural-hash.ts";

export interface SplitSuffix {
  readonly bytes: Uint8Array;
  /** Which output of the prefix (`from`) goes to which input of this file (`to`). */
  readonly feeds: readonly { readonly from: string; readonly to: string }[];
  /** Inputs of the request that the suffix reads itself. */
  readonly inputs: readonly string[];
}

export interface FamilySplit {
  readonly prefix: {
    readonly bytes: Uint8Array;
    readonly nodes: number;
    /** Inputs of the request that the prefix reads. */
    readonly inputs: readonly string[];
    /** Outputs of the prefix: the values that cross the cut. */
    readonly cut: readonly string[];
  };
  /** One suffix per model, in the models' order. */
  readonly suffixes: readonly SplitSuffix[];
  /** Nodes of each model, Constants not counted, and the number of them that all models have in common. */
  readonly nodes: readonly { readonly all: number; readonly shared: number }[];
}

/** Before it, initializers had to be inputs too. */
const IR_LEAST = 4n;

/** Reads and hashes the models once, however often they are cut. */
export class Family {
  readonly #graphs: readonly HashedGraph[];

  /** @throws {ModelFileError} one of the files is no model */
  constructor(models: readonly Uint8Array[]) {
    this.#graphs = models.map((bytes, i) => hashGraph(decodeModel(bytes), String(i)));
  }

  /** @returns the split, or the reason why the models can't be served together */
  split(options: PrefixOptions = {}): FamilySplit | string {
    const prefix = commonPrefix(this.#graphs, options);
    if (typeof prefix === "string") return prefix;
    const [first] = this.#graphs as readonly [HashedGraph];
    const reads = new Set(prefix.nodes.flatMap((node) => node.reads));
    return {
      prefix: {
        bytes: prefixBytes(first, prefix),
        nodes: prefix.nodes.length,
        inputs: [...first.inputs].filter((name) => reads.has(name)),
        cut: prefix.cut,
      },
      suffixes: this.#graphs.map((graph, i) => suffixOf(graph, prefix.remainders[i]!)),
      nodes: this.#graphs.map(({ nodes }, i) => ({ all: nodes.length, shared: prefix.shared[i]! })),
    };
  }
}

/**
 * Hashes of a model's nodes, and its operator sets: a quick measure of what two models have in common. @throws
 * {ModelFileError}
 */
export function nodeHashes(
  bytes: Uint8Array,
  salt: string,
): { readonly hashes: readonly string[]; readonly opsets: string } {
  const { nodes, opsets } = hashGraph(decodeModel(bytes), salt);
  return { hashes: nodes.map(({ hash }) => hash), opsets };
}

/** Reads the models and cuts them. @throws {ModelFileError} @returns the split, or why they can't be served together */
export const splitFamily = (models: readonly Uint8Array[], options: PrefixOptions = {}): FamilySplit | string =>
  new Family(models).split(options);

function prefixBytes(first: HashedGraph, prefix: CommonPrefix): Uint8Array {
  const reads = new Set(prefix.nodes.flatMap((node) => node.reads));
  return partBytes(first, {
    name: "prefix",
    nodes: prefix.nodes,
    extra: [],
    input: first.graph.input.filter(({ name }) => first.inputs.has(name) && reads.has(name)),
    output: prefix.cut.map((name) => valueInfo(name, prefix.types.get(name))),
  });
}

function suffixOf(graph: HashedGraph, { nodes, feeds, inputs }: Remainder): SplitSuffix {
  const taken = graph.graph.input.filter(({ name }) => inputs.includes(name));
  const given = feeds.map(({ to }) => to);
  // No file may return one of its own inputs as an output. So an output that the prefix already computes passes through
  // a node of its own, under a new name within the suffix.
  const through = graph.graph.output.map(({ name }) => name).filter((name) => given.includes(name));
  const inner = (name: string): string => (through.includes(name) ? `${name}/given` : name);
  const extra = through.map((name) =>
    create(NodeProtoSchema, { opType: "Identity", name: inner(name), input: [inner(name)], output: [name] }),
  );
  const input = [...taken, ...given.map((name) => valueInfo(inner(name), graph.types.get(name)))];
  const bytes = partBytes(graph, { name: "suffix", nodes, extra, input, output: graph.graph.output });
  return { bytes, feeds: feeds.map(({ from, to }) => ({ from, to: inner(to) })), inputs };
}

interface Part {
  readonly name: string;
  readonly nodes: readonly HashedNode[];
  /** Run before the others. */
  readonly extra: readonly NodeProto[];
  readonly input: readonly ValueInfoProto[];
  readonly output: readonly ValueInfoProto[];
}

/** Writes a model file with some of a graph's nodes and the constants that they read. */
function partBytes({ model, constants }: HashedGraph, part: Part): Uint8Array {
  const reads = new Set([...part.nodes.flatMap((node) => node.reads), ...part.output.map(({ name }) => name)]);
  const initializer: TensorProto[] = [];
  const constantNodes: NodeProto[] = [];
  for (const [name, from] of constants) {
    if (!reads.has(name)) continue;
    if ("dataType" in from) initializer.push(from);
    else constantNodes.push(from);
  }
  const sparse = model.graph!.sparseInitializer.filter(({ values }) => values !== undefined && reads.has(values.name));
  const graph: GraphProto = create(GraphProtoSchema, {
    name: part.name,
    input: [...part.input],
    output: [...part.output],
    node: [...constantNodes, ...part.extra, ...part.nodes.map(({ node }) => node)],
    initializer,
    sparseInitializer: sparse,
  });
  const file: ModelProto = create(ModelProtoSchema, {
    irVersion: model.irVersion < IR_LEAST ? IR_LEAST : model.irVersion,
    producerName: "tutti",
    opsetImport: model.opsetImport,
    functions: model.functions,
    graph,
  });
  return toBinary(ModelProtoSchema, file);
}

/** Type of a value without its shape: a shape that a file declares is that of one batch size. */
function valueInfo(name: string, elemType: Type | undefined): ValueInfoProto {
  const tensor = create(TypeProto_TensorSchema, { elemType: elemType ?? 0 });
  return create(ValueInfoProtoSchema, {
    name,
    type: create(TypeProtoSchema, { value: { case: "tensorType", value: tensor } }),
  });
}
