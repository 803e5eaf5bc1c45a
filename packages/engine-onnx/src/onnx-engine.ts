/**
 * The engine port over onnxruntime-node. This side keeps the bookkeeping on the caller's thread, and the session worker
 * computes, except for the batches of quick models (InlineModels), which run here.
 *
 *   ENGINE-1. Every `done` is called exactly once, never before its call has returned, also when the worker dies.
 *   ENGINE-2. The worker is never terminated: that would abort the process during a run. It ends itself, or the process
 *             does.
 *   ENGINE-3. Batches run one at a time, in the order given, on whichever thread.
 */
import { Worker } from "node:worker_threads";
import type { Engine, EngineBatch, EngineModel, LoadOutcome, RunOutcome } from "@tutti/ports/engine";
import { MODELS_MAX, type ModelSpec, type Tensor, TuttiError, executorType } from "@tutti/protocol";
import { assert } from "@tutti/units";
import { InlineModels, mayRunInline } from "./inline-models.ts";
import type { Provider, SessionSettings } from "./provider.ts";
import type { NoteOptions } from "./run-note.ts";
import { runSizesOfModel } from "./sessions.ts";
import type { WorkerOptions, WorkerReply, WorkerRequest } from "./worker-messages.ts";

/** Batches that wait in the worker; an executor needs two or three. Beyond, a batch fails at once. */
export const BATCHES_QUEUED_MAX = 64;
export const THREADS_MAX = 64;

export interface OnnxEngineOptions {
  readonly provider?: Provider;
  /** Threads of one run on a CPU. */
  readonly threads?: number;
  /** With CUDA: the GPU of this host, as nvidia-smi counts them. Default: 0. */
  readonly device?: number;
  /**
   * Percentage of the accelerator that this process has (by its cores, or by CUDA MPS). For a fraction its latencies
   * are a type's of their own. Default: 100.
   */
  readonly part?: number;
  /** Name of such accelerators in the executor type. Absent: they are taken as like all others of the provider. */
  readonly accelerator?: string | undefined;
  /** File of the worker's run note, which the process started after a crash reads. */
  readonly note?: NoteOptions;
}

/**
 * Starts the session worker and tries the provider.
 *
 * @throws {TuttiError} UNAVAILABLE when the provider doesn't work here, with what to install
 */
export async function startOnnxEngine({
  provider = "cpu",
  threads = 1,
  device = 0,
  part = 100,
  accelerator,
  note,
}: OnnxEngineOptions = {}): Promise<OnnxEngine> {
  assert(Number.isSafeInteger(threads) && threads >= 1 && threads <= THREADS_MAX, `${threads} threads`);
  // CUDA's own order is the fastest first, which nobody sees.
  if (provider === "cuda") process.env["CUDA_DEVICE_ORDER"] ??= "PCI_BUS_ID";
  const inline = new InlineModels({ provider, threads, device }, note);
  const workerData: WorkerOptions = { provider, threads, device, runs: inline.shared, ...(note && { note }) };
  const worker = new Worker(new URL("./session-worker.ts", import.meta.url), { workerData });
  const type = executorType(`onnx-${provider}`, { accelerator, part });
  const engine = new OnnxEngine({ worker, type, inline, settings: { provider, threads, device } });
  const problem = await engine.ready;
  if (problem === undefined) return engine;
  await new Promise<void>((stopped) => engine.stop(stopped));
  throw new TuttiError("TUTTI_UNAVAILABLE", problem, { retryable: false });
}

interface Waiting {
  readonly settle: (reply: WorkerReply) => void;
  /** Called when the worker is gone. */
  readonly fail: (reason: string) => void;
}

/** A batch that waits for its turn. */
interface QueuedBatch {
  /** Whether it runs on this thread. */
  readonly isHere: () => boolean;
  readonly start: () => void;
  readonly fail: (reason: string) => void;
}

export class OnnxEngine implements Engine {
  readonly type: string;
  readonly cold = true;
  /**
   * Memory of the process: a session keeps what its runs have taken, so its growth stays to be seen after a run. On a
   * GPU it says nothing.
   */
  readonly residentBytes?: () => number;
  /** Problem that keeps the provider from working, or undefined. */
  readonly ready: Promise<string | undefined>;
  readonly #worker: Worker;
  readonly #inline: InlineModels;
  readonly #settings: SessionSettings;
  /** By the models that run in certain sizes only. */
  readonly #runSizes = new Map<string, readonly number[]>();
  readonly #queue: QueuedBatch[] = [];
  /** Number of batches that the worker has. */
  #onWorker = 0;
  #isRunningHere = false;
  readonly #waiting = new Map<number, Waiting>();
  #id = 0;
  #batches = 0;
  /** Reason for refusing calls, once the worker is going or gone. */
  #closed: { readonly reason: string; readonly fault: boolean } | undefined;
  #exited = false;
  readonly #stopped: (() => void)[] = [];

  constructor(parts: {
    readonly worker: Worker;
    readonly type: string;
    readonly inline: InlineModels;
    readonly settings: SessionSettings;
  }) {
    const { worker } = parts;
    this.#worker = worker;
    this.type = parts.type;
    this.#inline = parts.inline;
    this.#settings = parts.settings;
    if (parts.settings.provider === "cpu") this.residentBytes = () => process.memoryUsage.rss();
    const { promise, resolve } = Promise.withResolvers<string | undefined>();
    this.ready = promise;
    let fault = "the session worker ended by itself";
    worker.on("message", (reply: WorkerReply) => {
      if (reply.kind === "ready") return resolve(reply.reason);
      const waiting = this.#waiting.get(reply.id);
      assert(waiting !== undefined, `the session worker answered ${reply.id} twice`);
      this.#waiting.delete(reply.id);
      waiting.settle(reply);
    });
    worker.on("error", (error) => (fault = `the session worker failed: ${error.message}`));
    worker.on("exit", () => {
      this.#exited = true;
      this.#closed ??= { reason: fault, fault: true };
      resolve(fault);
      const waiting = [...this.#waiting.values()];
      this.#waiting.clear();
      for (const { fail } of [...waiting, ...this.#queue.splice(0)]) fail(fault);
      for (const done of this.#stopped.splice(0)) done();
    });
  }

  load({ spec, bytes, samples }: EngineModel, done: (outcome: LoadOutcome) => void): void {
    const refuse = (reason: string, fault = false): void =>
      queueMicrotask(() => done({ kind: "failed", reason, ...(fault && { fault }) }));
    if (this.#closed !== undefined) return refuse(this.#closed.reason, this.#closed.fault);
    if (bytes === undefined) return refuse("an ONNX model needs its file");
    if (this.#waiting.size >= MODELS_MAX) return refuse("too many loads are under way");
    const fail = (reason: string): void => done({ kind: "failed", reason, fault: true });
    const own = new Uint8Array(bytes); // a copy: the caller's is borrowed (`slice` of a Buffer copies nothing)
    // A GPU's run can take any time, whatever a trial measures.
    const isTried = this.#settings.provider === "cpu" && mayRunInline(spec, bytes);
    const runSizes = runSizesOfModel(this.#settings, { bytes, batchSizeMax: spec.batchSizeMax });
    const settle = (reply: WorkerReply): void => {
      assert(reply.kind === "loaded", "a load is answered as a load");
      if (reply.outcome.kind === "failed") return done(reply.outcome);
      this.#runSizes.delete(spec.name);
      if (runSizes !== undefined) this.#runSizes.set(spec.name, runSizes);
      void this.#place(spec, reply.isQuick ? bytes : undefined).then(() => done(reply.outcome));
    };
    const id = this.#expect({ settle, fail });
    this.#post({ kind: "load", id, spec, bytes: own, samples, isTried }, [own.buffer]);
  }

  /** Whether a model's batches run on the caller's thread. */
  runsInline(name: string): boolean {
    return this.#inline.has(name);
  }

  /** Keeps a model that the worker has loaded on one thread only. @param bytes - of a quick model. Never rejects. */
  async #place(spec: ModelSpec, bytes: Uint8Array | undefined): Promise<void> {
    const { name } = spec;
    // If it can't be loaded here, the worker keeps it.
    const model = bytes && (await this.#inline.prepare(spec, bytes).catch(() => undefined));
    if (model === undefined && !this.#inline.has(name)) return;
    await new Promise<void>((resolve) => this.#betweenRuns(() => this.#inline.put(name, model), resolve));
    if (model === undefined || this.#closed !== undefined) return;
    const done = (): void => undefined;
    this.#post({ kind: "unload", id: this.#expect({ settle: done, fail: done }), name });
  }

  #betweenRuns(run: () => Promise<void>, done: () => void): void {
    this.#enqueue({ isHere: () => true, start: () => void this.#runHere(run, done), fail: done });
  }

  runSizes(model: string): readonly number[] | undefined {
    return this.#runSizes.get(model);
  }

  unload(name: string, done: () => void): void {
    this.#runSizes.delete(name);
    if (this.#closed !== undefined) return queueMicrotask(done);
    const fromWorker = (): void => this.#post({ kind: "unload", id: this.#expect({ settle: done, fail: done }), name });
    if (!this.#inline.has(name)) return fromWorker();
    this.#betweenRuns(() => this.#inline.put(name, undefined), done);
  }

  run(batch: EngineBatch, done: (outcome: RunOutcome) => void): void {
    const refuse = (reason: string, fault: boolean): void =>
      queueMicrotask(() => done({ kind: "failed", reason, fault }));
    if (this.#closed !== undefined) return refuse(this.#closed.reason, this.#closed.fault);
    if (this.#batches >= BATCHES_QUEUED_MAX) return refuse(`${BATCHES_QUEUED_MAX} batches are queued already`, false);
    const problem = problemOf(batch);
    if (problem !== undefined) return refuse(problem, false);

    this.#batches++;
    const end = (outcome: RunOutcome): void => {
      this.#batches--;
      done(outcome);
    };
    const fail = (reason: string): void => end({ kind: "failed", reason, fault: true });
    const { model, bucket, batchSize, inputs } = batch;
    const own: EngineBatch = { model, bucket, batchSize, inputs: inputs.map(taken) };
    const isHere = (): boolean => this.#inline.has(model);
    const start = (): void => {
      if (isHere()) void this.#runHere(() => this.#inline.run(own), end);
      else this.#runOnWorker(own, { end, fail });
    };
    this.#enqueue({ isHere, start, fail });
  }

  /** ENGINE-3: queues a batch. */
  #enqueue(batch: QueuedBatch): void {
    this.#queue.push(batch);
    this.#startDue();
  }
  #startDue(): void {
    for (let next = this.#queue[0]; next !== undefined; next = this.#queue[0]) {
      if (this.#isRunningHere || (next.isHere() && this.#onWorker > 0)) return;
      this.#queue.shift();
      next.start();
    }
  }

  async #runHere<T>(run: () => Promise<T>, done: (outcome: T) => void): Promise<void> {
    this.#isRunningHere = true;
    const outcome = await run();
    this.#isRunningHere = false;
    done(outcome);
    this.#startDue();
  }

  #runOnWorker(
    batch: EngineBatch,
    { end, fail }: { readonly end: (outcome: RunOutcome) => void; readonly fail: (reason: string) => void },
  ): void {
    this.#onWorker++;
    const settle = (reply: WorkerReply): void => {
      assert(reply.kind === "ran", "a run is answered as a run");
      this.#onWorker--;
      end(reply.outcome);
      this.#startDue();
    };
    const transfer = batch.inputs.map(({ data }) => data.buffer as ArrayBuffer);
    this.#post({ kind: "run", id: this.#expect({ settle, fail }), batch }, transfer);
  }

  stop(done: () => void): void {
    if (this.#exited) return queueMicrotask(done);
    this.#stopped.push(done);
    if (this.#closed !== undefined) return;
    this.#closed = { reason: "the engine was stopped", fault: false };
    this.#betweenRuns(
      () => this.#inline.close(),
      () => this.#post({ kind: "stop", id: 0 }),
    );
  }

  #expect(waiting: Waiting): number {
    this.#waiting.set(++this.#id, waiting);
    return this.#id;
  }

  #post(request: WorkerRequest, transfer: ArrayBuffer[] = []): void {
    this.#worker.postMessage(request, transfer);
  }
}

/** Transfers the input's buffer to this side. */
function taken(input: Tensor): Tensor {
  return { ...input, data: new Uint8Array((input.data.buffer as ArrayBuffer).transfer()) };
}

/** Problem that keeps inputs from being transferred, or undefined. */
function problemOf({ inputs }: EngineBatch): string | undefined {
  const buffers: ArrayBuffer[] = [];
  for (const { name, data } of inputs) {
    const { buffer } = data;
    if (!(buffer instanceof ArrayBuffer)) return `input '${name}' lies in shared memory, which can't be handed over`;
    if (buffer.detached) return `input '${name}' was handed over before`;
    if (buffer.byteLength !== data.byteLength)
      return `input '${name}' doesn't span its buffer, so it can't be handed over`;
    if (buffers.includes(buffer)) return `input '${name}' shares its buffer with another input`;
    buffers.push(buffer);
  }
  return undefined;
}
