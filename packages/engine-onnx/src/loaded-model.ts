/**
 * One model in the session worker: its session, its constants, and the runs of its batches.
 *
 *   SESSION-1. A batch that fails as a whole is run again by halves, so that one bad item never fails its neighbours,
 *              and costs them not one run each but about two of the whole: under full deferral they have no time to
 *              spare.
 *   SESSION-2. `run` returns exactly one row per item of the batch, in their order.
 */
import type { EngineBatch, RunOutcome } from "@tutti/ports/engine";
import { BATCH_AXIS, type ModelSpec, type Tensor, fedInputs } from "@tutti/protocol";
import { type Micros, micros } from "@tutti/units";
import type ort from "onnxruntime-node";
import { emptyBatch, putRows, rowShape, takeRows } from "./batch-rows.ts";
import { CheckBudget } from "./check-budget.ts";
import { relativeDifference } from "./comparison.ts";
import { LoadRefusal, checkSelfContained, checkSha256, constantsOf, since, textOf } from "./load-refusal.ts";
import { paddingDifference } from "./padding-check.ts";
import { type SessionSettings, differenceMax } from "./provider.ts";
import { type Draw, randomBatch } from "./random-batch.ts";
import { roundingOf } from "./rounding.ts";
import { rowInfluence } from "./row-check.ts";
import type { Row } from "./row-pairs.ts";
import { cutBack, filledUp } from "./run-sizes.ts";
import { Sessions } from "./sessions.ts";
import { batchProblem, signatureProblem } from "./signature.ts";
import { fromOrt, toOrt } from "./tensor-types.ts";

export interface LoadOptions {
  readonly spec: ModelSpec;
  readonly bytes: Uint8Array;
  readonly settings: SessionSettings;
  readonly samples?: readonly Row[] | undefined;
  /** Another thread has loaded it, and found it good. */
  readonly isChecked?: boolean;
}

export class LoadedModel {
  readonly spec: ModelSpec;
  readonly #sessions: Sessions;
  readonly #constants: Readonly<Record<string, ort.Tensor>>;
  readonly #fetches: readonly string[];
  readonly #provider: string;
  /** The axis of the rows in each input. */
  readonly #axes: readonly number[];
  /** How long the longest run of one row took in the checks. */
  slowestRow: Micros = micros(0);

  private constructor(spec: ModelSpec, sessions: Sessions, provider: string) {
    this.spec = spec;
    this.#sessions = sessions;
    this.#provider = provider;
    this.#fetches = spec.outputs.map(({ name }) => name);
    this.#axes = fedInputs(spec).map(({ dims }) => dims.indexOf(BATCH_AXIS));
    this.#constants = constantsOf(spec);
  }

  /**
   * Loads a model. Checks the file's sha256 (onnxruntime loads flipped bytes in the weights without an error) and that
   * no tensor lies outside the file, makes the session, compares file and spec, looks whether padding or other rows
   * change results, and compares outputs of another provider with the CPU's.
   *
   * @throws {LoadRefusal}
   */
  static async load({ spec, bytes, settings, samples, isChecked }: LoadOptions): Promise<LoadedModel> {
    checkSha256(spec, bytes);
    checkSelfContained(bytes);
    const model = await LoadedModel.#create(spec, bytes, settings);
    if (isChecked === true) return model;
    try {
      const budget = new CheckBudget();
      const run = budget.bound((inputs, rows) => model.#outputsOf(inputs, rows));
      const padding = await paddingDifference(spec, run);
      if (padding !== undefined) throw new LoadRefusal(padding);
      // Before rows are compared: what a provider computes wrongly isn't the model's fault.
      if (settings.provider !== "cpu") await model.#compareWithCpu(bytes, settings);
      const tried = { spec, bytes, provider: settings.provider, ...(samples !== undefined && { samples }) };
      const influence = await rowInfluence(tried, run);
      if (influence !== undefined) throw new LoadRefusal(influence);
      // The first run on a GPU may compile for as long.
      const slowness = settings.provider === "cpu" ? budget.slownessUnder(spec) : undefined;
      if (slowness !== undefined) throw new LoadRefusal(slowness);
      model.slowestRow = budget.slowestRow;
    } catch (error) {
      await model.release();
      throw error;
    }
    return model;
  }

  static async #create(spec: ModelSpec, bytes: Uint8Array, settings: SessionSettings): Promise<LoadedModel> {
    let sessions: Sessions;
    try {
      sessions = await Sessions.create({ bytes, settings, batchSizeMax: spec.batchSizeMax });
    } catch (cause) {
      throw new LoadRefusal(`onnxruntime can't load the file: ${textOf(cause)}`, { cause });
    }
    const problem = signatureProblem(spec, sessions.first.inputMetadata, sessions.first.outputMetadata);
    if (problem === undefined) return new LoadedModel(spec, sessions, settings.provider);
    await sessions.release();
    throw new LoadRefusal(problem);
  }

  /**
   * Compares outputs with the CPU's on every bucket. A provider can be wrong on some operators (WebGPU is, for
   * convolutions with 6 or 9 channels).
   */
  async #compareWithCpu(bytes: Uint8Array, settings: SessionSettings): Promise<void> {
    const cpu = await LoadedModel.#create(this.spec, bytes, { ...settings, provider: "cpu" });
    try {
      for (const bucket of this.spec.buckets.keys()) {
        const differenceOf = (draw?: Draw): Promise<number> => this.#differenceFrom(cpu, { bucket, draw, settings });
        let difference = await differenceOf();
        let most = differenceMax(settings.provider);
        if (difference > most) most = roundingOf(this.spec, bytes, most); // only now: it reads the whole file
        // Integers of 0 and 1 may be nearly alike to a model, which then amplifies rounding.
        if (difference > most) difference = Math.min(difference, await differenceOf("text").catch(() => Infinity));
        if (difference <= most) continue;
        const share = difference.toPrecision(2);
        throw new LoadRefusal(
          `the ${settings.provider} provider computes this model wrongly: its outputs are ${share} away from the CPU's ` +
            `(at most ${most}); serve it with --provider cpu`,
        );
      }
    } finally {
      await cpu.release();
    }
  }

  /** The difference of outputs from the CPU's. @throws {LoadRefusal} one of both can't run the rows */
  async #differenceFrom(
    cpu: LoadedModel,
    {
      bucket,
      draw = "small",
      settings,
    }: { readonly bucket: number; readonly draw: Draw | undefined; readonly settings: SessionSettings },
  ): Promise<number> {
    const batchSize = bucket === 0 ? Math.min(3, this.spec.batchSizeMax) : 1;
    const batch = randomBatch(this.spec, { bucket, batchSize, seed: bucket + 1, draw });
    const expected = await cpu.#outputsOf(batch.inputs, batchSize).catch((cause: unknown) => {
      throw new LoadRefusal(
        `the CPU can't run the model on random inputs, so ${settings.provider} can't be checked: ${textOf(cause)}`,
      );
    });
    const actual = await this.#outputsOf(batch.inputs, batchSize).catch((cause: unknown) => {
      throw new LoadRefusal(`the ${settings.provider} provider can't run the model: ${textOf(cause)}`);
    });
    return relativeDifference(expected, actual);
  }

  /** Runs a batch. The time of `run` covers repeated rows too: for that long the accelerator was busy. */
  async run(batch: EngineBatch): Promise<RunOutcome> {
    const problem = batchProblem(this.spec, batch);
    if (problem !== undefined) return { kind: "failed", reason: `${this.spec.name}: ${problem}`, fault: false };
    const start = process.hrtime.bigint();
    let outputs: readonly Tensor[];
    try {
      outputs = await this.#outputsOf(batch.inputs, batch.batchSize);
    } catch (error) {
      const reason = textOf(error);
      if (this.#provider !== "cpu" && /device.{0,20}lost/i.test(reason)) return { kind: "failed", reason, fault: true };
      if (batch.batchSize === 1) return { kind: "failed", reason, fault: false };
      return this.#runParts(batch, start, reason);
    }
    const wrong = this.#rowProblem(outputs, batch.batchSize);
    if (wrong !== undefined) return { kind: "failed", reason: wrong, fault: false };
    return { kind: "ran", run: since(start), outputs, failedRows: [] };
  }

  /** SESSION-1: runs a failed batch by halves. */
  async #runParts(batch: EngineBatch, start: bigint, whole: string): Promise<RunOutcome> {
    const { batchSize } = batch;
    const merging = new MergedRows(
      this.spec.outputs.map(({ dims }) => dims.indexOf(BATCH_AXIS)),
      batchSize,
    );
    const failedRows: { row: number; reason: string }[] = [];
    const half = Math.ceil(batchSize / 2);
    const parts = [
      { from: half, count: batchSize - half },
      { from: 0, count: half },
    ];
    for (let part = parts.pop(); part !== undefined; part = parts.pop()) {
      const { from, count } = part;
      try {
        const inputs = batch.inputs.map((input, i) => takeRows(input, this.#axes[i]!, from, count));
        const outputs = await this.#outputsOf(inputs, count);
        const wrong = this.#rowProblem(outputs, count) ?? merging.put(from, outputs);
        if (wrong !== undefined) throw new Error(wrong);
      } catch (error) {
        const left = Math.ceil(count / 2);
        if (count === 1) failedRows.push({ row: from, reason: textOf(error) });
        else parts.push({ from: from + left, count: count - left }, { from, count: left });
      }
    }
    if (merging.outputs === undefined) return { kind: "failed", reason: failedRows[0]?.reason ?? whole, fault: false };
    return { kind: "ran", run: since(start), outputs: merging.outputs, failedRows };
  }

  async #outputsOf(inputs: readonly Tensor[], batchSize: number): Promise<Tensor[]> {
    const rows = this.#sessions.rowsOf(batchSize);
    const feeds: Record<string, ort.Tensor> = { ...this.#constants };
    for (const [i, input] of inputs.entries()) feeds[input.name] = toOrt(filledUp(input, this.#axes[i]!, rows));
    const session = await this.#sessions.of(rows);
    const results = await session.run(feeds, this.#fetches, { logSeverityLevel: 4 });
    return this.spec.outputs.map(({ name, dims }) => {
      const output = fromOrt(name, results[name] as ort.Tensor);
      return cutBack(output, dims.indexOf(BATCH_AXIS), { rows, batchSize });
    });
  }

  /**
   * SESSION-2: finds an output whose rows do not match. A model that folds its batch would return one publisher's
   * answer to another.
   */
  #rowProblem(outputs: readonly Tensor[], batchSize: number): string | undefined {
    for (const [i, { name, dims }] of this.spec.outputs.entries()) {
      const axis = dims.indexOf(BATCH_AXIS);
      const found = (outputs[i] as Tensor).dims;
      const agrees = (size: number, at: number): boolean =>
        at === axis ? size === batchSize : typeof dims[at] === "string" || size === dims[at];
      if (found.length !== dims.length || !found.every(agrees)) {
        return (
          `output '${name}' is [${found.join(", ")}] for a batch of ${batchSize}, and was declared [${dims.join(", ")}]: ` +
          "if the file declares it wrongly, write the right one as its dims below output in config.yaml"
        );
      }
    }
    return undefined;
  }

  async release(): Promise<void> {
    await this.#sessions.release();
  }
}

/** The merged outputs of a batch that ran in parts. */
class MergedRows {
  outputs: Tensor[] | undefined;
  readonly #axes: readonly number[];
  readonly #rows: number;
  #shape = "";

  constructor(axes: readonly number[], rows: number) {
    this.#axes = axes;
    this.#rows = rows;
  }

  /** @returns why the part does not fit the others */
  put(from: number, part: readonly Tensor[]): string | undefined {
    const shape = part.map((output, i) => rowShape(output, this.#axes[i] as number)).join(" ");
    if (this.outputs === undefined) {
      this.outputs = part.map((output, i) => emptyBatch(output, this.#axes[i] as number, this.#rows));
      this.#shape = shape;
    }
    if (shape !== this.#shape) return `its outputs are ${shape}, those of its batch ${this.#shape}`;
    for (const [i, output] of part.entries()) putRows(this.outputs[i] as Tensor, this.#axes[i] as number, from, output);
    return undefined;
  }
}
