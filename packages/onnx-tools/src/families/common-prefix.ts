/** Finds the longest common prefix of several graphs, and where to cut it off (docs/algorithms.md, C7). */
import type { TensorProto_DataType as Type } from "onnx-buf";
import type { HashedGraph, HashedNode } from "./structural-hash.ts";

/** One variant's part after the cut. */
export interface Remainder {
  /**
   * The variant's own nodes, and shared nodes that run again because their values can't cross; in the graph's order.
   */
  readonly nodes: readonly HashedNode[];
  /** Values that the prefix hands over: `from` is the name in the prefix, `to` the name in this variant. */
  readonly feeds: readonly { readonly from: string; readonly to: string }[];
  /** Inputs of the request that this part reads itself. */
  readonly inputs: readonly string[];
}

export interface CommonPrefix {
  /** Nodes of the first graph, in its order. */
  readonly nodes: readonly HashedNode[];
  /** Names in the first graph of the values that cross the cut. */
  readonly cut: readonly string[];
  /** Element types of the values that cross the cut, by name. */
  readonly types: ReadonlyMap<string, Type>;
  readonly remainders: readonly Remainder[];
  /** Per graph, the number of nodes that occur in all graphs, whether or not they are worth cutting off. */
  readonly shared: readonly number[];
}

export interface PrefixOptions {
  /**
   * Names in the first graph of values that can't be handed over, because their rows can't be told apart. Their nodes
   * run again after the cut.
   */
  readonly uncuttable?: ReadonlySet<string>;
}

/**
 * Finds the longest common prefix: every node that occurs in all graphs with all that it depends on. It is closed under
 * predecessors because a node's hash contains theirs.
 *
 * @returns the prefix, or the reason why there is none
 */
export function commonPrefix(graphs: readonly HashedGraph[], options: PrefixOptions = {}): CommonPrefix | string {
  const [first, ...others] = graphs;
  if (first === undefined || others.length === 0) return "one model alone shares nothing";
  const other = others.find(({ opsets }) => opsets !== first.opsets);
  if (other !== undefined) return `their operator sets differ: ${first.opsets}, and ${other.opsets}`;
  const sets = others.map(({ nodes }) => new Set(nodes.map(({ hash }) => hash)));
  const common = new Set(first.nodes.map(({ hash }) => hash).filter((hash) => sets.every((set) => set.has(hash))));
  if (common.size === 0) return "they have no node in common";

  const uncuttable = new Set([...(options.uncuttable ?? [])].map((name) => first.hashes.get(name) ?? name));
  const cuts = graphs.map((graph) => new Cutter(graph, common, uncuttable));
  for (const cut of cuts) cut.run();
  const hashes = new Set(cuts.flatMap(({ cut }) => [...cut.keys()]));
  const names = new Map<string, string>(); // by hash; a value that the first graph computes twice has one name here
  for (const [name, hash] of first.hashes) if (hashes.has(hash) && !names.has(hash)) names.set(hash, name);
  const nodes = ancestors(first, [...names.values()]);
  if (nodes.length === 0) return "what they have in common can't be cut off";
  return {
    nodes,
    cut: [...names.values()],
    types: new Map([...names].map(([hash, name]) => [name, typeOf(graphs, hash)])),
    remainders: cuts.map((cut) => cut.remainder(names)),
    shared: graphs.map((graph) => graph.nodes.filter(({ hash }) => common.has(hash)).length),
  };
}

/** Walks back from one variant's own nodes to the values that they need from the common part. */
class Cutter {
  readonly #graph: HashedGraph;
  readonly #common: ReadonlySet<string>;
  readonly #uncuttable: ReadonlySet<string>;
  readonly #kept = new Set<HashedNode>();
  readonly #inputs = new Set<string>();
  /** Names of the values that this variant needs from the prefix, by hash. */
  readonly cut = new Map<string, Set<string>>();

  constructor(graph: HashedGraph, common: ReadonlySet<string>, uncuttable: ReadonlySet<string>) {
    this.#graph = graph;
    this.#common = common;
    this.#uncuttable = uncuttable;
  }

  run(): void {
    const { nodes, graph, producers } = this.#graph;
    const needed = graph.output.map(({ name }) => name);
    for (const node of nodes) if (!this.#common.has(node.hash)) this.#keep(node, needed);
    for (let name = needed.pop(); name !== undefined; name = needed.pop()) this.#need(name, needed);
    // Drop a value whose node runs again because of another of its outputs: it need not be handed over.
    for (const [hash, names] of this.cut) {
      for (const name of names) if (this.#kept.has(producers.get(name)!)) names.delete(name);
      if (names.size === 0) this.cut.delete(hash);
    }
  }

  #keep(node: HashedNode, needed: string[]): void {
    if (this.#kept.has(node)) return;
    this.#kept.add(node);
    needed.push(...node.reads);
  }

  #need(name: string, needed: string[]): void {
    const { inputs, producers, hashes } = this.#graph;
    if (inputs.has(name)) return void this.#inputs.add(name);
    const producer = producers.get(name);
    if (producer === undefined || this.#kept.has(producer)) return; // a constant, or a node that runs here
    if (!this.#mayCross(name)) return this.#keep(producer, needed);
    const hash = hashes.get(name)!;
    const names = this.cut.get(hash);
    if (names === undefined) this.cut.set(hash, new Set([name]));
    else names.add(name);
  }

  /**
   * True if a value may cross the cut. Shapes, and values made of shapes alone, depend on the number of rows, so they
   * are computed again.
   */
  #mayCross(name: string): boolean {
    const { kinds, types, hashes } = this.#graph;
    return kinds.get(name) === "data" && types.get(name) !== undefined && !this.#uncuttable.has(hashes.get(name)!);
  }

  remainder(names: ReadonlyMap<string, string>): Remainder {
    return {
      nodes: this.#graph.nodes.filter((node) => this.#kept.has(node)),
      feeds: [...this.cut].flatMap(([hash, all]) => [...all].map((to) => ({ from: names.get(hash)!, to }))),
      inputs: [...this.#inputs],
    };
  }
}

/** Element type of a value. Any of the graphs may declare it or let it be inferred, so all are searched. */
function typeOf(graphs: readonly HashedGraph[], hash: string): Type {
  for (const { hashes, types } of graphs)
    for (const [name, known] of hashes) if (known === hash && types.has(name)) return types.get(name)!;
  return 0;
}

/** Nodes that these values depend on, themselves included, in the graph's order. */
function ancestors({ producers, nodes }: HashedGraph, names: readonly string[]): HashedNode[] {
  const needed = [...names];
  const found = new Set<HashedNode>();
  for (let name = needed.pop(); name !== undefined; name = needed.pop()) {
    const producer = producers.get(name);
    if (producer === undefined || found.has(producer)) continue;
    found.add(producer);
    needed.push(...producer.reads);
  }
  return nodes.filter((node) => found.has(node));
}
