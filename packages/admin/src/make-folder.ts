import { mkdirSync, statSync } from "node:fs";
import { dirname } from "node:path";

/**
 * Makes a private folder, and those above it that are missing. Node's `recursive` tries for ever where a file system
 * such as /proc has no place for a folder.
 */
export function makeFolder(path: string): void {
  try {
    return mkdirSync(path, { mode: 0o700 });
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === "EEXIST" && isFolder(path)) return;
    if (code !== "ENOENT" || isFolder(dirname(path))) throw error;
  }
  makeFolder(dirname(path));
  makeFolder(path);
}

const isFolder = (path: string): boolean => statSync(path, { throwIfNoEntry: false })?.isDirectory() === true;
