/** A folder of pipelines: every *.yaml file declares one, and their functions are in files beside them. */
import { readFile, readdir } from "node:fs/promises";
import { join } from "node:path";
import { PipelineDeclarationError, type PipelineSpec, parsePipeline } from "@tutti/pipelines";
import { parse } from "yaml";
import { CommandError } from "@tutti/admin";

/** Maximum number of pipelines in one folder; more are a mistake. */
export const PIPELINES_MAX = 256;

/** @throws {CommandError} naming each unreadable file, and what to do */
export async function readPipelines(folder: string): Promise<PipelineSpec[]> {
  const names = await readdir(folder).catch((error: Error) => {
    throw new CommandError(`--pipelines ${folder}: ${error.message}`);
  });
  const files = names.filter((name) => /\.ya?ml$/.test(name)).sort();
  if (files.length === 0) throw new CommandError(`--pipelines ${folder}: no *.yaml file in it declares a pipeline`);
  if (files.length > PIPELINES_MAX)
    throw new CommandError(
      `--pipelines ${folder}: ${files.length} pipelines, at most ${PIPELINES_MAX} (PIPELINES_MAX)`,
    );
  const specs = await Promise.all(files.map((name) => readPipeline(join(folder, name))));
  const twice = specs.find(({ name }, index) => specs.findIndex((other) => other.name === name) !== index);
  if (twice === undefined) return specs;
  throw new CommandError(
    `--pipelines ${folder}: two pipelines are called "${twice.name}"; give each a name of its own`,
  );
}

async function readPipeline(path: string): Promise<PipelineSpec> {
  try {
    return parsePipeline(parse(await readFile(path, "utf8"), { maxAliasCount: 100 }) as unknown, path);
  } catch (error) {
    if (error instanceof PipelineDeclarationError) throw new CommandError(error.message);
    throw new CommandError(`${path}: ${error instanceof Error ? error.message : String(error)}`);
  }
}

/** All functions that their stages call: `./module.ts#name`. */
export const functionsOf = (specs: readonly PipelineSpec[]): string[] => [
  ...new Set(specs.flatMap(({ stages, finish }) => [...stages.map(({ before }) => before), finish])),
];

/**
 * Checks pipelines before anything starts.
 * @throws {CommandError} a file is invalid, or a pipeline has a model's name: both are targets of requests
 */
export async function checkPipelines(folder: string | undefined, models: readonly string[]): Promise<void> {
  if (folder === undefined) return;
  for (const { name } of await readPipelines(folder))
    if (models.includes(name))
      throw new CommandError(`a pipeline and a model are both called "${name}", and requests name either: rename one`);
}
