/**
 * The way back from a family to its models: a prefix and one suffix as one file again, which computes what both did one
 * after the other.
 */
import { create, toBinary } from "@bufbuild/protobuf";
import type { GraphProto, NodeProto } from "onnx-buf";
import { GraphProtoSchema, ModelProtoSchema } from "onnx-buf";
import { decodeModel } from "../model-description.ts";
import type { SplitSuffix } from "./family-split.ts";

/**
 * Names of the prefix may be other values' names in the suffix, since it is one model's for all: there they get new
 * ones.
 *
 * @throws {ModelFileError} one of both is no model
 */
export function joinParts(prefixBytes: Uint8Array, { bytes, feeds }: Pick<SplitSuffix, "bytes" | "feeds">): Uint8Array {
  // Decoded anew, so ours to change; weights stay views of the given bytes.
  const [prefix, suffix] = [decodeModel(prefixBytes), decodeModel(bytes)];
  const [before, after] = [prefix.graph!, suffix.graph!];
  const requested = new Set(before.input.map(({ name }) => name));
  const given = new Map(feeds.map(({ from, to }) => [to, from]));
  const names = new Map<string, string>();
  const taken = new Set([...namesIn(before), ...namesIn(after)]);
  for (const name of namesIn(before)) {
    if (requested.has(name)) continue;
    let fresh = `prefix/${name}`;
    while (taken.has(fresh)) fresh = `prefix/${fresh}`;
    taken.add(fresh);
    names.set(name, fresh);
  }
  // Outputs that the prefix makes came through a node of the suffix (`suffixOf`): now they are the prefix' own.
  const isThrough = ({ name, input, output }: NodeProto): boolean => {
    const from = given.get(name);
    if (from === undefined || name !== input[0] || !names.get(from)!.startsWith("prefix/")) return false;
    names.set(from, output[0]!);
    return true;
  };
  after.node = after.node.filter((node) => !isThrough(node));
  rename(before, names);
  rename(after, new Map([...given].map(([to, from]) => [to, names.get(from)!])));
  const fed = new Set([...given.values()].map((from) => names.get(from)!));
  const own = after.input.filter(({ name }) => !fed.has(name) && !requested.has(name));
  const graph = create(GraphProtoSchema, {
    name: "joined",
    input: [...before.input, ...own],
    output: after.output,
    node: [...before.node, ...after.node],
    initializer: [...before.initializer, ...after.initializer],
    sparseInitializer: [...before.sparseInitializer, ...after.sparseInitializer],
  });
  const file = create(ModelProtoSchema, {
    irVersion: prefix.irVersion > suffix.irVersion ? prefix.irVersion : suffix.irVersion,
    producerName: "tutti",
    opsetImport: suffix.opsetImport,
    functions: suffix.functions, // nothing that is shared calls one
    graph,
  });
  return toBinary(ModelProtoSchema, file);
}

/** Of values, also those within subgraphs, which may capture any. */
function namesIn(graph: GraphProto): Set<string> {
  const names = new Set<string>();
  visit(graph, (name) => {
    names.add(name);
    return name;
  });
  names.delete(""); // an optional input that is left out
  return names;
}

const rename = (graph: GraphProto, names: ReadonlyMap<string, string>): void =>
  visit(graph, (name) => names.get(name) ?? name);

function visit(graph: GraphProto, named: (name: string) => string): void {
  for (const value of [...graph.input, ...graph.output, ...graph.initializer]) value.name = named(value.name);
  for (const { values } of graph.sparseInitializer) if (values !== undefined) values.name = named(values.name);
  for (const node of graph.node) {
    node.input = node.input.map(named);
    node.output = node.output.map(named);
    for (const { g, graphs } of node.attribute)
      for (const inner of g === undefined ? graphs : [g, ...graphs]) visit(inner, named);
  }
}
