import type { Engine, EngineBatch, EngineModel, LoadOutcome, RunOutcome } from "@tutti/ports/engine";
import type { ModelSpec } from "@tutti/protocol";
import { afterEach, expect, test } from "vitest";
import { BATCHES_QUEUED_MAX, startOnnxEngine } from "./index.ts";
import type { OnnxEngine } from "./onnx-engine.ts";
import { randomBatch } from "./random-batch.ts";
import { addOne, ocrRec, sileroVad } from "./test-models.ts";

let engine: OnnxEngine | undefined;
afterEach(() => new Promise<void>((done) => (engine === undefined ? done() : engine.stop(done))));
async function start(...models: EngineModel[]): Promise<OnnxEngine> {
  engine = await startOnnxEngine();
  for (const model of models) expect(await load(engine, model)).toMatchObject({ kind: "loaded" });
  return engine;
}
const load = (on: Engine, model: EngineModel): Promise<LoadOutcome> => new Promise((done) => on.load(model, done));
const unload = (on: Engine, name: string): Promise<void> => new Promise((done) => on.unload(name, done));
const run = (on: Engine, batch: EngineBatch): Promise<RunOutcome> => new Promise((done) => on.run(batch, done));
const batchOf = ({ spec }: EngineModel, batchSize = 1): EngineBatch =>
  randomBatch(spec, { bucket: 0, batchSize, seed: batchSize });

test("the file's bytes are only borrowed: the caller still has them, and may load them again", async () => {
  const plain = addOne();
  const model = { ...plain, bytes: Buffer.from(plain.bytes as Uint8Array) }; // as readFileSync returns it
  const on = await start(model);
  expect(model.bytes.byteLength).toBe(model.spec.file?.bytes);
  expect(await load(on, model)).toMatchObject({ kind: "loaded" });
  expect(await load(on, { spec: model.spec, bytes: undefined })).toMatchObject({
    reason: expect.stringMatching(/^an ONNX model needs its file/), // the model is named beside it
  });
});

test("named accelerators are a type of their own, and so is a part of one", async () => {
  const types: string[] = [];
  for (const options of [{}, { accelerator: "old", part: 50 }]) {
    const on = await startOnnxEngine(options);
    types.push(on.type);
    await new Promise<void>((done) => on.stop(done));
  }
  expect(types).toEqual(["onnx-cpu", "onnx-cpu-old-50"]);
});

test("inputs that can't be handed over fail their batch, each for its own reason (T8)", async () => {
  const model = addOne();
  const on = await start(model);
  const good = batchOf(model);
  const withData = (data: Uint8Array): EngineBatch => ({
    ...good,
    inputs: good.inputs.map((input) => ({ ...input, data })),
  });
  const spent = new Uint8Array(16);
  structuredClone(spent.buffer, { transfer: [spent.buffer] });
  const reasons: [Uint8Array, string][] = [
    [new Uint8Array(new SharedArrayBuffer(16)), "shared memory"],
    [new Uint8Array(32).subarray(16), "doesn't span its buffer"],
    [spent, "handed over before"],
  ];
  for (const [data, text] of reasons) {
    expect(await run(on, withData(data))).toMatchObject({
      kind: "failed",
      fault: false,
      reason: expect.stringContaining(text),
    });
  }
  expect(await run(on, good)).toMatchObject({ kind: "ran" });
});

test("the queue is bounded: one batch too many fails at once, and those before it run (T7)", async () => {
  const model = sileroVad();
  const on = await start(model);
  const outcomes = await Promise.all(Array.from({ length: BATCHES_QUEUED_MAX + 1 }, () => run(on, batchOf(model))));
  expect(outcomes.slice(0, -1).every(({ kind }) => kind === "ran")).toBe(true);
  expect(outcomes.at(-1)).toMatchObject({
    kind: "failed",
    fault: false,
    reason: expect.stringContaining("queued already"),
  });
  expect(await run(on, batchOf(model))).toMatchObject({ kind: "ran" });
});

test("when the worker dies, whatever waits is answered as a fault, and so is everything later (ENGINE-1)", async () => {
  const model = addOne();
  const on = await start(model);
  // not a spec at all: an unforeseen error
  const broken = { name: "broken", file: model.spec.file } as ModelSpec;
  const waiting = Promise.all([load(on, { spec: broken, bytes: model.bytes }), load(on, sileroVad())]);
  expect(await waiting).toMatchObject([
    { kind: "failed", reason: expect.stringMatching(/^the session worker failed/) },
    { kind: "failed", fault: true },
  ]);
  expect(await run(on, batchOf(model))).toMatchObject({ kind: "failed", fault: true });
  await unload(on, "add-one");
  await new Promise<void>((done) => on.stop(done));
});

test("loading and unloading again and again keeps memory bounded", { timeout: 60_000 }, async () => {
  const model = sileroVad();
  const on = await start(model);
  const cycle = async (): Promise<void> => {
    expect(await load(on, model)).toMatchObject({ kind: "loaded" });
    expect(await run(on, batchOf(model, 32))).toMatchObject({ kind: "ran" });
    await unload(on, model.spec.name);
  };
  for (let i = 0; i < 10; i++) await cycle(); // allocators settle
  const before = process.memoryUsage.rss();
  for (let i = 0; i < 40; i++) await cycle();
  // A session of Silero takes 4.5 MB: forty that leaked would be 180 MB.
  expect((process.memoryUsage.rss() - before) / 2 ** 20).toBeLessThan(80);
});

test("a provider that isn't here is refused at the start, with what to install", async (context) => {
  const started = await startOnnxEngine({ provider: "cuda" }).catch((error: unknown) => error);
  if (!(started instanceof Error)) {
    engine = started as OnnxEngine;
    return context.skip("CUDA works on this machine");
  }
  expect(started).toMatchObject({
    code: "TUTTI_UNAVAILABLE",
    message: expect.stringContaining("infra/cuda/fetch-provider.sh"),
  });
});

test("batches of a quick model run on the caller's thread, others on the worker, and all in the order given (ENGINE-3)", async () => {
  const [quick, slow] = [addOne(), ocrRec()];
  const on = await start(quick, slow);
  expect([on.runsInline(quick.spec.name), on.runsInline(slow.spec.name)]).toEqual([true, false]);
  const order: string[] = [];
  const noted = async (model: EngineModel, label: string): Promise<void> => {
    expect(await run(on, batchOf(model))).toMatchObject({ kind: "ran" });
    order.push(label);
  };
  await Promise.all([noted(quick, "a"), noted(slow, "b"), noted(quick, "c"), noted(slow, "d"), noted(quick, "e")]);
  expect(order.join("")).toBe("abcde");
});

test("a quick model that is unloaded while its batches wait serves those, and no later ones", async () => {
  const model = addOne();
  const on = await start(model);
  const runs = [run(on, batchOf(model)), run(on, batchOf(model))];
  await unload(on, model.spec.name);
  expect((await Promise.all(runs)).map(({ kind }) => kind)).toEqual(["ran", "ran"]);
  expect(await run(on, batchOf(model))).toMatchObject({ kind: "failed", fault: false });
});
