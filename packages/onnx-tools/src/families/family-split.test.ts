import { create, fromBinary, toBinary } from "@bufbuild/protobuf";
import {
  AttributeProtoSchema,
  AttributeProto_AttributeType as AttributeType,
  FunctionProtoSchema,
  type ModelProto,
  ModelProtoSchema,
  NodeProtoSchema,
  TensorProto_DataLocation,
} from "onnx-buf";
import fc from "fast-check";
import { expect, test } from "vitest";
import { Prng } from "@tutti/units";
import { generateMlp } from "../generated-models.ts";
import { DataType, floats, graph, modelBytes, node, value } from "../graph-builder.ts";
import { type FamilySplit, splitFamily } from "./family-split.ts";
import { commonPrefix } from "./common-prefix.ts";
import { hashGraph } from "./structural-hash.ts";
import { type Step, expressions, inOtherWords, modelOf, randomStep, randomSteps } from "./testing/random-graphs.ts";

const decoded = (bytes: Uint8Array): ModelProto => fromBinary(ModelProtoSchema, bytes);
const hashed = (bytes: Uint8Array, salt = "0") => hashGraph(decoded(bytes), salt);
const split = (...models: Uint8Array[]): FamilySplit => {
  const result = splitFamily(models);
  if (typeof result === "string") throw new Error(result);
  return result;
};
const opsOf = (bytes: Uint8Array): string[] => decoded(bytes).graph!.node.map(({ opType }) => opType);
/**
 * The model after `change`. `decoded` gives views of the bytes, so `change` puts in new arrays and writes into none.
 */
const changed = (bytes: Uint8Array, change: (model: ModelProto) => void): Uint8Array => {
  const model = decoded(bytes);
  change(model);
  return toBinary(ModelProtoSchema, model);
};

/** A random family: common first steps, then further steps per variant. */
const family = (seed: number): Step[][] => {
  const prng = new Prng(seed);
  const base = randomSteps(prng, 1 + prng.nextInt(6));
  return Array.from({ length: 2 + prng.nextInt(3) }, () => {
    const steps = [...base];
    for (let more = 1 + prng.nextInt(5); more > 0; more--) steps.push(randomStep(prng, steps.length + 1));
    return steps;
  });
};
const seeds = fc.integer({ min: 0, max: 2 ** 31 });

test("a node is shared when all models compute what it does, and never otherwise, against expressions written out", () => {
  fc.assert(
    fc.property(seeds, (seed) => {
      const variants = family(seed);
      const graphs = variants.map((steps, i) => hashed(modelOf(steps), String(i)));
      const texts = variants.map(expressions);
      const all = graphs.map(({ nodes }) => new Set(nodes.map(({ hash }) => hash)));
      graphs[0]!.nodes.forEach(({ hash }, i) => {
        const expected = texts.every((own) => own.includes(texts[0]![i + 1]!, 1));
        expect(all.every((hashes) => hashes.has(hash))).toBe(expected);
      });
    }),
    { numRuns: 300 },
  );
});

test("the prefix is closed under predecessors, remainders take only what it gives, and nothing is lost", () => {
  fc.assert(
    fc.property(seeds, (seed) => {
      const models = family(seed).map((steps) => modelOf(steps));
      const graphs = models.map((bytes, i) => hashed(bytes, String(i)));
      const prefix = commonPrefix(graphs);
      if (typeof prefix === "string") return;
      const made = new Set(prefix.nodes.flatMap(({ node: { output } }) => output));
      for (const { reads } of prefix.nodes)
        for (const name of reads) expect(made.has(name) || !graphs[0]!.producers.has(name)).toBe(true);
      expect(prefix.cut.every((name) => made.has(name))).toBe(true);
      prefix.remainders.forEach(({ nodes, feeds, inputs }, i) => {
        const known = new Set([...feeds.map(({ to }) => to), ...inputs]);
        for (const { node: own, reads } of nodes) {
          for (const name of reads) expect(known.has(name) || graphs[i]!.constants.has(name)).toBe(true);
          for (const name of own.output) known.add(name);
        }
        for (const { name } of graphs[i]!.graph.output) expect(known.has(name)).toBe(true);
        for (const { from } of feeds) expect(prefix.cut).toContain(from);
      });
    }),
    { numRuns: 300 },
  );
});

test("other names, another order, Constants for initializers, defaults written out and float_data for raw_data change nothing", () => {
  const flags = fc.record({
    renamed: fc.boolean(),
    reordered: fc.boolean(),
    constantNodes: fc.boolean(),
    defaultsWritten: fc.boolean(),
    typedData: fc.boolean(),
  });
  fc.assert(
    fc.property(seeds, flags, (seed, how) => {
      const models = family(seed).map((steps) => modelOf(steps));
      const said = models.map((bytes, i) => (i === 0 ? bytes : inOtherWords(bytes, how, seed)));
      const [plain, other] = [splitFamily(models), splitFamily(said)];
      if (typeof plain === "string" || typeof other === "string") {
        expect(other).toEqual(plain);
        return;
      }
      expect(other.nodes).toEqual(plain.nodes);
      expect(other.prefix.nodes).toBe(plain.prefix.nodes);
      expect(other.prefix.cut.length).toBe(plain.prefix.cut.length);
    }),
    { numRuns: 300 },
  );
});

const head = (classes: number): Uint8Array => generateMlp({ seed: 7, widths: [8, 16, 16, classes] });

test("an MLP with other heads shares all but its last layer, whatever the number of classes", () => {
  const { prefix, suffixes, nodes } = split(head(3), head(5), head(9));
  expect(nodes).toEqual([
    { all: 5, shared: 4 },
    { all: 5, shared: 4 },
    { all: 5, shared: 4 },
  ]);
  expect(opsOf(prefix.bytes)).toEqual(["Gemm", "Relu", "Gemm", "Relu"]);
  expect(prefix.inputs).toEqual(["x"]);
  for (const { bytes, feeds, inputs } of suffixes) {
    expect(opsOf(bytes)).toEqual(["Gemm"]);
    expect([feeds.length, inputs]).toEqual([1, []]);
  }
  // The prefix's weights are in the prefix only.
  expect(decoded(suffixes[0]!.bytes).graph!.initializer.map(({ dims }) => dims.join())).toEqual(["16,3", "3"]);
});

test("one weight that differs in one bit moves the cut before it", () => {
  const other = changed(head(3), (model) => {
    const weights = model.graph!.initializer[2]!;
    weights.rawData = Uint8Array.from(weights.rawData);
    weights.rawData[5]! ^= 1;
  });
  expect(opsOf(split(head(3), other).prefix.bytes)).toEqual(["Gemm", "Relu"]);
});

test("an attribute that is no default stops the prefix, and so does another one's default", () => {
  const withAttribute = (name: string, i: bigint): Uint8Array =>
    changed(head(3), (model) => {
      const attribute = [create(AttributeProtoSchema, { name, type: AttributeType.INT, i })];
      model.graph!.node[2] = create(NodeProtoSchema, { ...model.graph!.node[2]!, attribute });
    });
  expect(split(head(5), withAttribute("transA", 0n)).prefix.nodes).toBe(4);
  expect(split(head(5), withAttribute("transA", 1n)).prefix.nodes).toBe(2);
  expect(split(head(5), withAttribute("axis", -1n)).prefix.nodes).toBe(2);
});

test("models of different operator sets share nothing, and the refusal names both", () => {
  const other = changed(head(3), (model) => (model.opsetImport[0]!.version = 18n));
  expect(splitFamily([head(3), other])).toBe("their operator sets differ: :17, and :18");
});

test("numbers that are drawn are never shared, nor what is made of them", () => {
  const noisy = modelBytes({
    name: "noisy",
    inputs: [value("x", DataType.FLOAT, ["batch", 4])],
    outputs: [value("y", DataType.FLOAT, ["batch", 4])],
    nodes: [
      node("Relu", ["x"], ["a"]),
      node("RandomNormalLike", ["a"], ["noise"], { seed: 1 }),
      node("Add", ["a", "noise"], ["y"]),
    ],
  });
  expect(opsOf(split(noisy, noisy).prefix.bytes)).toEqual(["Relu"]);
});

test("weights in another file are never shared, though both files name the same place", () => {
  const external = changed(head(3), (model) => {
    const weights = model.graph!.initializer[2]!;
    weights.rawData = new Uint8Array(0);
    weights.dataLocation = TensorProto_DataLocation.EXTERNAL;
  });
  const [a, b] = [hashed(external, "0"), hashed(external, "1")];
  const common = new Set(a.nodes.map(({ hash }) => hash));
  expect(b.nodes.map(({ node: { opType }, hash }) => [opType, common.has(hash)])).toEqual([
    ["Gemm", true],
    ["Relu", true],
    ["Gemm", false],
    ["Relu", false],
    ["Gemm", false],
  ]);
});

test("operators that a model defines itself are never shared, though they are called alike", () => {
  const own = changed(head(3), (model) => {
    model.functions = [create(FunctionProtoSchema, { name: "Relu", domain: "" })];
  });
  expect(splitFamily([own, own])).toMatchObject({ prefix: { nodes: 1 } });
});

test("what only tells shapes runs again behind the cut, since it depends on how many rows there are", () => {
  const shaped = (last: string): Uint8Array =>
    modelBytes({
      name: "shaped",
      inputs: [value("x", DataType.FLOAT, ["batch", 4])],
      outputs: [value("y", DataType.FLOAT, ["batch", 4])],
      nodes: [
        node("Relu", ["x"], ["a"]),
        node("Shape", ["a"], ["shape"]),
        node("Tanh", ["a"], ["b"]),
        node("Reshape", ["b", "shape"], ["c"]),
        node(last, ["c"], ["d"]),
        node("Reshape", ["d", "shape"], ["y"]),
      ],
    });
  const { prefix, suffixes } = split(shaped("Relu"), shaped("Tanh"));
  expect(prefix.cut).toEqual(["a", "c"]);
  expect(opsOf(suffixes[1]!.bytes)).toEqual(["Shape", "Tanh", "Reshape"]);
});

test("several values may cross, and one that can't be handed over is made again", () => {
  const branched = (op: string): Uint8Array =>
    modelBytes({
      name: "branched",
      inputs: [value("x", DataType.FLOAT, ["batch", 4])],
      outputs: [value("y", DataType.FLOAT, ["batch", 4])],
      nodes: [node("Relu", ["x"], ["a"]), node("Tanh", ["a"], ["b"]), node(op, ["a", "b"], ["y"])],
    });
  const models = [branched("Sub"), branched("Div")];
  expect(split(...models).prefix.cut).toEqual(["a", "b"]);
  const again = splitFamily(models, { uncuttable: new Set(["b"]) }) as FamilySplit;
  expect(again.prefix.cut).toEqual(["a"]);
  expect(again.suffixes.map(({ bytes }) => opsOf(bytes))).toEqual([
    ["Tanh", "Sub"],
    ["Tanh", "Div"],
  ]);
  expect(splitFamily(models, { uncuttable: new Set(["a", "b"]) })).toBe("what they have in common can't be cut off");
});

test("one model under two names is all prefix: its outputs go through", () => {
  const { prefix, suffixes } = split(head(3), head(3));
  expect(prefix.cut).toEqual(["y"]);
  expect(suffixes.map(({ bytes, feeds }) => [opsOf(bytes), feeds])).toEqual([
    [["Identity"], [{ from: "y", to: "y/given" }]],
    [["Identity"], [{ from: "y", to: "y/given" }]],
  ]);
});

test("a branch's body is compared with all that it captures", () => {
  const branching = (captured: string, inner: string): Uint8Array => {
    const body = (op: string) =>
      graph({
        name: "body",
        inputs: [],
        outputs: [value("out", DataType.FLOAT, ["batch", 4])],
        nodes: [node(op, [captured], ["out"])],
      });
    return modelBytes({
      name: "branching",
      inputs: [value("x", DataType.FLOAT, ["batch", 4]), value("deep", DataType.BOOL, [])],
      outputs: [value("y", DataType.FLOAT, ["batch", 4])],
      nodes: [
        node("Relu", ["x"], ["a"]),
        node("Tanh", ["x"], ["b"]),
        node("If", ["deep"], ["c"], { then_branch: body("Relu"), else_branch: body(inner) }),
        node("Sigmoid", ["c"], ["y"]),
      ],
      initializers: [floats("unused", [1], Float32Array.of(1))],
    });
  };
  expect(split(branching("a", "Tanh"), branching("a", "Tanh")).nodes[0]).toEqual({ all: 4, shared: 4 });
  expect(split(branching("a", "Tanh"), branching("b", "Tanh")).nodes[0]).toEqual({ all: 4, shared: 2 });
  expect(split(branching("a", "Tanh"), branching("a", "Exp")).nodes[0]).toEqual({ all: 4, shared: 2 });
  // Values that the body captures are handed over as well.
  expect(split(branching("a", "Tanh"), branching("a", "Exp")).prefix.cut).toEqual(["a"]);
});

test("one model alone, and models that have nothing in common, are told apart from families", () => {
  expect(splitFamily([head(3)])).toBe("one model alone shares nothing");
  const other = generateMlp({ seed: 8, widths: [8, 16, 16, 3] });
  expect(splitFamily([head(3), other])).toBe("they have no node in common");
});
