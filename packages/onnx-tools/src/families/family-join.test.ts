import { fromBinary } from "@bufbuild/protobuf";
import fc from "fast-check";
import { type ModelProto, ModelProtoSchema } from "onnx-buf";
import { expect, test } from "vitest";
import { Prng } from "@tutti/units";
import { generateMlp } from "../generated-models.ts";
import { joinParts } from "./family-join.ts";
import { type FamilySplit, splitFamily } from "./family-split.ts";
import { hashGraph } from "./structural-hash.ts";
import { type Step, inOtherWords, modelOf, randomStep, randomSteps } from "./testing/random-graphs.ts";

const decoded = (bytes: Uint8Array): ModelProto => fromBinary(ModelProtoSchema, bytes);
const joined = ({ prefix, suffixes }: FamilySplit): Uint8Array[] =>
  suffixes.map((suffix) => joinParts(prefix.bytes, suffix));
/** Hash of each output's computation, whatever its values are called. */
const computed = (bytes: Uint8Array): (string | undefined)[] => {
  const { graph, hashes } = hashGraph(decoded(bytes), "0");
  return graph.output.map(({ name }) => hashes.get(name));
};
const family = (seed: number): Uint8Array[] => {
  const prng = new Prng(seed);
  const base = randomSteps(prng, 1 + prng.nextInt(6));
  return Array.from({ length: 2 + prng.nextInt(3) }, (_, i) => {
    const steps: Step[] = [...base];
    for (let more = 1 + prng.nextInt(5); more > 0; more--) steps.push(randomStep(prng, steps.length + 1));
    // Rename the values in half of the models; in the others, the same names stand for other values.
    return i % 2 === 0 ? modelOf(steps) : inOtherWords(modelOf(steps), { renamed: true, constantNodes: i === 1 }, seed);
  });
};

test("a prefix and a suffix joined compute what the model did that they were cut from, and take and give the same", () => {
  let families = 0;
  fc.assert(
    fc.property(fc.integer({ min: 0, max: 2 ** 31 }), (seed) => {
      const models = family(seed);
      const split = splitFamily(models);
      if (typeof split === "string") return;
      families++;
      for (const [i, bytes] of joined(split).entries()) {
        expect(computed(bytes)).toEqual(computed(models[i]!));
        const [is, was] = [decoded(bytes).graph!, decoded(models[i]!).graph!];
        expect(is.input.map(({ name }) => name)).toEqual(was.input.map(({ name }) => name));
        expect(is.output).toEqual(was.output);
        const made = is.node.flatMap(({ output }) => output);
        const all = [...made, ...is.initializer.map(({ name }) => name), ...is.input.map(({ name }) => name)];
        expect(new Set(all).size).toBe(all.length);
      }
    }),
    { numRuns: 300 },
  );
  expect(families).toBeGreaterThan(100);
});

test("models that were joined again are cut as they were, also beside one that never was in the family", () => {
  const head = (classes: number): Uint8Array => generateMlp({ seed: 7, widths: [8, 16, 16, classes] });
  const first = splitFamily([head(3), head(5)]);
  if (typeof first === "string") throw new Error(first);
  const again = splitFamily([...joined(first), head(9)]);
  expect(again).toMatchObject({ prefix: { nodes: 4 }, nodes: Array(3).fill({ all: 5, shared: 4 }) });
});
