import { type DesiredModel, type ListedModel, type ModelFiles, ModelRegistry } from "@tutti/client/registries";
import type { ModelConfig } from "@tutti/onnx-tools";
import { type ModelStatus, isModelName, sharesProblem, splitModelName, versionName } from "@tutti/protocol";
import { CommandError, EXIT, note, print, secondsOption, usageError } from "@tutti/admin";
import { type ClusterOptions, withCluster } from "@tutti/admin/cluster";
import {
  type FamilyFlags,
  type LoadableModel,
  endReplaced,
  familyWish,
  planFamilies,
  servedMembers,
  listRepository,
  RemoteModels,
  type RepositoryModel,
  isModelUrl,
  passedOverText,
  readModelFile,
} from "@tutti/admin/models";
import { modelsAsJson, renderModels } from "@tutti/admin/model-tables";
import { readModelSources } from "@tutti/host/up";
import { readSamples } from "../present/samples.ts";

export interface LoadCommandOptions extends ClusterOptions, FamilyFlags {
  readonly demo?: boolean;
  readonly slo?: string;
  readonly maxBatch?: string;
  readonly patience?: string;
  /** `app=weight`, repeatable. */
  readonly share?: readonly string[];
  readonly name?: string;
  readonly version?: string;
  readonly config?: string;
  readonly profile?: string;
  readonly sample?: string;
  readonly timeout: string;
  readonly json?: boolean;
}

/**
 * `tutti load <paths>`: loads model files, or folders of models in Triton's layout, from here or from elsewhere. It
 * waits until each model is served or refused. Models with a common prefix become a family where that saves memory or
 * accelerators.
 */
export async function load(paths: readonly string[], given: LoadCommandOptions): Promise<void> {
  const options = versionOf(given);
  const { version } = options;
  const timeoutMs = secondsOption("--timeout", options.timeout, { least: 0.001 });
  if (paths.length > 1 && (options.name ?? version) !== undefined)
    throw usageError("--name and --version are of one model: give one file");
  if (paths.length === 0 && options.demo !== true) throw usageError("name files or folders of models, or --demo");
  const wish = familyWish(options);
  const named = (await Promise.all(paths.map((path) => readModels(path, options)))).flat();
  const loadable = [...named, ...(options.demo === true ? await readDemo() : [])];
  const say = (text: string): void => void (options.json !== true && note(text));
  const passedOver = passedOverText(loadable);
  if (passedOver !== undefined) say(passedOver);
  await withCluster({ ...options, name: "tutti-load" }, async (nats) => {
    const registry = new ModelRegistry(nats.store);
    const served = await servedMembers(nats.store, registry, wish);
    // A version is compared with the others and removed again, so it shares nothing with them.
    const { families, alone } =
      version === undefined
        ? await planFamilies(loadable, served, { wish, say, isTaken: (name) => isModel(registry, name) })
        : { families: [], alone: loadable };
    const listed: ListedModel[] = [];
    const serve = async (model: DesiredModel, files: ModelFiles): Promise<ListedModel> => {
      const spec =
        version === undefined
          ? await registry.publish(model, files)
          : await registry.publishVersion({ ...model, version }, files);
      const onState = (state: ModelStatus): void => progress(state, options.json);
      const status = await registry.waitUntilServed(spec, { timeoutMs, onState });
      const one = { spec, status };
      listed.push(one);
      return one;
    };
    for (const { model, bytes } of families) {
      const family = await serve(model, { model: bytes });
      if (family.status?.state !== "ready") continue;
      for (const name of await endReplaced(registry, family)) say(`${name}: now served by ${family.spec.name}`);
    }
    for (const { model, bytes, samples } of alone) await serve(model, { model: bytes, samples });
    print(options.json === true ? JSON.stringify(modelsAsJson(listed)) : renderModels(listed));
    if (listed.some(({ status }) => status?.state !== "ready")) process.exitCode = EXIT.failed;
  });
}

/** Whether the name belongs to a model that is no family: a family must not replace it. */
async function isModel(registry: ModelRegistry, name: string): Promise<boolean> {
  const known = await registry.get(name);
  return known !== undefined && known.family === undefined;
}

/** Splits `--name mlp/2` into name and version, as `--name mlp --version 2`. */
function versionOf(options: LoadCommandOptions): LoadCommandOptions {
  const { name: said, ...rest } = options;
  const { name, version } = said === undefined ? { name: undefined, version: undefined } : splitModelName(said);
  if (version !== undefined && ![undefined, version].includes(rest.version))
    throw usageError(`--name ${said} and --version ${rest.version}: which version is it?`);
  const wanted = version ?? rest.version;
  if (wanted !== undefined && !isModelName(versionName("m", wanted)))
    throw usageError(`version ${wanted}: letters, digits, "-" and "_" only`);
  return { ...rest, ...(name !== undefined && { name }), ...(wanted !== undefined && { version: wanted }) };
}

const readDemo = async (): Promise<LoadableModel[]> =>
  (await readModelSources({ demo: true, emulate: undefined, models: undefined })).models;

async function readModels(path: string, options: LoadCommandOptions): Promise<LoadableModel[]> {
  const flags = flagsOf(options);
  const remote = new RemoteModels();
  const one = async (file: string, listed?: RepositoryModel): Promise<LoadableModel> => {
    const config = options.config ?? listed?.config;
    const loadable = await readModelFile(
      {
        path: file,
        flags,
        ...(options.name !== undefined && { name: options.name }),
        ...(config !== undefined && { config }),
        ...(options.profile !== undefined && { profile: options.profile }),
      },
      remote,
    );
    if (options.sample === undefined) return loadable;
    return { ...loadable, samples: await readSamples(options.sample, loadable.model) };
  };
  if (!(await isRepository(path))) return [await one(path)];
  if (options.name !== undefined || options.version !== undefined)
    throw usageError("--name and --version are of one model: give the path of its file");
  const models = await listRepository(path, remote);
  if (models.length === 0)
    throw new CommandError(`${path} has no models: the layout is ${path.replace(/\/$/, "")}/name/1/model.onnx`);
  const loadable: LoadableModel[] = [];
  // One after the other: each may have gigabytes to come over the network.
  for (const model of models) loadable.push(await one(model.path, model));
  return loadable;
}

/** A folder, or a prefix of a bucket. */
async function isRepository(path: string): Promise<boolean> {
  if (path.endsWith(".onnx")) return false;
  if (isModelUrl(path)) return /^s3:\/\/([^/]+\/?|.*\/)$/.test(path);
  const { stat } = await import("node:fs/promises");
  return stat(path).then(
    (entry) => entry.isDirectory(),
    () => false,
  );
}

/** Flags as the configuration's own keys, so that both are checked in one place. */
function flagsOf(options: LoadCommandOptions): ModelConfig {
  return {
    ...(options.slo !== undefined && { slo: options.slo }),
    ...(options.maxBatch !== undefined && { max_batch_size: Number(options.maxBatch) }),
    ...(options.patience !== undefined && { patience: Number(options.patience) }),
    ...(options.share !== undefined && { shares: sharesOf(options.share) }),
  };
}

/** @throws {CommandError} a usage error naming the flag */
export function sharesOf(flags: readonly string[]): Readonly<Record<string, number>> {
  const shares: Record<string, number> = {};
  for (const flag of flags) {
    const parts = /^([^=]+)=([0-9.eE+-]+)$/.exec(flag);
    if (parts === null) throw usageError(`--share ${flag}: give app=weight, such as camera=3 or '*=1'`);
    shares[parts[1]!] = Number(parts[2]);
  }
  const problem = sharesProblem(shares);
  if (problem !== undefined) throw usageError(`--share: ${problem}`);
  return shares;
}

function progress({ name, state }: ModelStatus, json: boolean | undefined): void {
  if (json !== true) note(`${name}: ${state}`);
}
