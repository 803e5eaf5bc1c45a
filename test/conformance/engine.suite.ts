/**
 * The contract of every engine. Run by one test file per engine, so that an executor behaves the same over a real
 * accelerator and an emulated one.
 */
import type { Engine, EngineBatch, EngineModel, LoadOutcome, RunOutcome } from "@tutti/ports/engine";
import { BATCH_AXIS, type Tensor, bytesOf, elementCount } from "@tutti/protocol";
import { afterEach, expect, test } from "vitest";

export interface EngineUnderTest {
  readonly engine: Engine;
  /** Two models of different names with one bucket and a largest batch of at least 8; neither is loaded yet. */
  readonly models: readonly [EngineModel, EngineModel];
  /** A model that can't be loaded, if this engine has such. */
  readonly unloadable?: EngineModel;
  /**
   * Inputs of a batch of `first`, `first + 1`, … Row i holds item `first + i`, and equal items are equal bytes. Fresh
   * buffers each time.
   */
  inputs(model: EngineModel, batchSize: number, first: number): Tensor[];
  /** How far apart outputs of a batch and of its rows alone may be, as a share of the largest value. Default: 1e-5. */
  readonly rounding?: number;
  /** Inputs of a batch whose row `bad` can't be computed while the others can, if this engine has such. */
  poisoned?(model: EngineModel, batchSize: number, bad: number): Tensor[];
}

export function engineConformance(name: string, makeEngine: () => Promise<EngineUnderTest>): void {
  let running: Engine | undefined;
  afterEach(() => new Promise<void>((done) => (running === undefined ? done() : running.stop(done))));
  /** Each test has an engine of its own, with both models loaded. */
  async function start(): Promise<EngineUnderTest> {
    const made = await makeEngine();
    running = made.engine;
    for (const model of made.models) expect(await load(made.engine, model)).toMatchObject({ kind: "loaded" });
    return made;
  }
  const batch = (
    under: EngineUnderTest,
    options: { batchSize: number; first?: number; model?: 0 | 1 },
  ): EngineBatch => {
    const model = under.models[options.model ?? 0];
    const inputs = under.inputs(model, options.batchSize, options.first ?? 0);
    return { model: model.spec.name, bucket: 0, batchSize: options.batchSize, inputs };
  };

  test(`${name}: loading says how much memory the model takes`, async () => {
    const made = await makeEngine();
    running = made.engine;
    const outcome = await load(made.engine, made.models[0]);
    expect(outcome).toMatchObject({ kind: "loaded", memoryBytes: expect.any(Number) });
    expect((outcome as { memoryBytes: number }).memoryBytes).toBeGreaterThanOrEqual(0);
    expect(made.engine.type).toMatch(/^[a-z0-9-]+$/);
  });

  test(`${name}: a batch gives every output of the spec, whole, and the time that the run took`, async () => {
    const under = await start();
    for (const batchSize of [1, 3, 8]) {
      const outcome = ran(await run(under.engine, batch(under, { batchSize })));
      const { spec } = under.models[0];
      expect(outcome.outputs.map(({ name, type }) => ({ name, type }))).toEqual(
        spec.outputs.map((output) => ({ name: output.name, type: output.type })),
      );
      for (const [i, output] of outcome.outputs.entries()) {
        const declared = spec.outputs[i]?.dims ?? [];
        expect(output.dims.length).toBe(declared.length);
        expect(output.dims[declared.indexOf(BATCH_AXIS)]).toBe(batchSize);
        expect(output.data.byteLength).toBe(elementCount(output.dims) * bytesOf(output.type));
      }
      expect(outcome.failedRows).toEqual([]);
      expect(Number.isSafeInteger(outcome.run) && outcome.run >= 0).toBe(true);
    }
  });

  test(`${name}: row i of a batch is the answer to item i, and to no other (T2)`, async () => {
    const under = await start();
    const { spec } = under.models[0];
    const batchSize = Math.min(11, spec.batchSizeMax); // 11 runs as 12 on a GPU
    const together = ran(await run(under.engine, batch(under, { batchSize, first: 10 })));
    for (let row = 0; row < batchSize; row++) {
      const alone = ran(await run(under.engine, batch(under, { batchSize: 1, first: 10 + row })));
      for (const [i, output] of together.outputs.entries()) {
        const axis = spec.outputs[i]?.dims.indexOf(BATCH_AXIS) ?? 0;
        expectClose(rowOf(output, axis, row), alone.outputs[i] as Tensor, under.rounding);
      }
    }
  });

  test(`${name}: batches that are queued run one by one, in the order given, and each is answered once`, async () => {
    const under = await start();
    const answered: number[] = [];
    const all = Array.from({ length: 6 }, (_, i) => {
      const settled = run(under.engine, batch(under, { batchSize: 1 + (i % 3), first: i, model: (i % 2) as 0 | 1 }));
      return settled.then((outcome) => (answered.push(i), ran(outcome).outputs[0]?.dims));
    });
    expect(answered).toEqual([]); // nothing is answered before `run` returns
    await Promise.all(all);
    expect(answered).toEqual([0, 1, 2, 3, 4, 5]);
  });

  test(`${name}: the engine takes the inputs' buffers, so that the caller can't change a batch in flight`, async () => {
    const under = await start();
    const given = batch(under, { batchSize: 2 });
    const outcome = run(under.engine, given);
    expect(given.inputs.map(({ data }) => data.byteLength)).toEqual(given.inputs.map(() => 0));
    ran(await outcome);
  });

  test(`${name}: a batch of a model that isn't loaded fails, and is no fault of the engine`, async () => {
    const under = await start();
    const outcome = await run(under.engine, { ...batch(under, { batchSize: 1 }), model: "no-such-model" });
    expect(outcome).toMatchObject({ kind: "failed", fault: false, reason: expect.stringContaining("no-such-model") });
    ran(await run(under.engine, batch(under, { batchSize: 1 })));
  });

  test(`${name}: a batch of a bucket that the model hasn't fails, and the next batch runs (T8)`, async () => {
    const under = await start();
    const wrong = run(under.engine, { ...batch(under, { batchSize: 1 }), bucket: 9 });
    const right = run(under.engine, batch(under, { batchSize: 1 }));
    expect(await wrong).toMatchObject({ kind: "failed", fault: false });
    ran(await right);
  });

  test(`${name}: inputs of another shape, type, name or number fail their batch alone (T8)`, async () => {
    const under = await start();
    const spoil: readonly ((input: Tensor) => Tensor[])[] = [
      (input) => [{ ...input, dims: [...input.dims, 1] }],
      (input) => [{ ...input, type: input.type === "UINT8" ? "INT8" : "UINT8" }],
      (input) => [{ ...input, name: "no-such-input" }],
      (input) => [{ ...input, data: new Uint8Array(1) }],
      () => [],
    ];
    for (const change of spoil) {
      const good = batch(under, { batchSize: 2 });
      const [first, ...rest] = good.inputs as [Tensor, ...Tensor[]];
      const outcome = await run(under.engine, { ...good, inputs: [...change(first), ...rest] });
      expect(outcome).toMatchObject({ kind: "failed", fault: false });
    }
    ran(await run(under.engine, batch(under, { batchSize: 2 })));
  });

  test(`${name}: one bad item fails its own row, and its neighbours get their answers (T8)`, async (context) => {
    const under = await start();
    if (under.poisoned === undefined) return context.skip("this engine computes nothing that an item could spoil");
    const model = under.models[1];
    const { name: modelName, outputs: declared } = model.spec;
    const inputs = under.poisoned(model, 5, 2);
    const outcome = ran(await run(under.engine, { model: modelName, bucket: 0, batchSize: 5, inputs }));
    expect(outcome.failedRows).toEqual([{ row: 2, reason: expect.stringMatching(/.+/) }]);
    for (const row of [0, 1, 3, 4]) {
      const alone = ran(await run(under.engine, batch(under, { batchSize: 1, first: row, model: 1 })));
      for (const [i, output] of outcome.outputs.entries()) {
        expectClose(rowOf(output, declared[i]?.dims.indexOf(BATCH_AXIS) ?? 0, row), alone.outputs[i] as Tensor);
      }
    }
    const alone = under.poisoned(model, 1, 0);
    const single = await run(under.engine, { model: modelName, bucket: 0, batchSize: 1, inputs: alone });
    expect(single).toMatchObject({ kind: "failed", fault: false });
  });

  test(`${name}: a model that can't be loaded is refused with the reason, and the others go on`, async (context) => {
    const under = await start();
    if (under.unloadable === undefined) return context.skip("this engine loads whatever it is given");
    const outcome = await load(under.engine, under.unloadable);
    expect(outcome).toMatchObject({ kind: "failed", reason: expect.stringMatching(/\w{3}/) });
    // The model's name is added where it is told.
    expect((outcome as { reason: string }).reason.startsWith(under.unloadable.spec.name)).toBe(false);
    ran(await run(under.engine, batch(under, { batchSize: 1 })));
  });

  test(`${name}: an unloaded model's queued batches still run, later ones fail, and loading it again serves again`, async () => {
    const under = await start();
    const { engine, models } = under;
    const queued = run(engine, batch(under, { batchSize: 2 }));
    const unloaded = unload(engine, models[0].spec.name);
    const late = run(engine, batch(under, { batchSize: 2 }));
    ran(await queued);
    await unloaded;
    expect(await late).toMatchObject({ kind: "failed", fault: false, isUnloaded: true });
    ran(await run(engine, batch(under, { batchSize: 1, model: 1 })));
    expect(await load(engine, models[0])).toMatchObject({ kind: "loaded" });
    ran(await run(engine, batch(under, { batchSize: 2 })));
    await unload(engine, "never-loaded");
  });

  test(`${name}: loading a name again replaces the model, between batches`, async () => {
    const under = await start();
    const before = run(under.engine, batch(under, { batchSize: 1 }));
    const again = load(under.engine, under.models[0]);
    const after = run(under.engine, batch(under, { batchSize: 1 }));
    const outputs = [ran(await before).outputs, ran(await after).outputs];
    expect(await again).toMatchObject({ kind: "loaded" });
    expect(outputs[1]?.map(({ data }) => [...data])).toEqual(outputs[0]?.map(({ data }) => [...data]));
  });

  test(`${name}: stopping lets what is queued finish; afterwards everything fails, and nothing hangs`, async () => {
    const under = await start();
    const { engine, models } = under;
    const order: string[] = [];
    const queued = [1, 2, 3].map((batchSize) =>
      run(engine, batch(under, { batchSize })).then((outcome) => order.push(outcome.kind)),
    );
    const stopped = stop(engine).then(() => order.push("stopped"));
    const late = run(engine, batch(under, { batchSize: 1 }));
    await Promise.all([...queued, stopped]);
    expect(order).toEqual(["ran", "ran", "ran", "stopped"]);
    expect(await late).toMatchObject({ kind: "failed" });
    expect(await run(engine, batch(under, { batchSize: 1 }))).toMatchObject({ kind: "failed" });
    expect(await load(engine, models[0])).toMatchObject({ kind: "failed" });
    await unload(engine, models[0].spec.name);
    await stop(engine);
  });
}

const load = (engine: Engine, model: EngineModel): Promise<LoadOutcome> =>
  new Promise((done) => engine.load(model, onlyOnce(done)));
const run = (engine: Engine, batch: EngineBatch): Promise<RunOutcome> =>
  new Promise((done) => engine.run(batch, onlyOnce(done)));
const unload = (engine: Engine, name: string): Promise<void> =>
  new Promise((done) => engine.unload(name, onlyOnce(done)));
const stop = (engine: Engine): Promise<void> => new Promise((done) => engine.stop(onlyOnce(done)));

/** Fails on a second call, which a promise would ignore. */
function onlyOnce<T>(done: (value: T) => void): (value: T) => void {
  let called = false;
  return (value) => {
    if (called) throw new Error("an engine answered twice");
    called = true;
    done(value);
  };
}

type Ran = Extract<RunOutcome, { kind: "ran" }>;
function ran(outcome: RunOutcome): Ran {
  expect(outcome.kind === "failed" ? outcome.reason : "ran").toBe("ran");
  return outcome as Ran;
}

/** Row `row` along `axis`, copied. It shares no code with the engines, so that both can't have the same fault. */
function rowOf(tensor: Tensor, axis: number, row: number): Tensor {
  const before = elementCount(tensor.dims.slice(0, axis));
  const bytes = elementCount(tensor.dims.slice(axis + 1)) * bytesOf(tensor.type);
  const rows = tensor.dims[axis] ?? 1;
  const pieces = Array.from({ length: before }, (_, i) =>
    tensor.data.subarray((i * rows + row) * bytes, (i * rows + row + 1) * bytes),
  );
  return {
    ...tensor,
    dims: tensor.dims.map((dim, i) => (i === axis ? 1 : dim)),
    data: new Uint8Array(Buffer.concat(pieces)),
  };
}

/** Compares tensors up to rounding: kernels of different batch sizes may add up in another order. */
function expectClose(actual: Tensor, expected: Tensor, rounding = 1e-5): void {
  expect([actual.name, actual.type, [...actual.dims]]).toEqual([expected.name, expected.type, [...expected.dims]]);
  if (actual.type !== "FP32") return expect(actual.data).toEqual(expected.data);
  const [a, b] = [new Float32Array(actual.data.slice().buffer), new Float32Array(expected.data.slice().buffer)];
  const scale = b.reduce((max, value) => Math.max(max, Math.abs(value)), 1e-6);
  const worst = a.reduce((max, value, i) => Math.max(max, Math.abs(value - (b[i] ?? NaN))), 0);
  expect(worst / scale).toBeLessThan(rounding);
}
