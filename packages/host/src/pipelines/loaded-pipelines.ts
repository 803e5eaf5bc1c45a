/** Pipelines whose functions are loaded: the command, `tutti up` and an ingress find the same mistakes. */
import { CommandError } from "@tutti/admin";
import { StepsMissingError, WorkerSteps } from "@tutti/node/steps";
import type { PipelineSpec } from "@tutti/pipelines";
import { readPipelineFiles } from "./pipeline-files.ts";

/**
 * Reads a folder's pipelines and loads the functions that they name. The steps run until they are closed.
 *
 * @param options.threads - that run the functions; by default half of the processors, at most 4
 * @throws {CommandError} a file is invalid, or names functions that don't exist: all of them, with file and line
 */
export async function loadPipelines(
  folder: string,
  options: { readonly threads?: number } = {},
): Promise<{ readonly specs: readonly PipelineSpec[]; readonly steps: WorkerSteps }> {
  const files = await readPipelineFiles(folder);
  const named = files.flatMap(({ functions }) => functions);
  const functions = [...new Set(named.map(({ reference }) => reference))];
  const steps = await WorkerSteps.start({ folder, functions, ...options }).catch((error: unknown) => {
    if (!(error instanceof StepsMissingError)) throw error;
    const texts = error.problems.flatMap(({ function: missing, text }) =>
      named.filter(({ reference }) => reference === missing).map(({ where }) => `${where}: ${text}`),
    );
    throw new CommandError(texts.join("\n"));
  });
  return { specs: files.map(({ spec }) => spec), steps };
}

/**
 * Reads a folder's pipelines and looks whether their functions exist.
 * @throws {CommandError} as loadPipelines
 */
export async function checkedPipelines(folder: string): Promise<readonly PipelineSpec[]> {
  const { specs, steps } = await loadPipelines(folder, { threads: 1 });
  await steps.close();
  return specs;
}

/**
 * Checks pipelines before anything starts.
 * @throws {CommandError} as loadPipelines, or a pipeline has a model's name: both are targets of requests
 */
export async function checkPipelines(folder: string | undefined, models: readonly string[]): Promise<void> {
  if (folder === undefined) return;
  for (const { name } of await checkedPipelines(folder))
    if (models.includes(name))
      throw new CommandError(`a pipeline and a model are both called "${name}", and requests name either: rename one`);
}
