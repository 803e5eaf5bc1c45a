/** The files of `tutti jobs submit`, and their results. */
import { createHash } from "node:crypto";
import { readFile, readdir, rename, stat, writeFile } from "node:fs/promises";
import { basename, dirname, extname, join, relative, resolve, sep } from "node:path";
import { CommandError, fileProblem, EXIT, makeFolder } from "@tutti/admin";
import type { TensorValue } from "@tutti/client";
import { writeNpy } from "@tutti/onnx-tools";
import { INPUT_EXTENSIONS } from "./input-file.ts";
import { outputsAsJson } from "./output-text.ts";

/** Files of one command; more are several folders, or a program with `submit()`. */
export const JOB_FILES_MAX = 1_000_000;
/** Hexadecimal digits of an id: two different inputs don't share one. */
const ID_LENGTH = 40;
const RESULT = ".json";
/** Ends the name of a file that is being written. */
const UNFINISHED = ".new";
/** The bound of common file systems. */
const FILE_NAME_BYTES_MAX = 255;
export const RESULT_FORMATS = ["json", "npy"] as const;
export type ResultFormat = (typeof RESULT_FORMATS)[number];

export interface JobFile {
  readonly path: string;
  /** Where its result is written. */
  readonly out: string;
}

/**
 * All files of a folder, or those that a list names; each is there and of a kind that can be read.
 *
 * @throws {CommandError} naming the first that is not
 */
export async function jobFiles(path: string, out: string): Promise<JobFile[]> {
  const place = await stat(path).catch((error: NodeJS.ErrnoException) => {
    throw new CommandError(`${path}: ${fileProblem(error)}`);
  });
  const [root, files] = place.isDirectory() ? [path, await inFolder(path, out)] : [dirname(path), await inList(path)];
  if (files.length === 0)
    throw new CommandError(`${path} has no files that a model reads (${INPUT_EXTENSIONS.join(", ")})`);
  if (files.length > JOB_FILES_MAX)
    throw new CommandError(`${path} has ${files.length} files; one command takes up to ${JOB_FILES_MAX}`);
  const named = files.map((file) => ({ path: file, out: join(out, outName(root, file)) }));
  const byOut = new Map<string, string>();
  for (const { path: file, out: place_ } of named) {
    const other = byOut.get(place_);
    if (other !== undefined && other !== file)
      throw new CommandError(`${other} and ${file} would have one result, ${place_}: put them into one folder`);
    byOut.set(place_, file);
  }
  return [...byOut].map(([outPath, file]) => ({ path: file, out: outPath }));
}

/** Leaves out hidden files and folders, and results where they are written into the folder itself. */
async function inFolder(folder: string, out: string): Promise<string[]> {
  const results = relative(folder, out);
  if (results === "")
    throw new CommandError(`--out ${out} is the folder of the inputs: the results need one of their own`);
  const entries = await readdir(folder, { withFileTypes: true, recursive: true });
  return entries
    .filter((entry) => entry.isFile() && isReadable(entry.name))
    .map((entry) => relative(folder, join(entry.parentPath, entry.name)))
    .filter((path) => !path.split(sep).some((part) => part.startsWith(".")) && !path.startsWith(`${results}${sep}`))
    .map((path) => join(folder, path))
    .sort();
}

async function inList(list: string): Promise<string[]> {
  const lines = (await readFile(list, "utf8")).split(/\r?\n/);
  const files: string[] = [];
  for (const [index, line] of lines.entries()) {
    if (line.trim() === "") continue;
    const path = resolve(dirname(list), line.trim());
    const at = `${list}:${index + 1}`;
    if (!isReadable(path)) throw new CommandError(`${at}: ${line.trim()} is none of ${INPUT_EXTENSIONS.join(", ")}`);
    const found = await stat(path).catch(() => undefined);
    if (found?.isFile() !== true) throw new CommandError(`${at}: there is no file ${path}`);
    files.push(path);
  }
  return files;
}

const isReadable = (path: string): boolean => INPUT_EXTENSIONS.includes(extname(path).toLowerCase());

/** Below the folder by its path; a file from elsewhere by its name. */
function outName(root: string, file: string): string {
  const path = relative(resolve(root), resolve(file));
  return `${path.startsWith("..") ? basename(file) : path}${RESULT}`;
}

/**
 * The id of a file's job. The same input of the same application for the same model is the same job, so that it runs
 * once, however often the command is run.
 */
export function jobIdOfFile(
  bytes: Uint8Array,
  { app, model, outputs = "" }: { readonly app: string; readonly model: string; readonly outputs?: string | undefined },
): string {
  return createHash("sha256").update(`${app}\n${model}\n${outputs}\n`).update(bytes).digest("hex").slice(0, ID_LENGTH);
}

/** Whether the result of this job lies there already, in this form. */
export async function hasResult(path: string, id: string, format: ResultFormat): Promise<boolean> {
  try {
    const found = JSON.parse(await readFile(path, "utf8")) as { readonly id?: unknown; readonly outputs: object[] };
    return found.id === id && found.outputs.every((output) => (format === "npy") === "npy" in output);
  } catch {
    return false; // absent, or of something else
  }
}

/**
 * Writes the result of a file's job. With `npy` each output is a file of its own, beside that of the result, which
 * comes last: where it is, they are.
 *
 * @throws {CommandError} naming the file that can't be written
 */
export async function writeResult(
  path: string,
  about: { readonly id: string } & Readonly<Record<string, unknown>>,
  { outputs, format }: { readonly outputs: Readonly<Record<string, TensorValue>>; readonly format: ResultFormat },
): Promise<void> {
  try {
    makeFolder(dirname(path), 0o777);
    const told = format === "json" ? outputsAsJson({ outputs }) : await writeArrays(path, outputs);
    await writeWhole(path, `${JSON.stringify({ ...about, outputs: told })}\n`);
  } catch (error) {
    const { message, code } = error as NodeJS.ErrnoException;
    throw code === undefined ? error : new CommandError(`its result can't be written: ${message}`, EXIT.failed, error);
  }
}

async function writeArrays(path: string, outputs: Readonly<Record<string, TensorValue>>): Promise<unknown[]> {
  const told: unknown[] = [];
  const stem = path.slice(0, -RESULT.length);
  const room = FILE_NAME_BYTES_MAX - Buffer.byteLength(`${basename(stem)}..npy${UNFINISHED}`);
  const taken = new Set<string>();
  for (const [name, { type, dims, data }] of Object.entries(outputs)) {
    const file = `${stem}.${freeName(name, room, taken)}.npy`;
    const bytes = new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
    await writeWhole(file, writeNpy({ type, dims, data: bytes }));
    told.push({ name, datatype: type, shape: dims, npy: basename(file) });
  }
  return told;
}

/**
 * Makes the part of a file's name that stands for an output, and notes it as taken. Names that differ in case alone
 * are one file on some machines.
 */
function freeName(output: string, room: number, taken: Set<string>): string {
  const plain = output.replaceAll(/[^\w.-]/g, "_");
  for (let count = 1; ; count++) {
    const suffix = count === 1 ? "" : `-${count}`;
    const name = `${plain.slice(0, Math.max(1, room - suffix.length))}${suffix}`;
    const asTaken = name.toLowerCase();
    if (taken.has(asTaken)) continue;
    taken.add(asTaken);
    return name;
  }
}

/** Renames into place: a command that is ended leaves no half of a file. */
async function writeWhole(path: string, content: string | Uint8Array): Promise<void> {
  await writeFile(`${path}${UNFINISHED}`, content);
  await rename(`${path}${UNFINISHED}`, path);
}
