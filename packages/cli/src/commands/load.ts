import { type ListedModel, ModelRegistry } from "@tutti/client";
import type { ModelConfig } from "@tutti/onnx-tools";
import { type ModelStatus, sharesProblem } from "@tutti/protocol";
import type { ClusterOptions } from "../cluster.ts";
import { withCluster } from "../connection.ts";
import { EXIT, usageError } from "../failure.ts";
import { type LoadableModel, listRepository, readModelFile } from "../models/model-repository.ts";
import { readSamples } from "../present/samples.ts";
import { modelsAsJson, renderModels } from "../models/model-table.ts";

export interface LoadCommandOptions extends ClusterOptions {
  readonly slo?: string;
  readonly maxBatch?: string;
  readonly patience?: string;
  /** `app=weight`, as often as wanted. */
  readonly share?: readonly string[];
  readonly name?: string;
  readonly config?: string;
  readonly profile?: string;
  readonly sample?: string;
  readonly timeout: string;
  readonly json?: boolean;
}

/** `tutti load <path>`: a model file, or a folder of models in Triton's layout. Waits until each is served or refused. */
export async function load(path: string, options: LoadCommandOptions): Promise<void> {
  const timeoutMs = Number(options.timeout) * 1000;
  if (!(timeoutMs > 0)) throw usageError(`--timeout ${options.timeout}: a number of seconds`);
  const loadable = await readModels(path, options);
  await withCluster({ ...options, name: "tutti-load" }, async (nats) => {
    const registry = new ModelRegistry(nats.store);
    const listed: ListedModel[] = [];
    for (const { model, bytes, samples } of loadable) {
      const spec = await registry.publish(model, { model: bytes, samples });
      const status = await registry.waitUntilServed(spec, {
        timeoutMs,
        onState: (state) => progress(state, options.json),
      });
      listed.push({ spec, status });
    }
    process.stdout.write(`${options.json === true ? JSON.stringify(modelsAsJson(listed)) : renderModels(listed)}\n`);
    if (listed.some(({ status }) => status?.state !== "ready")) process.exitCode = EXIT.failed;
  });
}

async function readModels(path: string, options: LoadCommandOptions): Promise<LoadableModel[]> {
  const flags = flagsOf(options);
  const one = async (file: string): Promise<LoadableModel> => {
    const loadable = await readModelFile({
      path: file,
      flags,
      ...(options.name !== undefined && { name: options.name }),
      ...(options.config !== undefined && { config: options.config }),
      ...(options.profile !== undefined && { profile: options.profile }),
    });
    if (options.sample === undefined) return loadable;
    return { ...loadable, samples: await readSamples(options.sample, loadable.model) };
  };
  if (path.endsWith(".onnx")) return [await one(path)];
  const { stat } = await import("node:fs/promises");
  const folder = await stat(path).then(
    (entry) => entry.isDirectory(),
    () => false,
  );
  if (!folder) return [await one(path)];
  if (options.name !== undefined) throw usageError("--name names one model: give the path of its file");
  return Promise.all((await listRepository(path)).map((model) => one(model.path)));
}

/** Flags as the configuration's own keys, so that they are checked where those are. */
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
  if (json !== true) process.stderr.write(`${name}: ${state}\n`);
}
