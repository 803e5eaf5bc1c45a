/**
 * The engine port over onnxruntime-node: this side keeps the bookkeeping on the caller's thread, the session worker computes.
 *
 *   E1. Every `done` is called exactly once, never before its call has returned, also when the worker dies.
 *   E2. The worker is never terminated: that would abort the process during a run. It ends itself, or the process does.
 */
import { Worker } from "node:worker_threads";
import type { Engine, EngineBatch, EngineModel, LoadOutcome, RunOutcome } from "@tutti/engine";
import { MODELS_MAX, TuttiError } from "@tutti/protocol";
import { assert } from "@tutti/units";
import type { Provider } from "./provider.ts";
import type { NoteOptions } from "./run-note.ts";
import type { WorkerOptions, WorkerReply, WorkerRequest } from "./worker-messages.ts";

/** Batches that wait in the worker; an executor needs two or three. Beyond, a batch fails at once. */
export const BATCHES_QUEUED_MAX = 64;
export const THREADS_MAX = 64;

export interface OnnxEngineOptions {
  readonly provider?: Provider;
  /** Threads of one run on a CPU. */
  readonly threads?: number;
  /** In percent of the accelerator, where this process has only a part of it (by its cores, or by CUDA MPS): its latencies are a type's of their own. Default: 100. */
  readonly part?: number;
  /** Where the worker says what it is doing, for whoever is started after a crash. */
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
  part = 100,
  note,
}: OnnxEngineOptions = {}): Promise<Engine> {
  assert(Number.isSafeInteger(threads) && threads >= 1 && threads <= THREADS_MAX, `${threads} threads`);
  const workerData: WorkerOptions = { provider, threads, ...(note && { note }) };
  const worker = new Worker(new URL("./session-worker.ts", import.meta.url), { workerData });
  const engine = new OnnxEngine(worker, part === 100 ? `onnx-${provider}` : `onnx-${provider}-${part}`);
  const problem = await engine.ready;
  if (problem === undefined) return engine;
  await new Promise<void>((stopped) => engine.stop(stopped));
  throw new TuttiError("TUTTI_UNAVAILABLE", problem, { retryable: false });
}

interface Waiting {
  readonly settle: (reply: WorkerReply) => void;
  /** The worker is gone. */
  readonly fail: (reason: string) => void;
}

class OnnxEngine implements Engine {
  readonly type: string;
  readonly cold = true;
  /** What keeps the provider from working, or undefined. */
  readonly ready: Promise<string | undefined>;
  readonly #worker: Worker;
  readonly #waiting = new Map<number, Waiting>();
  #id = 0;
  #batches = 0;
  /** Why nothing more is accepted, once the worker is going or gone. */
  #closed: { readonly reason: string; readonly fault: boolean } | undefined;
  #exited = false;
  readonly #stopped: (() => void)[] = [];

  constructor(worker: Worker, type: string) {
    this.#worker = worker;
    this.type = type;
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
      for (const { fail } of waiting) fail(fault);
      for (const done of this.#stopped.splice(0)) done();
    });
  }

  load({ spec, bytes }: EngineModel, done: (outcome: LoadOutcome) => void): void {
    const refuse = (reason: string, fault = false): void =>
      queueMicrotask(() => done({ kind: "failed", reason: `${spec.name}: ${reason}`, ...(fault && { fault }) }));
    if (this.#closed !== undefined) return refuse(this.#closed.reason, this.#closed.fault);
    if (bytes === undefined) return refuse("an ONNX model needs its file");
    if (this.#waiting.size >= MODELS_MAX) return refuse("too many loads are under way");
    const fail = (reason: string): void => done({ kind: "failed", reason: `${spec.name}: ${reason}`, fault: true });
    const own = new Uint8Array(bytes); // a copy, since the caller's is borrowed (`slice` of a Buffer copies nothing)
    const settle = (reply: WorkerReply): void => {
      assert(reply.kind === "loaded", "a load is answered as a load");
      done(reply.outcome);
    };
    this.#post({ kind: "load", id: this.#expect({ settle, fail }), spec, bytes: own }, [own.buffer]);
  }

  unload(name: string, done: () => void): void {
    if (this.#closed !== undefined) return queueMicrotask(done);
    this.#post({ kind: "unload", id: this.#expect({ settle: done, fail: done }), name });
  }

  run(batch: EngineBatch, done: (outcome: RunOutcome) => void): void {
    const refuse = (reason: string, fault: boolean): void =>
      queueMicrotask(() => done({ kind: "failed", reason, fault }));
    if (this.#closed !== undefined) return refuse(this.#closed.reason, this.#closed.fault);
    if (this.#batches >= BATCHES_QUEUED_MAX) return refuse(`${BATCHES_QUEUED_MAX} batches are queued already`, false);
    const transfer = buffersOf(batch);
    if (typeof transfer === "string") return refuse(transfer, false);

    this.#batches++;
    const settle = (reply: WorkerReply): void => {
      assert(reply.kind === "ran", "a run is answered as a run");
      this.#batches--;
      done(reply.outcome);
    };
    const fail = (reason: string): void => done({ kind: "failed", reason, fault: true });
    const { model, bucket, batchSize, inputs } = batch;
    const own: EngineBatch = { model, bucket, batchSize, inputs };
    this.#post({ kind: "run", id: this.#expect({ settle, fail }), batch: own }, transfer);
  }

  stop(done: () => void): void {
    if (this.#exited) return queueMicrotask(done);
    this.#stopped.push(done);
    if (this.#closed !== undefined) return;
    this.#closed = { reason: "the engine was stopped", fault: false };
    this.#post({ kind: "stop", id: 0 });
  }

  #expect(waiting: Waiting): number {
    this.#waiting.set(++this.#id, waiting);
    return this.#id;
  }

  #post(request: WorkerRequest, transfer: ArrayBuffer[] = []): void {
    this.#worker.postMessage(request, transfer);
  }
}

/** The buffers to transfer, or why they can't be. */
function buffersOf({ inputs }: EngineBatch): ArrayBuffer[] | string {
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
  return buffers;
}
