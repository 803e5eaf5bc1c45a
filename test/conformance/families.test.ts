/**
 * Families on the real engine. Whatever is cut off and shared, every variant's answers equal those of its own model
 * (docs/families.md).
 */
import { readFileSync } from "node:fs";
import type { DesiredModel } from "@tutti/client/registries";
import { type Engine, type EngineBatch, type RunOutcome } from "@tutti/ports/engine";
import { randomBatch, startOnnxEngine } from "@tutti/engine-onnx";
import { FAMILY_DIFFERENCE, type FamilyMember, FamilyRefusal, likelyFamilies, makeFamily } from "@tutti/admin/families";
import {
  type ModelConfig,
  demoModel,
  demoModelPath,
  describeModel,
  draftModel,
  generateCtr,
  generateMlp,
  onnxGraph,
  sha256Of,
  withOtherHead,
} from "@tutti/onnx-tools";
import { type ModelSpec, VARIANT_INPUT } from "@tutti/protocol";
import { Prng } from "@tutti/units";
import { afterAll, beforeAll, expect, test } from "vitest";

let engine: Engine;
beforeAll(async () => {
  engine = await startOnnxEngine();
});
afterAll(() => new Promise<void>((done) => engine.stop(done)));

const memberOf = (name: string, bytes: Uint8Array, config: ModelConfig = {}): FamilyMember => {
  const { sha256: _, bytes: __, ...model } = draftModel({ slo: "50ms", ...config, name }, describeModel(bytes));
  return { model, bytes };
};
const refusal = (members: readonly FamilyMember[]): Promise<string> =>
  makeFamily({ name: "family", members }).then(
    () => "made",
    (error: unknown) => (error instanceof FamilyRefusal ? error.message : String(error)),
  );
async function load(model: DesiredModel, bytes: Uint8Array): Promise<{ spec: ModelSpec; outcome: unknown }> {
  const file = { object: model.name, sha256: sha256Of(bytes), bytes: bytes.byteLength };
  const spec: ModelSpec = { ...model, number: 1, version: "1", file };
  return { spec, outcome: await new Promise((done) => engine.load({ spec, bytes }, done)) };
}
async function loaded(model: DesiredModel, bytes: Uint8Array): Promise<ModelSpec> {
  const { spec, outcome } = await load(model, bytes);
  expect(outcome).toMatchObject({ kind: "loaded" });
  return spec;
}
const ran = (batch: EngineBatch): Promise<RunOutcome> => new Promise((done) => engine.run(batch, done));

const heads = [3, 5, 9].map((classes) =>
  memberOf(`head-${classes}`, generateMlp({ seed: 7, widths: [64, 256, 256, classes] })),
);

test("an MLP with three heads of other sizes is one family, checked equal, with its weights there once", async () => {
  const { model, bytes, difference, profit } = await makeFamily({ name: "heads", members: heads });
  expect(difference).toBeLessThanOrEqual(FAMILY_DIFFERENCE);
  expect(model.family!.variants.map(({ name, outputs }) => [name, outputs[0]!.dims])).toEqual([
    ["head-3", ["batch", 3]],
    ["head-5", ["batch", 5]],
    ["head-9", ["batch", 9]],
  ]);
  expect(bytes.byteLength).toBeLessThan(0.4 * heads.reduce((sum, member) => sum + member.bytes.byteLength, 0));
  expect(profit.plans.length).toBeGreaterThan(0);
});

test("a row that a suffix can't compute fails alone, and so does one of a variant that there isn't", async () => {
  const ctr = [1, 2].map((seed) =>
    memberOf(`ctr-${seed}`, withOtherHead(generateCtr({ rows: 50, width: 8, hidden: 16 }), seed)),
  );
  const { model, bytes } = await makeFamily({ name: "ctrs", members: ctr });
  const spec = await loaded(model, bytes);
  const batch = randomBatch(spec, { bucket: 0, batchSize: 6, seed: 3 });
  const ids = new BigInt64Array(batch.inputs[0]!.data.buffer);
  ids[2 * 16] = 1_000_000n; // the third row asks for a row that the table lacks
  const marks = batch.inputs.find(({ name }) => name === VARIANT_INPUT)!;
  marks.data[2 * 5] = 9;
  const outcome = await ran(batch);
  expect(outcome).toMatchObject({ kind: "ran" });
  const { failedRows, groups = [] } = outcome as Extract<RunOutcome, { kind: "ran" }>;
  expect(failedRows.map(({ row }) => row).sort()).toEqual([2, 5]);
  expect(groups.flatMap(({ rows }) => rows).sort()).toEqual([0, 1, 3, 4]);
  for (const { variant, rows } of groups) for (const row of rows) expect(row % 2).toBe(variant);
});

test("the recogniser of the OCR models with other heads is a family, in every width, equal to its models one by one", async () => {
  const { config } = demoModel("ocr-rec");
  const original = readFileSync(demoModelPath(demoModel("ocr-rec"), { cacheDir: "." }));
  const members = [1, 2].map((seed) => memberOf(`rec-${seed}`, withOtherHead(original, seed), config));
  const { model, bytes, difference } = await makeFamily({ name: "recs", members });
  expect(difference).toBeLessThanOrEqual(FAMILY_DIFFERENCE);
  expect(model.buckets.length).toBe(members[0]!.model.buckets.length);
  expect(bytes.byteLength).toBeLessThan(0.8 * 2 * original.byteLength);
}, 60_000);

test("what folds rows into something else is not cut there: the cut moves back to where rows are apart", async () => {
  const folded = (op: string): FamilyMember => {
    const { node, value, DataType, modelBytes, integers } = onnxGraph;
    const bytes = modelBytes({
      name: "folded",
      inputs: [value("x", DataType.FLOAT, ["batch", 4])],
      outputs: [value("y", DataType.FLOAT, ["batch", 4])],
      nodes: [
        node("Relu", ["x"], ["a"]),
        node("Reshape", ["a", "flat"], ["b"]),
        node(op, ["b"], ["c"]),
        node("Reshape", ["c", "square"], ["y"]),
      ],
      initializers: [integers("flat", [1], [-1n]), integers("square", [2], [-1n, 4n])],
    });
    return memberOf(op.toLowerCase(), bytes);
  };
  const { model, difference } = await makeFamily({ name: "folded", members: [folded("Tanh"), folded("Sigmoid")] });
  expect(model.family!.prefix!.cut).toEqual([{ name: "a", batchAxis: 0 }]);
  expect(difference).toBe(0);
});

test("what can't share batches, has nothing in common or isn't independent row by row is refused with a reason", async () => {
  const other = memberOf("other", generateMlp({ seed: 8, widths: [64, 256, 3] }));
  expect(await refusal([heads[0]!, other])).toBe("they have no node in common");
  expect(await refusal([heads[0]!, memberOf("wide", generateMlp({ seed: 7, widths: [32, 256, 3] }))])).toBe(
    "head-3 and wide differ in their inputs",
  );
  const mean = (op: string): FamilyMember => {
    const { node, value, DataType, modelBytes } = onnxGraph;
    return memberOf(
      op.toLowerCase(),
      modelBytes({
        name: "mean",
        inputs: [value("x", DataType.FLOAT, ["batch", 4])],
        outputs: [value("y", DataType.FLOAT, ["batch", 4])],
        nodes: [
          node("ReduceMean", ["x"], ["m"], { axes: [0n] }),
          node("Add", ["x", "m"], ["s"]),
          node(op, ["s"], ["y"]),
        ],
      }),
    );
  };
  // The mean over the batch mixes publishers: such a model's answers depend on the batch.
  expect(await refusal([mean("Relu"), mean("Tanh")])).toMatch(
    /what they have in common can't be cut off|away from those/,
  );
});

test("families are found among many models by what they take and begin with", () => {
  const prng = new Prng(1);
  const strangers = [1, 2].map((seed) => memberOf(`s${seed}`, generateMlp({ seed: 100 + seed, widths: [64, 32, 3] })));
  const all = [...heads, ...strangers].sort(() => prng.nextFloat() - 0.5);
  expect(likelyFamilies(all).map((group) => group.map(({ model }) => model.name).sort())).toEqual([
    ["head-3", "head-5", "head-9"],
  ]);
});

test("a family of models that see the padding is refused at load, and names the first of them", async () => {
  const { node, value, DataType, modelBytes } = onnxGraph;
  const headed = (op: string): Uint8Array =>
    modelBytes({
      name: "mean",
      inputs: [value("x", DataType.FLOAT, ["batch", "L", 4])],
      outputs: [value("y", DataType.FLOAT, ["batch", 4])],
      nodes: [
        node("Exp", ["x"], ["a"]),
        node("ReduceMean", ["a"], ["b"], { axes: [1n], keepdims: 0n }),
        node(op, ["b"], ["y"]),
      ],
      initializers: [],
    });
  for (const L of [
    { mode: "pad", max: 8, mixed: true },
    { sizes: [4, 8], mixed: true },
  ] as const) {
    const members = ["Relu", "Tanh"].map((op) => memberOf(op.toLowerCase(), headed(op), { axes: { L } }));
    const { model, bytes } = await makeFamily({ name: "means", members });
    await loaded(model, bytes);
    const { mixed: _, ...unjudged } = model.axes["L"]!;
    const { outcome } = await load({ ...model, axes: { L: unjudged } }, bytes);
    expect(outcome).toMatchObject({
      kind: "failed",
      reason: expect.stringMatching(/relu: padding changes what it answers: a row of L 4 padded to 8/),
    });
  }
});

test("a family of which one model's rows influence each other is refused at load, and names it (T2)", async () => {
  const { node, value, DataType, modelBytes } = onnxGraph;
  const headed = (head: ReturnType<typeof node>): Uint8Array =>
    modelBytes({
      name: "headed",
      inputs: [value("x", DataType.FLOAT, ["batch", 4, 4])],
      outputs: [value("y", DataType.FLOAT, ["batch", 4])],
      nodes: [node("Exp", ["x"], ["a"]), node("ReduceMean", ["a"], ["b"], { axes: [1n], keepdims: 0n }), head],
    });
  const heads = { relu: node("Relu", ["b"], ["y"]), shares: node("Softmax", ["b"], ["y"], { axis: 0n }) };
  const members = Object.entries(heads).map(([name, head]) => memberOf(name, headed(head), { independent_rows: true }));
  const { model, bytes } = await makeFamily({ name: "headed", members });
  await loaded(model, bytes); // whose members' publishers vouch for them
  const { independentRows: _, ...tried } = model;
  const { outcome } = await load(tried, bytes);
  expect(outcome).toMatchObject({
    kind: "failed",
    reason: expect.stringMatching(/shares: rows of a batch influence each other: output 'y'/),
  });
});
