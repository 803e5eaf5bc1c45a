/** A folder of models in Triton's layout, `name/1/model.onnx`, with an optional `name/config.yaml`. */
import { readFile, readdir, stat } from "node:fs/promises";
import { basename, dirname, extname, join, resolve } from "node:path";
import type { DesiredModel } from "@tutti/client/registries";
import type { ModelConfig } from "@tutti/onnx-tools";
import { isName } from "@tutti/protocol";
import { parse } from "yaml";
import { CommandError } from "../failure.ts";
import { desiredModel, parseFileConfig } from "./desired-model.ts";

export interface LoadableModel {
  readonly model: DesiredModel;
  /** Absent for an emulated model. */
  readonly bytes: Uint8Array | undefined;
  /** Inputs to profile with. */
  readonly samples?: readonly Uint8Array[];
}

export interface FileOptions {
  readonly path: string;
  readonly name?: string;
  /** Default: `config.yaml` beside the model, or above its version folder, if it exists. */
  readonly config?: string;
  /** Values from flags; they override the configuration. */
  readonly flags: ModelConfig;
  /** File with latencies given instead of measured; it overrides the configuration, too. */
  readonly profile?: string;
}

/** Reads one model file. @throws {CommandError | TuttiError} saying which file, and what to do */
export async function readModelFile(options: FileOptions): Promise<LoadableModel> {
  const { path } = options;
  const bytes = await readOr(path, `there is no model file ${path}`);
  const configured = options.config ?? (await configBeside(path));
  const text = configured === undefined ? "" : await readText(configured);
  const { serving, latencies } = parseFileConfig(text, configured ?? "config.yaml");
  const config = {
    serving: { ...serving, name: options.name ?? serving.name ?? nameOf(path), ...options.flags },
    latencies: options.profile === undefined ? latencies : await readLatencies(options.profile),
  };
  return { model: desiredModel(bytes, config), bytes };
}

export interface RepositoryModel {
  readonly name: string;
  readonly path: string;
  readonly version: string;
}

/** Lists the models of a folder, each with its newest version. A folder of another shape is an error that names it. */
export async function listRepository(directory: string): Promise<RepositoryModel[]> {
  const entries = await readdir(directory, { withFileTypes: true }).catch((error: Error) => {
    throw new CommandError(`--models ${directory}: ${error.message}`);
  });
  const folders = entries.filter((entry) => entry.isDirectory() && !entry.name.startsWith("."));
  const models = await Promise.all(folders.map((folder) => newestVersion(directory, folder.name)));
  return models.sort((a, b) => (a.name < b.name ? -1 : 1));
}

async function newestVersion(directory: string, name: string): Promise<RepositoryModel> {
  const layout = `the layout is ${join(directory, name, "1", "model.onnx")}`;
  if (!isName(name)) throw new CommandError(`${join(directory, name)}: names have letters, digits, "-" and "_" only`);
  const versions = (await readdir(join(directory, name))).filter((entry) => /^\d+$/.test(entry)).map(Number);
  if (versions.length === 0) throw new CommandError(`${join(directory, name)} has no numbered versions: ${layout}`);
  const version = String(Math.max(...versions));
  const path = join(directory, name, version, "model.onnx");
  await stat(path).catch(() => {
    throw new CommandError(`${path} is missing: ${layout}`);
  });
  return { name, path, version };
}

async function configBeside(path: string): Promise<string | undefined> {
  const folder = dirname(resolve(path));
  const places = [
    join(folder, "config.yaml"),
    ...(/^\d+$/.test(basename(folder)) ? [join(folder, "../config.yaml")] : []),
  ];
  for (const place of places) if (await isFile(place)) return place;
  return undefined;
}

/** `mlp` for `models/mlp.onnx` and for `models/mlp/1/model.onnx`; invalid characters become `-`. */
function nameOf(path: string): string {
  const folder = dirname(resolve(path));
  const inRepository = /^\d+$/.test(basename(folder));
  const base = inRepository ? basename(dirname(folder)) : basename(path, extname(path));
  const name = base.replace(/[^A-Za-z0-9_-]+/g, "-").replace(/^[-_]+/, "");
  if (isName(name)) return name;
  throw new CommandError(`no name can be made from ${path}: give one with --name`);
}

async function readOr(path: string, otherwise: string): Promise<Uint8Array> {
  try {
    return new Uint8Array(await readFile(path));
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    throw new CommandError(code === "ENOENT" ? otherwise : `${path}: ${message}`);
  }
}

/** Reads the file of `--profile`: a table, or `{ latencies: … }`, or a model's entry from `tutti models --json`. */
async function readLatencies(path: string): Promise<unknown> {
  let value: unknown;
  try {
    value = parse(await readText(path));
  } catch (error) {
    throw error instanceof CommandError
      ? error
      : new CommandError(`${path} is no YAML or JSON: ${(error as Error).message}`);
  }
  if (typeof value !== "object" || value === null) throw new CommandError(`${path}: a table of latencies is expected`);
  if ("latencies" in value) return value.latencies;
  return "profiles" in value ? value.profiles : value;
}

const readText = async (path: string): Promise<string> =>
  new TextDecoder().decode(await readOr(path, `there is no configuration ${path}`));
const isFile = (path: string): Promise<boolean> =>
  stat(path).then(
    (entry) => entry.isFile(),
    () => false,
  );
