/** A folder of pipelines: every *.yaml file declares one, and their functions are in files beside them. */
import { readFile, readdir } from "node:fs/promises";
import { join } from "node:path";
import { CommandError } from "@tutti/admin";
import { PipelineDeclarationError, type PipelineSpec, parsePipeline } from "@tutti/pipelines";
import { type Document, LineCounter, isNode, parseDocument } from "yaml";

/** Maximum number of pipelines in one folder; more are a mistake. */
export const PIPELINES_MAX = 256;

/** A function that a pipeline names: `./module.ts#name`. */
export interface NamedFunction {
  readonly reference: string;
  /** File, line and key: `pipelines/ocr.yaml:7: before of stage lines`. */
  readonly where: string;
}

export interface PipelineFile {
  readonly spec: PipelineSpec;
  readonly functions: readonly NamedFunction[];
}

/** @throws {CommandError} naming each unreadable file, and what to do */
export async function readPipelineFiles(folder: string): Promise<PipelineFile[]> {
  const names = await readdir(folder).catch((error: NodeJS.ErrnoException) => {
    const why = error.code === "ENOENT" ? "there is no such folder" : `it can't be read (${error.code})`;
    throw new CommandError(`pipelines in ${folder}: ${why}`, undefined, error);
  });
  const files = names.filter((name) => /\.ya?ml$/.test(name)).sort();
  if (files.length === 0) throw new CommandError(`pipelines in ${folder}: no *.yaml file in it declares a pipeline`);
  if (files.length > PIPELINES_MAX)
    throw new CommandError(
      `pipelines in ${folder}: ${files.length} pipelines, at most ${PIPELINES_MAX} (PIPELINES_MAX)`,
    );
  const read = await Promise.all(files.map((name) => readPipeline(join(folder, name))));
  const all = read.map(({ spec }) => spec.name);
  const twice = all.find((name, index) => all.indexOf(name) !== index);
  if (twice === undefined) return read;
  throw new CommandError(`pipelines in ${folder}: two pipelines are called "${twice}"; give each a name of its own`);
}

/**
 * The declarations alone.
 * @throws {CommandError} as readPipelineFiles
 */
export const readPipelines = async (folder: string): Promise<PipelineSpec[]> =>
  (await readPipelineFiles(folder)).map(({ spec }) => spec);

async function readPipeline(path: string): Promise<PipelineFile> {
  try {
    const lineCounter = new LineCounter();
    const document = parseDocument(await readFile(path, "utf8"), { lineCounter });
    const [error] = document.errors;
    if (error !== undefined) throw error;
    const spec = parsePipeline(document.toJS({ maxAliasCount: 100 }) as unknown, path);
    return { spec, functions: functionsOf(spec, (key) => `${path}:${lineOf(document, lineCounter, key)}`) };
  } catch (error) {
    if (error instanceof PipelineDeclarationError) throw new CommandError(error.message);
    throw new CommandError(`${path}: ${error instanceof Error ? error.message : String(error)}`);
  }
}

type Key = readonly (string | number)[];

const functionsOf = ({ stages, finish }: PipelineSpec, placeOf: (key: Key) => string): NamedFunction[] => [
  ...stages.map(({ name, before }, i) => ({
    reference: before,
    where: `${placeOf(["stages", i, "before"])}: before of stage ${name}`,
  })),
  { reference: finish, where: `${placeOf(["finish"])}: finish` },
];

function lineOf(document: Document, lines: LineCounter, key: Key): number {
  const node = document.getIn(key, true);
  return isNode(node) && node.range ? lines.linePos(node.range[0]).line : 1;
}
