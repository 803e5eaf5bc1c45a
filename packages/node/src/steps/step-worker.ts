/** The thread that runs functions of pipelines: one call after the other. */
import { existsSync, realpathSync } from "node:fs";
import { join, sep } from "node:path";
import { pathToFileURL } from "node:url";
import { deserialize, serialize } from "node:v8";
import { parentPort, workerData } from "node:worker_threads";
import { TuttiError } from "@tutti/protocol";
import { type StepCall, type StepInput, type StepOutcome, readCall, readResult, stepError } from "@tutti/ports/steps";
import type { FromWorker, StepProblem, ToWorker, WorkerStart } from "./messages.ts";

type Step = (step: StepInput) => unknown;

const port = parentPort!;
const { folder, functions } = workerData as WorkerStart;
const loaded = new Map<string, Step>();
const send = (message: FromWorker, transfer: ArrayBuffer[] = []): void => port.postMessage(message, transfer);

/** Loads one function. @throws {Error} names the missing module or function, and the remedy */
async function load(reference: string): Promise<Step> {
  const [path = "", name = ""] = reference.split("#");
  const root = realpathSync(folder);
  if (!existsSync(join(root, path))) throw new Error(`there is no ${path}`);
  const file = realpathSync(join(root, path));
  if (!file.startsWith(root + sep))
    throw new Error(`${path} lies outside of ${folder}: modules are only loaded from there`);
  const module = (await import(pathToFileURL(file).href).catch((error: unknown) => {
    throw new Error(`${path} can't be loaded: ${textOf(error)}`);
  })) as Record<string, unknown>;
  const found = module[name];
  if (typeof found !== "function")
    throw new Error(`${path} exports no function ${name}: export function ${name}(step) { … }`);
  return found as Step;
}

async function run(call: StepCall, signal: AbortSignal): Promise<StepOutcome> {
  const step = loaded.get(call.function);
  if (step === undefined) throw new Error("it was not declared when this ingress started");
  const kept = Object.fromEntries(
    Object.entries(call.kept).map(([stage, { value }]) => [stage, deserialize(value as Uint8Array) as unknown]),
  );
  const { step: input, read } = readCall(call, kept);
  const { keep, ...rest } = readResult(call, await step({ ...input, signal }), read);
  if (keep === undefined) return { ...rest, keep: undefined };
  const value = new Uint8Array(serialize(keep));
  return { ...rest, keep: { value, bytes: value.byteLength } };
}

const textOf = (error: unknown): string => (error instanceof Error ? error.message : String(error));

let running = { id: 0, abort: new AbortController() };
port.on("message", (message: ToWorker) => {
  if ("givenUp" in message) {
    if (message.givenUp === running.id) running.abort.abort();
    return;
  }
  const { id, call } = message;
  running = { id, abort: new AbortController() };
  void run(call, running.abort.signal).then(
    (outcome) => send({ id, outcome }),
    (cause: unknown) => {
      const error = cause instanceof TuttiError ? cause : stepError(call, cause);
      send({ id, code: error.code, text: error.message });
    },
  );
});

const problems: StepProblem[] = [];
for (const reference of functions)
  try {
    loaded.set(reference, await load(reference));
  } catch (error) {
    problems.push({ function: reference, text: textOf(error) });
  }
send(problems.length === 0 ? { loaded: true } : { loaded: false, problems });
