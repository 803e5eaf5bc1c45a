import { readFileSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { DEMO_MODELS, demoModelPath } from "@tutti/onnx-tools";
import { CommandError } from "@tutti/admin";
import { runRoot } from "@tutti/admin/cluster";
import {
  type Emulation,
  type LoadableModel,
  desiredModel,
  parseEmulation,
  listRepository,
  readModelFile,
} from "@tutti/admin/models";
import type { UpOptions } from "./up-options.ts";

export interface ModelSources {
  /** Models with their files; the caller drops them once they are loaded. */
  readonly models: LoadableModel[];
  /** Jitter of emulated runs. */
  readonly jitter: Emulation["jitter"];
}

/** Reads all models that `tutti up` serves before anything starts, so that a faulty file costs no start. */
export async function readModelSources(options: Pick<UpOptions, "emulate" | "demo" | "models">): Promise<ModelSources> {
  const emulation = options.emulate === undefined ? undefined : await readEmulation(options.emulate);
  const emulated = (emulation?.models ?? []).map((model) => ({ model, bytes: undefined }));
  const demo = options.demo ? readDemoModels() : [];
  const repository = options.models === undefined ? [] : await readRepository(options.models);
  const models = [...emulated, ...demo, ...repository];
  const names = models.map(({ model }) => model.name);
  const twice = names.find((name, index) => names.indexOf(name) !== index);
  if (twice === undefined) return { models, jitter: emulation?.jitter };
  throw new CommandError(
    `two models are called "${twice}"; rename the folder, or leave the demo models out with --no-demo`,
  );
}

async function readEmulation(path: string): Promise<Emulation> {
  const text = await readFile(path, "utf8").catch((error: Error) => {
    throw new CommandError(`--emulate ${path}: ${error.message}`);
  });
  return parseEmulation(text, path);
}

/** Reads the demo models. Generated files are cached beside the run directories for the next start. */
function readDemoModels(): LoadableModel[] {
  const cacheDir = join(runRoot(), "../models");
  return DEMO_MODELS.map((demo) => {
    const bytes = new Uint8Array(readFileSync(demoModelPath(demo, { cacheDir })));
    return { model: desiredModel(bytes, { serving: demo.config, latencies: undefined }), bytes };
  });
}

async function readRepository(folder: string): Promise<LoadableModel[]> {
  const models = await listRepository(folder);
  return Promise.all(models.map(({ name, path }) => readModelFile({ path, name, flags: {} })));
}
