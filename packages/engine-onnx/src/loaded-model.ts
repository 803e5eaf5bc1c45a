/**
 * One model in the session worker: its session, its constants, and how a batch of it runs.
 *
 *   L1. A batch that fails as a whole is run again row by row, so that one bad item never fails its neighbours.
 *   L2. What `run` returns has exactly one row per item of the batch, in their order.
 */
import { createHash } from "node:crypto";
import type { EngineBatch, RunOutcome } from "@tutti/engine";
import { BATCH_AXIS, type ModelSpec, type Tensor } from "@tutti/protocol";
import { type Micros, micros } from "@tutti/units";
import ort from "onnxruntime-node";
import { emptyBatch, putRow, takeRow } from "./batch-rows.ts";
import { DIFFERENCE_MAX, relativeDifference } from "./comparison.ts";
import { type SessionSettings, sessionOptions } from "./provider.ts";
import { randomBatch } from "./random-batch.ts";
import { batchProblem, signatureProblem } from "./signature.ts";
import { bytesFrom, fromOrt, toOrt } from "./tensor-types.ts";

/** Why a model can't be loaded, in words for the one who asked for it. */
export class LoadRefusal extends Error {
  override readonly name = "LoadRefusal";
}

export interface LoadOptions {
  readonly spec: ModelSpec;
  readonly bytes: Uint8Array;
  readonly settings: SessionSettings;
}

export class LoadedModel {
  readonly spec: ModelSpec;
  readonly #session: ort.InferenceSession;
  readonly #constants: Readonly<Record<string, ort.Tensor>>;
  readonly #fetches: readonly string[];
  readonly #provider: string;

  private constructor(spec: ModelSpec, session: ort.InferenceSession, provider: string) {
    this.spec = spec;
    this.#session = session;
    this.#provider = provider;
    this.#fetches = spec.outputs.map(({ name }) => name);
    this.#constants = Object.fromEntries(
      spec.constants.map((constant) => [
        constant.name,
        toOrt({ ...constant, data: bytesFrom(constant.type, constant.values) }),
      ]),
    );
  }

  /**
   * Checks the file's sha256 (a flipped byte in the weights loads in silence), makes the session, compares file and spec, and on
   * another provider than the CPU compares outputs with the CPU's.
   *
   * @throws {LoadRefusal}
   */
  static async load({ spec, bytes, settings }: LoadOptions): Promise<LoadedModel> {
    const found = createHash("sha256").update(bytes).digest("hex");
    if (found !== spec.file?.sha256) {
      const expected = spec.file?.sha256 ?? "none: the spec has no file";
      throw new LoadRefusal(`the file has sha256 ${found}, the spec ${expected}: load the model again`);
    }
    const model = await LoadedModel.#create(spec, bytes, settings);
    if (settings.provider === "cpu") return model;
    try {
      await model.#compareWithCpu(bytes, settings);
    } catch (error) {
      await model.release();
      throw error;
    }
    return model;
  }

  static async #create(spec: ModelSpec, bytes: Uint8Array, settings: SessionSettings): Promise<LoadedModel> {
    let session: ort.InferenceSession;
    try {
      session = await ort.InferenceSession.create(bytes, sessionOptions(settings));
    } catch (cause) {
      throw new LoadRefusal(`onnxruntime can't load the file: ${textOf(cause)}`, { cause });
    }
    const problem = signatureProblem(spec, session.inputMetadata, session.outputMetadata);
    if (problem === undefined) return new LoadedModel(spec, session, settings.provider);
    await session.release();
    throw new LoadRefusal(problem);
  }

  /** A provider can be wrong on some operators (WebGPU is, for convolutions with 6 or 9 channels), so it is tried on every bucket. */
  async #compareWithCpu(bytes: Uint8Array, settings: SessionSettings): Promise<void> {
    const cpu = await LoadedModel.#create(this.spec, bytes, { ...settings, provider: "cpu" });
    try {
      for (const bucket of this.spec.buckets.keys()) {
        const batchSize = bucket === 0 ? Math.min(3, this.spec.batchSizeMax) : 1;
        const batch = randomBatch(this.spec, { bucket, batchSize, seed: bucket + 1 });
        const expected = await cpu.#outputsOf(batch.inputs).catch((cause: unknown) => {
          throw new LoadRefusal(
            `the CPU can't run the model on random inputs, so ${settings.provider} can't be checked: ${textOf(cause)}`,
          );
        });
        const actual = await this.#outputsOf(batch.inputs).catch((cause: unknown) => {
          throw new LoadRefusal(`the ${settings.provider} provider can't run the model: ${textOf(cause)}`);
        });
        const difference = relativeDifference(expected, actual);
        if (difference <= DIFFERENCE_MAX) continue;
        const share = difference.toPrecision(2);
        throw new LoadRefusal(
          `the ${settings.provider} provider computes this model wrongly: its outputs are ${share} away from the CPU's ` +
            `(at most ${DIFFERENCE_MAX}); serve it with --provider cpu`,
        );
      }
    } finally {
      await cpu.release();
    }
  }

  /** `run` counts everything that the batch cost, repeated rows included: for that long the accelerator was taken. */
  async run(batch: EngineBatch): Promise<RunOutcome> {
    const problem = batchProblem(this.spec, batch);
    if (problem !== undefined) return { kind: "failed", reason: `${this.spec.name}: ${problem}`, fault: false };
    const start = process.hrtime.bigint();
    let outputs: readonly Tensor[];
    try {
      outputs = await this.#outputsOf(batch.inputs);
    } catch (error) {
      const reason = textOf(error);
      if (this.#provider !== "cpu" && /device.{0,20}lost/i.test(reason)) return { kind: "failed", reason, fault: true };
      if (batch.batchSize === 1) return { kind: "failed", reason, fault: false };
      return this.#runRows(batch, start);
    }
    const wrong = this.#rowProblem(outputs, batch.batchSize);
    if (wrong !== undefined) return { kind: "failed", reason: wrong, fault: false };
    return { kind: "ran", run: since(start), outputs, failedRows: [] };
  }

  /** L1. */
  async #runRows(batch: EngineBatch, start: bigint): Promise<RunOutcome> {
    const failedRows: { row: number; reason: string }[] = [];
    const axes = this.spec.inputs.map(({ dims }) => dims.indexOf(BATCH_AXIS));
    const outputAxes = this.spec.outputs.map(({ dims }) => dims.indexOf(BATCH_AXIS));
    let merged: Tensor[] | undefined;
    let firstDims = "";
    for (let row = 0; row < batch.batchSize; row++) {
      try {
        const one = batch.inputs.map((input, i) => takeRow(input, axes[i] as number, row));
        const outputs = await this.#outputsOf(one);
        const wrong = this.#rowProblem(outputs, 1);
        if (wrong !== undefined) throw new Error(wrong);
        const dims = outputs.map((output) => output.dims.join("×")).join(" ");
        if (merged === undefined) {
          merged = outputs.map((output, i) => emptyBatch(output, outputAxes[i] as number, batch.batchSize));
          firstDims = dims;
        }
        if (dims !== firstDims) throw new Error(`its outputs are ${dims}, those of its batch ${firstDims}`);
        for (const [i, output] of outputs.entries()) putRow(merged[i] as Tensor, outputAxes[i] as number, row, output);
      } catch (error) {
        failedRows.push({ row, reason: textOf(error) });
      }
    }
    if (merged === undefined)
      return { kind: "failed", reason: failedRows[0]?.reason ?? "no row could run", fault: false };
    return { kind: "ran", run: since(start), outputs: merged, failedRows };
  }

  async #outputsOf(inputs: readonly Tensor[]): Promise<Tensor[]> {
    const feeds: Record<string, ort.Tensor> = { ...this.#constants };
    for (const input of inputs) feeds[input.name] = toOrt(input);
    const results = await this.#session.run(feeds, this.#fetches, { logSeverityLevel: 4 });
    return this.#fetches.map((name) => fromOrt(name, results[name] as ort.Tensor));
  }

  /** L2: a model that folds its batch would hand one publisher's answer to another. */
  #rowProblem(outputs: readonly Tensor[], batchSize: number): string | undefined {
    for (const [i, { name, dims }] of this.spec.outputs.entries()) {
      const axis = dims.indexOf(BATCH_AXIS);
      const found = (outputs[i] as Tensor).dims;
      if (found.length !== dims.length || (axis >= 0 && found[axis] !== batchSize)) {
        return `output '${name}' is [${found.join(", ")}] for a batch of ${batchSize}, and was declared [${dims.join(", ")}]`;
      }
    }
    return undefined;
  }

  async release(): Promise<void> {
    await this.#session.release();
  }
}

export const textOf = (error: unknown): string => (error instanceof Error ? error.message : String(error));

/** Rounded up: a latency that is rounded down makes a deadline that can't be met look possible. */
const since = (start: bigint): Micros => micros(Number((process.hrtime.bigint() - start + 999n) / 1000n));
