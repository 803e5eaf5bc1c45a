/**
 * Hashes a graph by its computation, node by node, whatever its names are. A value's hash is that of the operator which
 * makes it, its attributes and the hashes of its inputs, down to the inputs of the graph and the bytes of the weights.
 *
 *   HASH-1. Equal hashes mean equal values for equal inputs, under equal operator sets. The converse need not hold, and
 *           its failure costs only what could have been shared.
 *   HASH-2. What can't be known (weights in another file, operators of the model's own, random numbers) gets a unique
 *           hash, so that it is never shared.
 */
import { createHash } from "node:crypto";
import type { AttributeProto, GraphProto, ModelProto, NodeProto, TensorProto } from "onnx-buf";
import { AttributeProto_AttributeType as AttributeType, type TensorProto_DataType as Type } from "onnx-buf";
import { domainOf, isDefault, isOfShape, isRandom, mayBeSwapped, outputType } from "./operator-rules.ts";
import { tensorBytes } from "./tensor-bytes.ts";

/** How a value depends on the request: on its data, on its shapes alone, or not at all. */
export type ValueKind = "data" | "shape" | "constant";

export interface HashedNode {
  readonly node: NodeProto;
  /** Hash of the node's computation; its outputs have `${hash}#0`, `${hash}#1`, … */
  readonly hash: string;
  /** Names of every value that the node reads, including those that its subgraphs capture. */
  readonly reads: readonly string[];
}

export interface HashedGraph {
  readonly model: ModelProto;
  readonly graph: GraphProto;
  /** Names of the inputs that a request brings, without the initializers that old files list too. */
  readonly inputs: ReadonlySet<string>;
  /** Nodes without Constant nodes, each after those that it reads. */
  readonly nodes: readonly HashedNode[];
  /** Hash of each value, by name; a constant's is the hash of its bytes. */
  readonly hashes: ReadonlyMap<string, string>;
  readonly kinds: ReadonlyMap<string, ValueKind>;
  readonly types: ReadonlyMap<string, Type>;
  /** Source of each constant: an initializer, or a Constant node. */
  readonly constants: ReadonlyMap<string, NodeProto | TensorProto>;
  readonly producers: ReadonlyMap<string, HashedNode>;
  /** Operator sets as `domain:version`, sorted. Hashes are comparable only between graphs with equal operator sets. */
  readonly opsets: string;
}

/** @param salt - distinguishes this model's unique hashes (HASH-2) from those of other models */
export function hashGraph(model: ModelProto, salt: string): HashedGraph {
  return new GraphHasher(model, salt).hashed();
}

class GraphHasher {
  readonly #model: ModelProto;
  readonly #graph: GraphProto;
  readonly #salt: string;
  readonly #opset: bigint;
  readonly #functions: ReadonlySet<string>;
  readonly #inputs: ReadonlySet<string>;
  readonly #hashes = new Map<string, string>([["", "none"]]);
  readonly #kinds = new Map<string, ValueKind>([["", "constant"]]);
  readonly #types = new Map<string, Type>();
  readonly #constants = new Map<string, NodeProto | TensorProto>();
  readonly #producers = new Map<string, HashedNode>();
  readonly #nodes: HashedNode[] = [];
  #own = 0;

  constructor(model: ModelProto, salt: string) {
    this.#model = model;
    this.#graph = model.graph!;
    this.#salt = salt;
    this.#opset = model.opsetImport.find(({ domain }) => domain === "" || domain === "ai.onnx")?.version ?? 0n;
    this.#functions = new Set(model.functions.map(({ domain, name }) => `${domain}.${name}`));
    const initialized = new Set(this.#graph.initializer.map(({ name }) => name));
    this.#inputs = new Set(this.#graph.input.map(({ name }) => name).filter((name) => !initialized.has(name)));
  }

  hashed(): HashedGraph {
    this.#readNames();
    let waiting = this.#graph.node.filter((node) => !isConstant(node));
    for (let left = -1; waiting.length > 0 && waiting.length !== left;) {
      left = waiting.length;
      waiting = waiting.filter((node) => !this.#take(node));
    }
    // Nodes that remain are in a cycle or read a name that nothing produces. No runtime loads such a graph either.
    const opsets = this.#model.opsetImport.map(({ domain, version }) => `${domainOf({ domain })}:${version}`);
    return {
      model: this.#model,
      graph: this.#graph,
      inputs: this.#inputs,
      nodes: this.#nodes,
      hashes: this.#hashes,
      kinds: this.#kinds,
      types: this.#types,
      constants: this.#constants,
      producers: this.#producers,
      opsets: opsets.sort().join(" "),
    };
  }

  #readNames(): void {
    for (const { name, type } of [...this.#graph.input, ...this.#graph.valueInfo, ...this.#graph.output])
      if (type?.value.case === "tensorType") this.#types.set(name, type.value.value.elemType);
    for (const name of this.#inputs) {
      this.#hashes.set(name, digest(["input", name, String(this.#types.get(name))]));
      this.#kinds.set(name, "data");
    }
    for (const tensor of this.#graph.initializer) this.#constant(tensor.name, this.#tensorHash(tensor), tensor);
    for (const { values } of this.#graph.sparseInitializer)
      if (values !== undefined) this.#hashes.set(values.name, this.#unique());
    for (const node of this.#graph.node)
      if (isConstant(node)) this.#constant(node.output[0]!, this.#constantHash(node), node);
  }

  #constant(name: string, hash: string, from: NodeProto | TensorProto): void {
    this.#hashes.set(name, hash);
    this.#kinds.set(name, "constant");
    this.#constants.set(name, from);
    const tensor = "dataType" in from ? from : from.attribute.find(({ t }) => t !== undefined)?.t;
    if (tensor !== undefined) this.#types.set(name, tensor.dataType);
  }

  /** @returns false while an input of the node has no hash yet */
  #take(node: NodeProto): boolean {
    const reads = [...new Set([...node.input, ...node.attribute.flatMap(capturedBy)])].filter((name) => name !== "");
    if (!reads.every((name) => this.#hashes.has(name))) return false;
    const hash = this.#nodeHash(node, this.#hashes);
    const hashed: HashedNode = { node, hash, reads };
    const kind = this.#kindOf(node, reads);
    const typeOf = (input: number): Type | undefined => this.#types.get(node.input[input] ?? "");
    node.output.forEach((name, i) => {
      if (name === "") return;
      this.#hashes.set(name, `${hash}#${i}`);
      this.#kinds.set(name, kind);
      this.#producers.set(name, hashed);
      const type = this.#types.get(name) ?? outputType(node, i, typeOf);
      if (type !== undefined) this.#types.set(name, type);
    });
    this.#nodes.push(hashed);
    return true;
  }

  #kindOf(node: NodeProto, reads: readonly string[]): ValueKind {
    const kinds = new Set(reads.map((name) => this.#kinds.get(name) ?? "data"));
    if (isRandom(node)) return "data";
    if (kinds.has("data")) return isOfShape(node) ? "shape" : "data";
    return kinds.has("shape") ? "shape" : "constant";
  }

  /** @param known - hashes of the values that the node reads, by name */
  #nodeHash(node: NodeProto, known: ReadonlyMap<string, string>): string {
    if (isRandom(node) || this.#functions.has(`${node.domain}.${node.opType}`)) return this.#unique();
    const inputs = withoutTail(node.input).map((name) => known.get(name) ?? this.#unique());
    if (mayBeSwapped(node)) inputs.sort();
    const attributes = node.attribute
      .filter((attribute) => !isDefault(node, attribute, this.#opset))
      .map((attribute) => `${attribute.name}=${this.#attributeHash(attribute, known)}`)
      .sort();
    const outputs = withoutTail(node.output).map((name) => (name === "" ? "-" : "+"));
    return digest([domainOf(node), node.opType, node.overload, outputs.join(""), ...attributes, ...inputs]);
  }

  #attributeHash(attribute: AttributeProto, known: ReadonlyMap<string, string>): string {
    switch (attribute.type) {
      case AttributeType.FLOAT:
        return floatText(attribute.f);
      case AttributeType.INT:
        return String(attribute.i);
      case AttributeType.STRING:
        return digest([attribute.s]);
      case AttributeType.TENSOR:
        return attribute.t === undefined ? this.#unique() : this.#tensorHash(attribute.t);
      case AttributeType.GRAPH:
        return attribute.g === undefined ? this.#unique() : this.#subgraphHash(attribute.g, known);
      case AttributeType.FLOATS:
        return `[${attribute.floats.map(floatText).join()}]`;
      case AttributeType.INTS:
        return `[${attribute.ints.join()}]`;
      case AttributeType.STRINGS:
        return `[${attribute.strings.map((text) => digest([text])).join()}]`;
      default:
        return this.#unique();
    }
  }

  /** Hash of a body's computation: its inputs count by position, the values that it captures by their hashes. */
  #subgraphHash(body: GraphProto, outer: ReadonlyMap<string, string>): string {
    const known = new Map(outer);
    body.input.forEach(({ name }, i) => known.set(name, `given ${i}`));
    for (const tensor of body.initializer) known.set(tensor.name, this.#tensorHash(tensor));
    if (body.sparseInitializer.length > 0) return this.#unique();
    for (const node of body.node) {
      const hash = isConstant(node) ? this.#constantHash(node) : this.#nodeHash(node, known);
      node.output.forEach((name, i) => known.set(name, isConstant(node) ? hash : `${hash}#${i}`));
    }
    return digest(["body", String(body.input.length), ...body.output.map(({ name }) => known.get(name) ?? "none")]);
  }

  #constantHash({ attribute: [value] }: NodeProto): string {
    if (value === undefined) return this.#unique();
    if (value.t !== undefined) return this.#tensorHash(value.t);
    const one = (type: number, dims: string, bytes: ArrayBufferView): string =>
      digest(["tensor", String(type), dims, bytesOver(bytes)]);
    switch (value.name) {
      case "value_float":
        return one(1, "", Float32Array.of(value.f));
      case "value_floats":
        return one(1, String(value.floats.length), Float32Array.from(value.floats));
      case "value_int":
        return one(7, "", BigInt64Array.of(value.i));
      case "value_ints":
        return one(7, String(value.ints.length), BigInt64Array.from(value.ints));
      default:
        return this.#unique();
    }
  }

  #tensorHash(tensor: TensorProto): string {
    const bytes = tensorBytes(tensor);
    return bytes === undefined
      ? this.#unique()
      : digest(["tensor", String(tensor.dataType), tensor.dims.join(), bytes]);
  }

  /** A hash that no other value has (HASH-2). */
  #unique(): string {
    return `own ${this.#salt} ${this.#own++}`;
  }
}

export const isConstant = ({ opType, domain, output }: NodeProto): boolean =>
  opType === "Constant" && domainOf({ domain }) === "" && output.length === 1;

/** Outer values that an attribute's subgraphs read. */
function capturedBy({ g, graphs }: AttributeProto): string[] {
  return [...(g === undefined ? [] : [g]), ...graphs].flatMap((body) => {
    const own = new Set([...body.input, ...body.initializer].map(({ name }) => name));
    for (const node of body.node) for (const name of node.output) own.add(name);
    const read = [
      ...body.node.flatMap((node) => [...node.input, ...node.attribute.flatMap(capturedBy)]),
      ...body.output.map(({ name }) => name),
    ];
    return read.filter((name) => name !== "" && !own.has(name));
  });
}

/** Drops optional inputs or outputs that are left out at the end: they mean the same as absent ones. */
function withoutTail(names: readonly string[]): readonly string[] {
  let { length } = names;
  while (length > 0 && names[length - 1] === "") length--;
  return names.slice(0, length);
}

const floatText = (value: number): string => (Object.is(value, -0) ? "-0" : String(value));
const bytesOver = ({ buffer, byteOffset, byteLength }: ArrayBufferView): Uint8Array =>
  new Uint8Array(buffer, byteOffset, byteLength);

/** Hashes each part with its length, so that different lists never yield the same bytes. */
function digest(parts: readonly (string | Uint8Array)[]): string {
  const hash = createHash("sha256");
  for (const part of parts) {
    hash.update(`${typeof part === "string" ? Buffer.byteLength(part) : part.byteLength}:`);
    hash.update(part);
  }
  return hash.digest("hex").slice(0, 32);
}
