import { readFileSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { DEMO_MODELS, demoModelPath } from "@tutti/onnx-tools";
import { CommandError, fileProblem, makeNamedFolder } from "@tutti/admin";
import { runRoot } from "@tutti/admin/cluster";
import {
  type Emulation,
  type LoadableModel,
  desiredModel,
  parseEmulation,
  RemoteModels,
  type RepositoryModel,
  isModelUrl,
  listRepository,
  readModelFile,
} from "@tutti/admin/models";
import { formatDuration } from "@tutti/units";
import type { UpOptions } from "./up-options.ts";

export interface ModelSources {
  /** Models with their files; the caller drops them once they are loaded. */
  readonly models: LoadableModel[];
  /** Those of `--models`, as they were listed. */
  readonly repository: readonly RepositoryModel[];
  /** Jitter of emulated runs. */
  readonly jitter: Emulation["jitter"];
}

/** Reads all models that `tutti up` serves before anything starts, so that a faulty file costs no start. */
export async function readModelSources(options: Pick<UpOptions, "emulate" | "demo" | "models">): Promise<ModelSources> {
  const emulation = options.emulate === undefined ? undefined : await readEmulation(options.emulate);
  const emulated = (emulation?.models ?? []).map((model) => ({ model, bytes: undefined }));
  const demo = options.demo ? readDemoModels() : [];
  const repository = options.models === undefined ? [] : await listRepository(options.models);
  if (options.models !== undefined && isModelUrl(options.models) && repository.length === 0)
    throw new CommandError(`${options.models} has no models: the layout is ${options.models}/name/1/model.onnx`);
  const models = [...emulated, ...demo, ...(await readAll(repository))];
  const names = models.map(({ model }) => model.name);
  const twice = names.find((name, index) => names.indexOf(name) !== index);
  if (twice === undefined) return { models, repository, jitter: emulation?.jitter };
  throw new CommandError(
    `two models are called "${twice}"; rename the folder, or leave the demo models out with --no-demo`,
  );
}

/**
 * The advice where there is no model, or none in the folder. Both may be meant, since models can be
 * loaded at any time. @returns undefined: there are models
 */
export function absenceText(
  { models: place, modelsPoll }: Pick<UpOptions, "models" | "modelsPoll">,
  { models, repository }: { readonly models: number; readonly repository: number },
): string | undefined {
  const isEmpty = place !== undefined && repository === 0;
  if (models > 0 && !isEmpty) return undefined;
  const sentences = models === 0 ? ["Nothing is served yet."] : [];
  if (isEmpty) {
    const layout = `${join(place, "mlp", "1", "model.onnx")}, and ${join(place, "mlp", "config.yaml")} with its slo`;
    sentences.push(`--models ${place} has no model: the layout is ${layout}.`);
    if (modelsPoll !== undefined)
      sentences.push(`The folder is looked at every ${formatDuration(modelsPoll)}: what comes is served.`);
  }
  sentences.push(
    "`tutti load model.onnx --slo 50ms` loads one while this runs, and `tutti load models/` a folder of them.",
  );
  return sentences.join("\n");
}

async function readEmulation(path: string): Promise<Emulation> {
  const text = await readFile(path, "utf8").catch((error: NodeJS.ErrnoException) => {
    throw new CommandError(`--emulate ${path}: ${fileProblem(error)}`);
  });
  return parseEmulation(text, path);
}

/** Reads the demo models. Generated files are cached beside the run directories for the next start. */
function readDemoModels(): LoadableModel[] {
  const cacheDir = join(runRoot(), "../models");
  makeNamedFolder("the folder for demo models beside TUTTI_RUN_DIR,", cacheDir);
  return DEMO_MODELS.map((demo) => {
    const bytes = new Uint8Array(readFileSync(demoModelPath(demo, { cacheDir })));
    return { model: desiredModel(bytes, { serving: demo.config, latencies: undefined }), bytes };
  });
}

/** One after the other: each may have gigabytes to come over the network. */
async function readAll(repository: readonly RepositoryModel[]): Promise<LoadableModel[]> {
  const remote = new RemoteModels();
  const models: LoadableModel[] = [];
  for (const { path, name, config } of repository)
    models.push(await readModelFile({ path, name, config, flags: {} }, remote));
  return models;
}
