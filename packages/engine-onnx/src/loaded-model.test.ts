import type { EngineBatch, EngineModel, RunOutcome } from "@tutti/ports/engine";
import type { ModelSpec, Tensor } from "@tutti/protocol";
import ort from "onnxruntime-node";
import { afterEach, expect, test, vi } from "vitest";
import { takeRow } from "./batch-rows.ts";
import { LoadedModel } from "./loaded-model.ts";
import { type SessionSettings, sessionOptions } from "./provider.ts";
import { randomBatch } from "./random-batch.ts";
import { toOrt } from "./tensor-types.ts";
import { addOne, modelOf, ocrRec, sileroVad } from "./test-models.ts";

const settings = { provider: "cpu", threads: 1, device: 0 } as const;
const loaded: LoadedModel[] = [];
afterEach(async () => {
  for (const model of loaded.splice(0)) await model.release();
});
async function load(
  { spec, bytes }: EngineModel,
  changes: Partial<ModelSpec> = {},
  on: SessionSettings = settings,
): Promise<LoadedModel> {
  const model = await LoadedModel.load({ spec: { ...spec, ...changes }, bytes: bytes as Uint8Array, settings: on });
  loaded.push(model);
  return model;
}
function outputsOf(outcome: RunOutcome): readonly Tensor[] {
  expect(outcome).toMatchObject({ kind: "ran", failedRows: [] });
  return (outcome as Extract<RunOutcome, { kind: "ran" }>).outputs;
}

for (const make of [sileroVad, ocrRec]) {
  const given = make();
  const { spec } = given;
  const bucket = spec.buckets.length - 1;

  test(`${spec.name}: outputs are byte for byte those of onnxruntime called directly`, async () => {
    const model = await load(given);
    const batch = randomBatch(spec, { bucket, batchSize: 3, seed: 1 });
    const session = await ort.InferenceSession.create(
      given.bytes as Uint8Array,
      sessionOptions(settings, given.bytes as Uint8Array),
    );
    const feeds = Object.fromEntries(batch.inputs.map((input) => [input.name, toOrt(input)]));
    for (const { name, dims, values } of spec.constants) {
      feeds[name] = new ort.Tensor("int64", BigInt64Array.from(values.map(BigInt)), dims);
    }
    const direct = await session.run(feeds);
    await session.release();
    for (const output of outputsOf(await model.run(batch))) {
      const expected = direct[output.name] as ort.TypedTensor<"float32">;
      expect([...output.dims]).toEqual([...expected.dims]);
      expect(Buffer.compare(output.data, Buffer.from(expected.data.buffer as ArrayBuffer))).toBe(0);
    }
  });

  test(`${spec.name}: filled up to another size, rows give what they give as they are (sessions of a CPU in place of CUDA's)`, async () => {
    const create = ort.InferenceSession.create.bind(ort.InferenceSession) as (
      bytes: Uint8Array,
      options: ort.InferenceSession.SessionOptions,
    ) => Promise<ort.InferenceSession>;
    const made = vi
      .spyOn(ort.InferenceSession, "create")
      .mockImplementation((bytes: Uint8Array) => create(bytes, sessionOptions(settings, bytes)));
    const model = await load(given, {}, { ...settings, provider: "cuda" });
    made.mockClear();
    const again = (): EngineBatch => randomBatch(spec, { bucket, batchSize: 9, seed: 3 });
    const filled = outputsOf(await model.run(again()));
    expect(outputsOf(await model.run(again())).map(({ dims }) => dims)).toEqual(filled.map(({ dims }) => dims));
    expect(made).toHaveBeenCalledTimes(1); // for 10 rows: the first session has run 3, to compare it with the CPU
    made.mockRestore();
    const plain = outputsOf(await (await load(given)).run(again()));
    for (const [i, output] of filled.entries()) {
      expect([...output.dims]).toEqual([...plain[i]!.dims]);
      expect(worstDifference(output, plain[i]!)).toBeLessThan(1e-5);
    }
  });

  test(`${spec.name}: row i of a batch is what item i gives alone (T2)`, async () => {
    const model = await load(given);
    const batch = randomBatch(spec, { bucket, batchSize: 4, seed: 2 });
    const together = outputsOf(await model.run(batch));
    for (let row = 0; row < 4; row++) {
      const inputs = batch.inputs.map((input, i) => takeRow(input, axisOf(spec.inputs[i]?.dims), row));
      const alone = outputsOf(await model.run({ ...batch, batchSize: 1, inputs }));
      for (const [i, output] of together.entries()) {
        const own = takeRow(output, axisOf(spec.outputs[i]?.dims), row);
        expect(worstDifference(own, alone[i] as Tensor)).toBeLessThan(1e-5);
      }
    }
  });
}

test("a provider may be as far from the CPU as rounding in half floats or quantized numbers takes it, and no further", async () => {
  type Create = (bytes: Uint8Array, options?: ort.InferenceSession.SessionOptions) => Promise<ort.InferenceSession>;
  const create = ort.InferenceSession.create.bind(ort.InferenceSession) as Create;
  const { spec, bytes: plain } = addOne();
  const one = Buffer.from(Float32Array.of(1).buffer);
  const [DOC_STRING, GRAPH] = [0x32, 0x3a];
  const differs = async (by: number, content: string, field = DOC_STRING): Promise<boolean> => {
    // A graph's document, which changes no output; the other provider adds a bit more.
    const bytes = Buffer.concat([
      plain as Uint8Array,
      Uint8Array.of(field, content.length),
      Buffer.from(content, "latin1"),
    ]);
    const other = Buffer.from(bytes);
    other.set(new Uint8Array(Float32Array.of(1 + by).buffer), other.indexOf(one));
    const made = vi
      .spyOn(ort.InferenceSession, "create")
      .mockImplementation((_, options) =>
        create(options?.executionProviders?.[0] === "cpu" ? bytes : other, sessionOptions(settings, bytes)),
      );
    const loading = load(
      modelOf(bytes, { name: "m", inputs: spec.inputs, outputs: spec.outputs }),
      {},
      { ...settings, provider: "webgpu" },
    );
    const refusal = await loading.then(
      () => undefined,
      (error: Error) => error.message,
    );
    made.mockRestore();
    if (refusal !== undefined) expect(refusal).toMatch(/computes this model wrongly: its outputs are 0\.\d+ away/);
    return refusal !== undefined;
  };
  // A graph that protobuf merges into the first: a half float without a use.
  const half = "\x2a\x09\x10\x0a\x42\x01w\x4a\x02\x00\x3c";
  expect([await differs(1e-4, ""), await differs(0.01, "")]).toEqual([false, true]);
  expect([await differs(0.01, half, GRAPH), await differs(0.1, half, GRAPH)]).toEqual([false, true]);
  expect([await differs(0.1, "QuantizeLinear"), await differs(1, "QuantizeLinear")]).toEqual([false, true]);
});

test("a file with another sha256 than the spec's is refused, though onnxruntime would load it", async () => {
  const { spec, bytes } = sileroVad();
  const flipped = new Uint8Array(bytes as Uint8Array);
  flipped[600_000] = (flipped[600_000] as number) ^ 1;
  await expect(load({ spec, bytes: flipped })).rejects.toThrow(`the spec ${spec.file?.sha256}`);
});

test("a file that onnxruntime can't load is refused with its words", async () => {
  const whole = addOne();
  // The same length, so that the file is whole, and an operator that does not exist.
  const bytes = Buffer.from(
    Buffer.from(whole.bytes as Uint8Array)
      .toString("latin1")
      .replace("Add", "Axd"),
    "latin1",
  );
  const { createHash } = await import("node:crypto");
  const sha256 = createHash("sha256").update(bytes).digest("hex");
  const spec = { ...whole.spec, file: { object: "x", sha256, bytes: bytes.length } };
  await expect(load({ spec, bytes })).rejects.toThrow("onnxruntime can't load the file: ");
});

test("a spec that speaks of other tensors than the file is refused by the first difference", async () => {
  const x = { name: "x", type: "FP32", dims: ["batch", 4] } as const;
  const y = { ...x, name: "y" };
  const refused = (changes: Partial<ModelSpec>): Promise<unknown> =>
    load(addOne(), changes).catch((e: Error) => e.message);
  expect(await refused({ inputs: [{ ...x, name: "z" }] })).toContain("an input 'x' that the spec leaves out");
  expect(await refused({ inputs: [x, { ...x, name: "z" }] })).toContain("no input 'z'; it has x");
  expect(await refused({ inputs: [{ ...x, type: "INT64" }] })).toContain(
    "'x' is float32 in the file, int64 in the spec",
  );
  expect(await refused({ inputs: [{ ...x, dims: ["batch", 5] }] })).toContain(
    "[batch, 4] in the file, [batch, 5] in the spec",
  );
  expect(await refused({ outputs: [{ ...y, name: "q" }] })).toContain("no output 'q'; it has y");
});

test("an output of another shape than its spec's fails its run, which says where to write the right one", async () => {
  for (const dims of [["batch"], ["batch", 5], [4, "batch"]]) {
    const model = await load(addOne(), { outputs: [{ name: "y", type: "FP32", dims }] });
    const batch = randomBatch(model.spec, { bucket: 0, batchSize: 2, seed: 1 });
    const reason = expect.stringMatching(
      /'y' is \[2, 4\] for a batch of 2, and was declared .* dims below output/,
    ) as string;
    expect(await model.run(batch)).toMatchObject({ kind: "failed", reason });
  }
});

test("a file that leaves the shapes of its tensors out has those of the spec", async () => {
  const { spec, bytes } = addOne();
  const { name, inputs, outputs } = spec;
  const text = Buffer.from(bytes as Uint8Array).toString("latin1");
  const shape = "\x12\x0d\x0a\x07\x12\x05batch\x0a\x02\x08\x04";
  const shapeless = text
    .replaceAll(`\x18\x0a\x01x\x12\x13\x0a\x11\x08\x01${shape}`, "\x09\x0a\x01x\x12\x04\x0a\x02\x08\x01")
    .replaceAll(`\x18\x0a\x01y\x12\x13\x0a\x11\x08\x01${shape}`, "\x09\x0a\x01y\x12\x04\x0a\x02\x08\x01")
    .replace("tutti:c", "tutti:E"); // the graph's length
  expect(shapeless).toHaveLength(text.length - 30);
  const model = await load(modelOf(Buffer.from(shapeless, "latin1"), { name, inputs, outputs }));
  const { kind } = await model.run(randomBatch(model.spec, { bucket: 0, batchSize: 3, seed: 1 }));
  expect(kind).toBe("ran");
});

test("a batch that doesn't fit the spec is refused before onnxruntime sees it", async () => {
  const model = await load(addOne());
  const good = randomBatch(model.spec, { bucket: 0, batchSize: 2, seed: 1 });
  const input = good.inputs[0] as Tensor;
  const reason = async (changes: object): Promise<string> => {
    const outcome = await model.run({ ...good, ...changes });
    expect(outcome).toMatchObject({ kind: "failed", fault: false });
    return (outcome as { reason: string }).reason;
  };
  expect(await reason({ bucket: 1 })).toContain("there is no bucket 1; there are 1");
  expect(await reason({ batchSize: 0 })).toContain("a batch of 0");
  expect(await reason({ batchSize: 3 })).toContain("'x' is [2, 4], not [3, 4]");
  expect(await reason({ inputs: [{ ...input, data: input.data.subarray(4) }] })).toContain("has 28 bytes, not 32");
  expect(await reason({ inputs: [{ ...input, data: new Uint8Array(33).subarray(1) }] })).toContain("isn't aligned");
  outputsOf(await model.run(good));
});

test("values that make no sense are computed, not refused: NaN in one row leaves the others alone (T8)", async () => {
  const model = await load(addOne());
  const values = Float32Array.of(1, 2, 3, 4, NaN, Infinity, -0, 7);
  const inputs: Tensor[] = [{ name: "x", type: "FP32", dims: [2, 4], data: new Uint8Array(values.buffer) }];
  const [y] = outputsOf(await model.run({ model: "add-one", bucket: 0, batchSize: 2, inputs }));
  expect([...new Float32Array((y as Tensor).data.buffer)]).toEqual([2, 3, 4, 5, NaN, Infinity, 1, 8]);
});

test("one bad row of 32 fails alone and costs its neighbours about two runs of the batch, not one run each (T8)", async () => {
  const model = await load(addOne(), { batchSizeMax: 32 });
  const bad = 13;
  const values = Float32Array.from({ length: 32 * 4 }, (_, i) => (i >> 2 === bad ? -666 : i));
  const runs: number[] = [];
  const { prototype } = ort.InferenceSession as unknown as { prototype: ort.InferenceSession };
  const original = prototype.run;
  const spied = vi.spyOn(prototype, "run").mockImplementation(function (
    this: ort.InferenceSession,
    ...args: unknown[]
  ) {
    const { x } = args[0] as { x: ort.TypedTensor<"float32"> };
    runs.push(x.dims[0] as number);
    if (x.data.includes(-666)) return Promise.reject(new Error("no such row"));
    return (original as (...all: unknown[]) => ReturnType<typeof original>).apply(this, args);
  });
  const inputs: Tensor[] = [{ name: "x", type: "FP32", dims: [32, 4], data: new Uint8Array(values.buffer) }];
  const outcome = await model.run({ model: "add-one", bucket: 0, batchSize: 32, inputs });
  spied.mockRestore();
  expect(outcome).toMatchObject({ kind: "ran", failedRows: [{ row: bad, reason: "no such row" }] });
  expect(runs).toEqual([32, 16, 8, 8, 4, 4, 2, 1, 1, 2, 16]);
  const [y] = (outcome as Extract<RunOutcome, { kind: "ran" }>).outputs;
  const answers = new Float32Array((y as Tensor).data.buffer);
  for (const [i, value] of values.entries()) if (i >> 2 !== bad) expect(answers[i]).toBe(value + 1);
});

const axisOf = (dims: readonly (number | string)[] | undefined): number => dims?.indexOf("batch") ?? -1;

function worstDifference(a: Tensor, b: Tensor): number {
  expect([...a.dims]).toEqual([...b.dims]);
  const [one, other] = [new Float32Array(a.data.buffer), new Float32Array(b.data.buffer)];
  return one.reduce((worst, value, i) => Math.max(worst, Math.abs(value - (other[i] as number))), 0);
}
