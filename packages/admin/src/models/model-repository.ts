/**
 * Models in Triton's layout, `name/1/model.onnx`, with an optional `name/config.yaml`, or Triton's `name/config.pbtxt`:
 * in a folder or below a prefix of a bucket; and single ones, from wherever they are kept.
 */
import { readFile, readdir, stat } from "node:fs/promises";
import { basename, dirname, extname, join, resolve } from "node:path";
import type { DesiredModel } from "@tutti/client/registries";
import type { ModelConfig } from "@tutti/onnx-tools";
import { isName } from "@tutti/protocol";
import { parse } from "yaml";
import { CommandError } from "../failure.ts";
import { fileProblem } from "../file-problem.ts";
import {
  CONFIG_FILES,
  RemoteModels,
  type RepositoryListing,
  type RepositoryModel,
  modelsOf,
} from "../sources/remote-models.ts";
import { isModelUrl, parseModelUrl, pathIn } from "../sources/model-url.ts";
import { desiredModel, parseFileConfig } from "./desired-model.ts";

export interface LoadableModel {
  readonly model: DesiredModel;
  /** Absent for an emulated model. */
  readonly bytes: Uint8Array | undefined;
  /** Inputs to profile with. */
  readonly samples?: readonly Uint8Array[];
  /** Triton's keys of its configuration that change nothing here. */
  readonly passedOver?: readonly string[];
}

export interface FileOptions {
  /** A path or a URL. */
  readonly path: string;
  readonly name?: string;
  /**
   * Default: `config.yaml` beside the model, or above its version folder, or else `config.pbtxt` there, if it exists;
   * null: there is none.
   */
  readonly config?: string | null;
  /** Values from flags; they override the configuration. */
  readonly flags: ModelConfig;
  /** File with latencies given instead of measured; it overrides the configuration, too. */
  readonly profile?: string;
}

/** Reads one model. @throws {CommandError | TuttiError} saying which file, and what to do */
export async function readModelFile(options: FileOptions, remote = new RemoteModels()): Promise<LoadableModel> {
  const { path } = options;
  const { bytes, config: own } = await (isModelUrl(path) ? remote.file(path) : readLocal(options));
  const { config: said } = options;
  const config = said === undefined ? own : said === null ? undefined : await readConfig(said, remote);
  const { serving, latencies, passedOver = [] } = parseFileConfig(config?.text ?? "", config?.origin ?? "config.yaml");
  const both = {
    serving: { ...serving, name: options.name ?? serving.name ?? nameOf(path), ...options.flags },
    latencies: options.profile === undefined ? latencies : await readLatencies(options.profile),
  };
  return { model: desiredModel(bytes, both), bytes, ...(passedOver.length > 0 && { passedOver }) };
}

interface ReadConfig {
  readonly text: string;
  readonly origin: string;
}

async function readLocal({
  path,
  config,
}: FileOptions): Promise<{ bytes: Uint8Array; config: ReadConfig | undefined }> {
  const bytes = await readOr(path, `there is no model file ${path}`);
  const beside = config === undefined ? await configBeside(path) : undefined;
  return { bytes, config: beside === undefined ? undefined : await readConfig(beside) };
}

async function readConfig(place: string, remote?: RemoteModels): Promise<ReadConfig> {
  const text = isModelUrl(place) ? remote!.text(place) : readText(place);
  return { text: await text, origin: shown(place) };
}

/**
 * Lists the models of a folder or of a prefix, each with its newest version. One of another shape is an error that
 * names it.
 */
export async function listRepository(place: string, remote?: RemoteModels): Promise<readonly RepositoryModel[]> {
  return modelsOf(await surveyRepository(place, remote));
}

/** The same with the entries of another shape beside those that are models. */
export async function surveyRepository(place: string, remote = new RemoteModels()): Promise<RepositoryListing> {
  return isModelUrl(place) ? remote.survey(place) : surveyFolder(place);
}

async function surveyFolder(directory: string): Promise<RepositoryListing> {
  const entries = await readdir(directory, { withFileTypes: true }).catch((error: NodeJS.ErrnoException) => {
    throw new CommandError(`--models ${directory}: ${fileProblem(error)}`);
  });
  const shown = entries.filter(({ name }) => !name.startsWith("."));
  const isFolder = await Promise.all(
    shown.map(async (entry) => {
      if (!entry.isSymbolicLink()) return entry.isDirectory();
      return (await stat(join(directory, entry.name)).catch(() => undefined))?.isDirectory() === true;
    }),
  );
  const names = shown.flatMap(({ name }, i) => (isFolder[i] === true ? [name] : [])).sort();
  const found = await Promise.allSettled(names.map((name) => newestVersion(directory, name)));
  return {
    models: found.flatMap((one) => (one.status === "fulfilled" ? [one.value] : [])),
    faulty: found.flatMap((one, i) =>
      one.status === "rejected" ? [{ name: names[i]!, fault: one.reason as Error }] : [],
    ),
  };
}

async function newestVersion(directory: string, name: string): Promise<RepositoryModel> {
  const layout = `the layout is ${join(directory, name, "1", "model.onnx")}`;
  if (!isName(name)) throw new CommandError(`${join(directory, name)}: names have letters, digits, "-" and "_" only`);
  const versions = (await readdir(join(directory, name))).filter((entry) => /^\d+$/.test(entry)).map(Number);
  if (versions.length === 0 && /^\d+$/.test(name) && (await isFile(join(directory, name, "model.onnx"))))
    throw new CommandError(
      `${directory} is the folder of one model: give ${join(directory, name, "model.onnx")}, or ${dirname(directory)} for all models in it`,
    );
  if (versions.length === 0) throw new CommandError(`${join(directory, name)} has no numbered versions: ${layout}`);
  const version = String(Math.max(...versions));
  const path = join(directory, name, version, "model.onnx");
  const changed = await changeOf(path);
  if (changed === undefined) throw new CommandError(`${path} is missing: ${layout}`);
  const config = (await configBeside(path)) ?? null;
  const tag = [version, changed, config, config === null ? "" : await changeOf(config)].join(" ");
  return { name, path, version, config, tag };
}

/** Differs where the file was written meanwhile; undefined: there is none. */
async function changeOf(path: string): Promise<string | undefined> {
  const entry = await stat(path).catch(() => undefined);
  return entry === undefined ? undefined : `${entry.ino}:${entry.size}:${entry.mtimeMs}`;
}

async function configBeside(path: string): Promise<string | undefined> {
  const folder = dirname(resolve(path));
  const folders = [folder, ...(/^\d+$/.test(basename(folder)) ? [dirname(folder)] : [])];
  for (const file of CONFIG_FILES)
    for (const place of folders) if (await isFile(join(place, file))) return join(place, file);
  return undefined;
}

/** The line that says what becomes of Triton's keys; undefined: nothing need be said. */
export function passedOverText(models: readonly LoadableModel[]): string | undefined {
  const passedOver = models.flatMap(({ model, passedOver: keys = [] }) =>
    keys.length === 0 ? [] : [`${model.name} (${keys.join(", ")})`],
  );
  if (passedOver.length > 0) return `Triton's keys that change nothing here: ${passedOver.join(", ")}`;
  return undefined;
}

/** A URL's query may be a signature. */
const shown = (place: string): string => (isModelUrl(place) ? parseModelUrl(place).label : place);

/** `mlp` for `models/mlp.onnx` and for `models/mlp/1/model.onnx`; invalid characters become `-`. */
function nameOf(place: string): string {
  const path = isModelUrl(place) ? pathIn(parseModelUrl(place)) : place;
  const folder = dirname(resolve(path));
  const inRepository = /^\d+$/.test(basename(folder));
  const base = inRepository ? basename(dirname(folder)) : basename(path, extname(path));
  const name = base.replace(/[^A-Za-z0-9_-]+/g, "-").replace(/^[-_]+/, "");
  if (isName(name)) return name;
  throw new CommandError(`no name can be made from ${shown(place)}: give one with --name`);
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
