/**
 * Turns a family back into its models: joins the prefix and one suffix into one file. The file computes what both did
 * one after the other.
 */
import { create, toBinary } from "@bufbuild/protobuf";
import type { GraphProto, NodeProto } from "onnx-buf";
import { GraphProtoSchema, ModelProtoSchema } from "onnx-buf";
import { decodeModel } from "../model-description.ts";
import type { SplitSuffix } from "./family-split.ts";

/**
 * Joins a prefix and a suffix. The prefix comes from one of the models, so its names may stand for other values in the
 * suffix: all values of the prefix but the request's inputs get new names.
 *
 * @throws {ModelFileError} the prefix or the suffix is no model
 */
export function joinParts(prefixBytes: Uint8Array, { bytes, feeds }: Pick<SplitSuffix, "bytes" | "feeds">): Uint8Array {
  // Decoded afresh, so they may be changed; weights stay views of the given bytes.
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
  // An output that the prefix computes passed through a node of the suffix (`suffixOf`). Let the prefix make it itself.
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
    functions: suffix.functions, // no shared node calls a function
    graph,
  });
  return toBinary(ModelProtoSchema, file);
}

/** Names of all values, including those within subgraphs, which may capture any value. */
function namesIn(graph: GraphProto): Set<string> {
  const names = new Set<string>();
  visit(graph, (name) => {
    names.add(name);
    return name;
  });
  names.delete(""); // stands for an optional input that is left out
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
