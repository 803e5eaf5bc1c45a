/**
 * EmulatedEngine: an accelerator that sleeps. A batch takes l(b) of a given profile. Its outputs echo its inputs, so
 * that a test can match outputs with their inputs.
 *
 *   EMULATED-1. Batches run one at a time, in the order given, each for its latency. Every `done` is called once, never
 *               inside the call that it was given to. (The exception is a batch that a fault hangs: its `done` is never
 *               called, nor any after it.)
 *   EMULATED-2. Row r of every output is row r of input 0, repeated or cut to the output's length.
 *   EMULATED-3. At most `queueMax` batches wait; one more fails at once, and nothing else changes.
 */
import { BATCH_AXIS, type ModelSpec, type Tensor, bytesOf, fedInputs, rowDims, variantView } from "@tutti/protocol";
import { type Instant, type Micros, Prng, after, assert, between } from "@tutti/units";
import { latencyOfFamily, latencyOfPace } from "./emulated-pace.ts";
import type { Engine, EngineBatch, EngineModel, LoadOutcome, RowGroup, RunOutcome } from "./engine.ts";
import { gatherRows, groupsOf } from "./row-groups.ts";
import { runSizes } from "./run-sizes.ts";

/** The part of the clock port that an emulated accelerator needs. Ports don't import each other. */
export interface AlarmClock {
  now(): Instant;
  alarm(fire: () => void): { set(at: Instant): void };
}

/** Duration of one run, µs; undefined for an unknown model. It isn't called for a model whose spec has a pace. */
export type LatencyOf = (model: string, bucket: number, batchSize: number) => Micros | undefined;

/**
 * Fault of a batch, for tests. `rows`: rows fail, and if all do, the batch fails. `batch`: the batch fails. `hang`: it
 * never ends.
 */
export type EmulatedFault =
  | { readonly kind: "rows"; readonly failedRows: readonly { readonly row: number; readonly reason: string }[] }
  | { readonly kind: "batch"; readonly reason: string; readonly fault: boolean }
  | { readonly kind: "hang" };

export interface EmulatedEngineOptions {
  readonly clock: AlarmClock;
  readonly latency: LatencyOf;
  /** Each run takes latency × (1 ± spread), uniformly, drawn from `seed`; 0 ≤ spread < 1. */
  readonly jitter?: { readonly seed: number; readonly spread: number };
  /** Decides the fault as each batch starts; `runs` counts the batches started before it. */
  readonly fault?: (batch: EngineBatch, runs: number) => EmulatedFault | undefined;
  readonly queueMax?: number;
  /** Bytes that a run takes besides the weights, and that its model keeps. Default: not known. */
  readonly runBytes?: (model: string, batchSize: number) => number;
}

export const QUEUE_MAX = 64;

interface Job {
  readonly batch: EngineBatch;
  /** The model's spec when the batch was submitted: loading the name again doesn't change waiting batches. */
  readonly spec: ModelSpec | undefined;
  readonly done: (outcome: RunOutcome) => void;
}

export class EmulatedEngine implements Engine {
  readonly type = "emulated";
  readonly #clock: AlarmClock;
  readonly #latency: LatencyOf;
  readonly #jitter: { readonly prng: Prng; readonly spread: number } | undefined;
  readonly #fault: EmulatedEngineOptions["fault"];
  readonly #queueMax: number;
  readonly #models = new Map<string, ModelSpec>();
  readonly #queue: Job[] = [];
  /** Callbacks for when the queue's last batch of that model (undefined: any model) is done. */
  #idle: { readonly model: string | undefined; readonly done: () => void }[] = [];
  #soon: (() => void)[] = [];
  readonly #soonAlarm: { set(at: Instant): void };
  readonly #endAlarm: { set(at: Instant): void };
  #startedAt: Instant;
  #running: { readonly job: Job; readonly outcome: RunOutcome } | undefined;
  #stopped = false;
  #runs = 0;
  readonly #runBytes: EmulatedEngineOptions["runBytes"];
  readonly #kept = new Map<string, number>();
  readonly residentBytes?: () => number;

  constructor(options: EmulatedEngineOptions) {
    this.#clock = options.clock;
    this.#latency = options.latency;
    const { jitter } = options;
    assert(jitter === undefined || (jitter.spread >= 0 && jitter.spread < 1), "a jitter's spread is 0 ≤ spread < 1");
    this.#jitter = jitter && { prng: new Prng(jitter.seed), spread: jitter.spread };
    this.#fault = options.fault;
    this.#queueMax = options.queueMax ?? QUEUE_MAX;
    this.#runBytes = options.runBytes;
    if (options.runBytes !== undefined)
      this.residentBytes = () => [...this.#kept.values()].reduce((sum, bytes) => sum + bytes, 0);
    this.#startedAt = options.clock.now();
    this.#endAlarm = options.clock.alarm(() => this.#onEnd());
    this.#soonAlarm = options.clock.alarm(() => {
      const calls = this.#soon;
      this.#soon = [];
      for (const call of calls) call();
    });
  }

  load({ spec }: EngineModel, done: (outcome: LoadOutcome) => void): void {
    const reason = this.#stopped
      ? "the engine is stopped"
      : spec.pace === undefined && spec.family?.pace === undefined && this.#latency(spec.name, 0, 1) === undefined
        ? `no profile says how long ${spec.name} takes`
        : undefined;
    if (reason === undefined) this.#models.set(spec.name, spec);
    this.#callSoon(() => done(reason === undefined ? { kind: "loaded", memoryBytes: 0 } : { kind: "failed", reason }));
  }

  unload(name: string, done: () => void): void {
    this.#models.delete(name);
    this.#kept.delete(name);
    this.#whenIdle(name, done);
  }

  stop(done: () => void): void {
    this.#stopped = true;
    this.#models.clear();
    this.#whenIdle(undefined, done);
  }

  run(batch: EngineBatch, done: (outcome: RunOutcome) => void): void {
    const inputs = batch.inputs.map(taken);
    if (this.#stopped) return this.#fail(done, "the engine is stopped");
    if (this.#queue.length >= this.#queueMax) return this.#fail(done, `${this.#queueMax} batches wait already`);
    this.#queue.push({ batch: { ...batch, inputs }, spec: this.#models.get(batch.model), done });
    if (this.#running === undefined) this.#startNext();
  }

  #startNext(): void {
    const job = this.#queue.shift();
    if (job === undefined) return;
    this.#startedAt = this.#clock.now();
    const { batch, spec } = job;
    if (spec === undefined) {
      const outcome = { ...failed(`${batch.model} isn't loaded`, false), isUnloaded: true };
      return this.#runFor(0 as Micros, job, outcome);
    }
    const problem = problemOf(spec, batch);
    if (problem !== undefined) return this.#runFor(0 as Micros, job, failed(problem, false));
    const run = this.#latencyOf(spec, batch);
    if (run === undefined) {
      return this.#runFor(0 as Micros, job, failed(`no profile for ${batch.model} at ${batch.batchSize}`, false));
    }
    const fault = this.#fault?.(batch, this.#runs);
    this.#runs++;
    if (this.#runBytes !== undefined) {
      const bytes = this.#runBytes(batch.model, batch.batchSize);
      this.#kept.set(batch.model, Math.max(bytes, this.#kept.get(batch.model) ?? 0));
    }
    switch (fault?.kind) {
      case "hang":
        this.#running = { job, outcome: failed("hung", true) };
        return;
      case "batch":
        return this.#runFor(run, job, failed(fault.reason, fault.fault));
      default: {
        const failedRows = fault?.failedRows ?? [];
        const [first] = failedRows;
        if (first !== undefined && failedRows.length >= batch.batchSize) {
          return this.#runFor(run, job, failed(first.reason, false));
        }
        return this.#runFor(run, job, { kind: "ran", run, ...answerOf(spec, batch), failedRows });
      }
    }
  }

  #runFor(run: Micros, job: Job, outcome: RunOutcome): void {
    this.#running = { job, outcome };
    this.#endAlarm.set(after(this.#startedAt, run));
  }

  #onEnd(): void {
    const running = this.#running;
    if (running === undefined) return;
    const run = between(this.#startedAt, this.#clock.now());
    this.#running = undefined;
    // Start the next batch before this one is reported: an accelerator doesn't wait for its process.
    this.#startNext();
    const { outcome } = running;
    running.job.done(outcome.kind === "ran" ? { ...outcome, run } : outcome);
    this.#reportIdle();
  }

  #latencyOf({ pace, family }: ModelSpec, batch: EngineBatch): Micros | undefined {
    const { model, bucket, batchSize } = batch;
    const latency =
      family?.pace !== undefined
        ? latencyOfFamily(family.pace, batchSize, groupsOf(batch))
        : pace === undefined
          ? this.#latency(model, bucket, batchSize)
          : latencyOfPace(pace, batch);
    if (latency === undefined || this.#jitter === undefined) return latency;
    const { prng, spread } = this.#jitter;
    return Math.round(latency * (1 + spread * (2 * prng.nextFloat() - 1))) as Micros;
  }

  #whenIdle(model: string | undefined, done: () => void): void {
    this.#idle.push({ model, done });
    this.#callSoon(() => this.#reportIdle());
  }
  #reportIdle(): void {
    if (this.#idle.length === 0) return;
    const isBusy = (model: string | undefined): boolean =>
      model === undefined
        ? this.#running !== undefined || this.#queue.length > 0
        : this.#running?.job.batch.model === model || this.#queue.some(({ batch }) => batch.model === model);
    const ready = this.#idle.filter(({ model }) => !isBusy(model));
    this.#idle = this.#idle.filter(({ model }) => isBusy(model));
    for (const { done } of ready) done();
  }

  #fail(done: (outcome: RunOutcome) => void, reason: string): void {
    this.#callSoon(() => done(failed(reason, false)));
  }
  #callSoon(call: () => void): void {
    this.#soon.push(call);
    this.#soonAlarm.set(this.#clock.now());
  }
}

const failed = (reason: string, fault: boolean): RunOutcome => ({ kind: "failed", reason, fault });

/**
 * Detaches the caller's buffer, as a transfer to another thread would. So code that reads it afterwards already fails
 * here.
 */
function taken(tensor: Tensor): Tensor {
  const { buffer, byteOffset, byteLength } = tensor.data;
  assert(buffer instanceof ArrayBuffer, "inputs are transferred, and shared memory can't be");
  assert(byteOffset === 0 && byteLength === buffer.byteLength, `input ${tensor.name} spans its own buffer`);
  return { ...tensor, data: new Uint8Array(buffer.transfer()) };
}

/**
 * Reason why the batch can't run, or undefined. An engine checks the lengths itself: a wrong length here would give
 * wrong answers.
 */
function problemOf(spec: ModelSpec, batch: EngineBatch): string | undefined {
  const bucket = spec.buckets[batch.bucket];
  if (bucket === undefined) return `${spec.name} has no bucket ${batch.bucket}`;
  if (!(batch.batchSize >= 1 && batch.batchSize <= spec.batchSizeMax)) {
    return `${spec.name} takes batches of 1 to ${spec.batchSizeMax}, not of ${batch.batchSize}`;
  }
  const taken = fedInputs(spec);
  if (batch.inputs.length !== taken.length) {
    return `${spec.name} takes ${taken.length} inputs, not ${batch.inputs.length}`;
  }
  const sizes = runSizes(spec, batch);
  for (const [i, expected] of taken.entries()) {
    const { name, type, dims, data } = batch.inputs[i] ?? { name: "", type: "", dims: [], data: undefined };
    const axis = expected.dims.indexOf(BATCH_AXIS);
    const whole = rowDims(expected, sizes).map((dim, at) => (at === axis ? batch.batchSize : dim));
    if (name !== expected.name || type !== expected.type || dims.join() !== whole.join()) {
      return `input ${i} of ${spec.name} is ${expected.name} ${expected.type} [${whole.join()}], not ${name} ${type} [${dims.join()}]`;
    }
    const bytes = whole.reduce((product, dim) => product * dim, bytesOf(expected.type));
    if (data?.byteLength !== bytes) return `input ${name} of ${spec.name} has ${data?.byteLength} bytes, not ${bytes}`;
  }
  return undefined;
}

/**
 * Layout of a batch's rows in a tensor. Row r is `outer` pieces of `inner` bytes, each at ((piece · rows) + r) · inner.
 */
interface RowStride {
  readonly outer: number;
  readonly inner: number;
}
function rowStride(dims: readonly number[], axis: number, elementBytes: number): RowStride {
  const product = (part: readonly number[]): number => part.reduce((size, dim) => size * dim, 1);
  return { outer: product(dims.slice(0, axis)), inner: product(dims.slice(axis + 1)) * elementBytes };
}

/** Outputs of a batch. For a family, they are each variant's, over that variant's rows. */
function answerOf(
  spec: ModelSpec,
  batch: EngineBatch,
): { readonly outputs: readonly Tensor[]; readonly groups?: readonly RowGroup[] } {
  if (spec.family === undefined) return { outputs: echo(spec, batch) };
  const [first] = spec.inputs;
  const [input] = batch.inputs;
  const axis = first?.dims.indexOf(BATCH_AXIS) ?? 0;
  const groups = groupsOf(batch).filter(({ variant }) => variant < spec.family!.variants.length);
  return {
    outputs: [],
    groups: groups.map(({ variant, rows }) => {
      const part = {
        ...batch,
        batchSize: rows.length,
        inputs: input === undefined ? [] : [gatherRows(input, axis, rows)],
      };
      return { variant, rows, outputs: echo(variantView(spec, variant), part) };
    }),
  };
}

/**
 * Echoes input 0 into every output (EMULATED-2). An output axis that neither a bucket nor an input names has size 1. An
 * output without a batch axis belongs to no row and is zeros.
 */
function echo(spec: ModelSpec, batch: EngineBatch): Tensor[] {
  const { batchSize, inputs } = batch;
  const sizes = runSizes(spec, batch);
  const source = spec.inputs[0];
  const sourceAxis = source?.dims.indexOf(BATCH_AXIS) ?? -1;
  const data = inputs[0]?.data;
  return spec.outputs.map((output) => {
    const rowOf = rowDims(output, sizes).map((dim) => (dim < 0 ? 1 : dim));
    const axis = output.dims.indexOf(BATCH_AXIS);
    const dims = rowOf.map((dim, i) => (i === axis ? batchSize : dim));
    const bytes = new Uint8Array(dims.reduce((product, dim) => product * dim, bytesOf(output.type)));
    if (axis >= 0 && sourceAxis >= 0 && source !== undefined && data !== undefined && data.byteLength > 0) {
      const from = rowStride(rowDims(source, sizes), sourceAxis, bytesOf(source.type));
      copyRows(data, from, bytes, rowStride(rowOf, axis, bytesOf(output.type)), batchSize);
    }
    return { name: output.name, type: output.type, dims, data: bytes };
  });
}

function copyRows(source: Uint8Array, from: RowStride, target: Uint8Array, to: RowStride, rows: number): void {
  const plain = from.outer === 1 && to.outer === 1;
  if (plain && from.inner === to.inner) return target.set(source);
  for (let row = 0; row < rows; row++) {
    if (plain) {
      const piece = source.subarray(row * from.inner, row * from.inner + Math.min(from.inner, to.inner));
      const end = (row + 1) * to.inner;
      for (let at = row * to.inner; at < end; at += piece.length) target.set(piece.subarray(0, end - at), at);
      continue;
    }
    for (let at = 0; at < to.outer * to.inner; at++) {
      const read = at % (from.outer * from.inner);
      const readAt = (Math.floor(read / from.inner) * rows + row) * from.inner + (read % from.inner);
      const writeAt = (Math.floor(at / to.inner) * rows + row) * to.inner + (at % to.inner);
      target[writeAt] = source[readAt] ?? 0;
    }
  }
}
