import { mkdirSync, statSync } from "node:fs";
import { dirname } from "node:path";
import { CommandError } from "./failure.ts";

/**
 * Makes a folder, and those above it that are missing; private, unless `mode` says otherwise. Node's `recursive` tries
 * for ever where a file system such as /proc has no place for a folder.
 */
export function makeFolder(path: string, mode = 0o700): void {
  try {
    return mkdirSync(path, { mode });
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === "EEXIST" && isFolder(path)) return;
    if (code !== "ENOENT" || isFolder(dirname(path))) throw error;
  }
  makeFolder(dirname(path), mode);
  makeFolder(path, mode);
}

/** Makes a folder that a flag or a variable names. @throws {CommandError} it can't be made */
export function makeNamedFolder(name: string, path: string, mode?: number): void {
  try {
    makeFolder(path, mode);
  } catch (error) {
    throw new CommandError(`${name} ${path} can't be made: ${(error as Error).message}`, undefined, error);
  }
}

const isFolder = (path: string): boolean => statSync(path, { throwIfNoEntry: false })?.isDirectory() === true;
