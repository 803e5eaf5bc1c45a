/**
 * The session worker, the only thread that runs onnxruntime, except for quick models (InlineModels). A run blocks its
 * thread, and a worker that is terminated during a run aborts the whole process. It takes requests in their order, one
 * at a time, and ends itself on a stop request.
 */
import { parentPort, workerData } from "node:worker_threads";
import type { EngineBatch, EngineModel, LoadOutcome, RunOutcome } from "@tutti/ports/engine";
import { assert } from "@tutti/units";
import ort from "./onnxruntime.ts";
import { FamilyModel } from "./family-model.ts";
import { LoadRefusal, textOf } from "./load-refusal.ts";
import { LoadedModel } from "./loaded-model.ts";
import { PROBE_MODEL_BASE64, providerProblem, sessionOptions } from "./provider.ts";
import { runSizesOfModel } from "./sessions.ts";
import { isQuick } from "./quick-trial.ts";
import { NoteWriter } from "./run-note.ts";
import { watchRuns } from "./run-watch.ts";
import type { WorkerOptions, WorkerReply, WorkerRequest } from "./worker-messages.ts";

assert(parentPort !== null, "session-worker.ts runs as a worker thread");
const port = parentPort;
const options = workerData as WorkerOptions;
const models = new Map<string, LoadedModel | FamilyModel>();
const note = options.note && new NoteWriter(options.note);
let watching: { stop(): void } | undefined;

/** Waiting requests; the engine bounds them, as it refuses batches beyond its queue's limit. */
const requests: WorkerRequest[] = [];
let busy = true; // until the provider was tried
port.on("message", (request: WorkerRequest) => {
  requests.push(request);
  if (!busy) void drain();
});

reply({ kind: "ready", reason: await problemWithProvider() });
await drain();

async function drain(): Promise<void> {
  busy = true;
  for (let request = requests.shift(); request !== undefined; request = requests.shift()) await serve(request);
  busy = false;
}

async function serve(request: WorkerRequest): Promise<void> {
  switch (request.kind) {
    case "load": {
      const outcome = await load(request);
      const model = models.get(request.spec.name);
      const isTried = request.isTried && outcome.kind === "loaded" && model instanceof LoadedModel;
      return reply({ kind: "loaded", id: request.id, outcome, isQuick: isTried && (await tried(model)) });
    }
    case "unload":
      await unload(request.name);
      return reply({ kind: "unloaded", id: request.id });
    case "run": {
      const { batch, id } = request;
      const model = models.get(batch.model);
      const outcome = model === undefined ? notLoaded(batch.model) : await run(model, batch);
      return reply({ kind: "ran", id, outcome }, buffersOf(outcome));
    }
    case "stop":
      for (const name of [...models.keys()]) await unload(name);
      note?.close();
      watching?.stop();
      process.exit(0); // of this thread; its exit is the reply
  }
}

async function run(model: LoadedModel | FamilyModel, batch: EngineBatch): Promise<RunOutcome> {
  note?.begin(model.spec, "run");
  const outcome = await model.run(batch);
  note?.end();
  return outcome;
}

async function tried(model: LoadedModel): Promise<boolean> {
  note?.begin(model.spec, "load");
  const quick = await isQuick(model);
  note?.end();
  watching ??= quick ? watchRuns(options.runs) : undefined;
  return quick;
}

async function load({ spec, bytes, samples }: EngineModel & { readonly bytes: Uint8Array }): Promise<LoadOutcome> {
  const before = process.memoryUsage.rss();
  note?.begin(spec, "load");
  try {
    const kind = spec.family === undefined ? LoadedModel : FamilyModel;
    const model = await kind.load({ spec, bytes, settings: options, samples });
    await unload(spec.name); // only now: the old model goes on serving when the new one can't load
    models.set(spec.name, model);
  } catch (error) {
    // Any error but a refusal is a bug of ours, and would leave the engine in an unforeseen state.
    if (error instanceof LoadRefusal) return { kind: "failed", reason: error.message };
    throw error;
  } finally {
    note?.end();
  }
  // The process's growth, which also counts other allocations meanwhile; never less than the weights, which a GPU has
  // once for each session.
  const sessions = runSizesOfModel(options, { bytes, batchSizeMax: spec.batchSizeMax })?.length ?? 1;
  return { kind: "loaded", memoryBytes: Math.max(sessions * bytes.byteLength, process.memoryUsage.rss() - before) };
}

async function unload(name: string): Promise<void> {
  const model = models.get(name);
  models.delete(name);
  await model?.release();
}

async function problemWithProvider(): Promise<string | undefined> {
  try {
    const probe = Uint8Array.from(Buffer.from(PROBE_MODEL_BASE64, "base64"));
    const session = await ort.InferenceSession.create(probe, sessionOptions(options, probe));
    const { y } = await session.run({ x: new ort.Tensor("float32", Float32Array.of(1, 2, 3, 4), [1, 4]) });
    await session.release();
    return String(y?.data) === "2,3,4,5"
      ? undefined
      : providerProblem(options.provider, `1 + 1 was ${String(y?.data)}`);
  } catch (error) {
    return providerProblem(options.provider, textOf(error));
  }
}

function notLoaded(name: string): RunOutcome {
  return { kind: "failed", reason: `model '${name}' isn't loaded on this executor`, fault: false, isUnloaded: true };
}

function buffersOf(outcome: RunOutcome): ArrayBuffer[] {
  if (outcome.kind !== "ran") return [];
  const outputs = [...outcome.outputs, ...(outcome.groups ?? []).flatMap((group) => group.outputs)];
  return outputs.map(({ data }) => data.buffer as ArrayBuffer);
}

function reply(message: WorkerReply, transfer: ArrayBuffer[] = []): void {
  port.postMessage(message, transfer);
}
