import { rmSync } from "node:fs";
import { type LastRun, createExecutor } from "@tutti/executor";
import { CommandError } from "@tutti/admin";
import {
  type RoleContext,
  acceleratorName,
  createEmulatedEngine,
  emptyFolder,
  heldBy,
  makeStateFolder,
  openDataPlane,
  type StartRole,
} from "@tutti/host/role";
import type { Engine } from "@tutti/ports/engine";
import { type NoteOptions, notePath, notesLeft, removeNotes, startOnnxEngine } from "@tutti/engine-onnx";
import { actorKey, gpuId, instant, shownAddresses } from "@tutti/units";

/** Signals from outside, as far as the supervisor could tell; perhaps for lack of memory. */
const KILLED = new Set([undefined, "SIGKILL", "SIGTERM", "SIGINT", "SIGHUP"]);

export const start: StartRole = async (context, ready) => {
  const { ports, config, options, fail } = context;
  const state = makeStateFolder(options.state);
  const slot = [options.cluster, shownAddresses(options.nats), ...options.gpus]
    .join("-")
    .replaceAll(/[^A-Za-z0-9-]+/g, "_");
  const path = notePath(state, slot, process.pid);
  const lastRuns = lastRunsOf(state, slot);
  context.onEnd(() => removeNotes(path));
  const data = openDataPlane(context);
  // Paths of other roles' options may be relative.
  if (context.roles.length === 1) process.chdir(emptyFolder(state));
  const engines = await Promise.all(
    options.gpus.map(async (gpu) => ({
      gpu,
      engine: await startEngine(context, { path, executor: config.key, gpu }),
    })),
  );
  context.told["gpus"] = options.gpus;
  context.told["engine"] = engines[0]?.engine.type;
  const { subCluster, memory } = options;
  return createExecutor(
    { ...ports, data, engines, lastRuns, onFault: fail, ...heldBy(context) },
    { ...config, subCluster, ...(memory !== undefined && { memoryBytesMax: memory }) },
    ready,
  );
};

async function startEngine({ clock, options }: RoleContext, note: NoteOptions): Promise<Engine> {
  if (options.engine === "emulated") return createEmulatedEngine(clock, options);
  // Two WebGPU sessions in threads of one process crash it, and a native abort takes its neighbours along.
  if (options.gpus.length > 1)
    throw new CommandError("one process drives one real accelerator: start one for each of --gpus");
  const { provider, threads, device, part } = options;
  return startOnnxEngine({ provider, threads, device, part, accelerator: await acceleratorName(options), note });
}

function lastRunsOf(folder: string, slot: string): LastRun[] {
  const how = KILLED.has(process.env["TUTTI_LAST_END"]) ? "killed" : "crashed";
  return notesLeft(folder, slot).map(({ note, path }) => ({
    model: { name: note.model, number: note.number },
    executor: actorKey(note.executor),
    gpu: gpuId(note.gpu),
    doing: note.doing,
    startedAt: instant(note.startedAt),
    how,
    forget: () => rmSync(path, { force: true }),
  }));
}
